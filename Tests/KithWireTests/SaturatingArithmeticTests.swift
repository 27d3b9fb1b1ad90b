import KithWire
import Testing

@Suite struct SaturatingArithmeticTests {
    @Test func `sums and differences stop at the bounds`() {
        #expect(Int64.max.saturatingAdding(1) == .max)
        #expect(Int64.min.saturatingAdding(-1) == .min)
        #expect(Int64.max.saturatingSubtracting(.min) == .max)
        #expect(Int64.min.saturatingSubtracting(.max) == .min)
        #expect((0 as Int64).saturatingSubtracting(.min) == .max)
        #expect((-1 as Int64).saturatingSubtracting(.min) == .max)
        #expect(UInt64.max.saturatingAdding(1) == .max)
        #expect((1 as UInt64).saturatingSubtracting(2) == 0)
        #expect((3 as UInt8).saturatingAdding(4) == 7 && (-3 as Int8).saturatingSubtracting(4) == -7)
    }

    @Test func `announced sizes add up to what there can be or to an error`() throws {
        #expect(try (1 as UInt64).adding(announced: 2) == 3)
        #expect(throws: KithError.self) { try UInt64.max.adding(announced: 1) }
    }
}
