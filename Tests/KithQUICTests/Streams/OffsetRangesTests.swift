import KithTesting
import Testing

@testable import KithQUIC

@Suite struct OffsetRangesTests {
    @Test func `touching ranges become one`() {
        var ranges = OffsetRanges()
        ranges.insert(0..<10)
        ranges.insert(20..<30)
        ranges.insert(10..<20)
        #expect(ranges.count == 1)
        #expect(ranges.first == 0..<30)
    }

    @Test func `taking from the lower end splits`() {
        var ranges = OffsetRanges()
        ranges.insert(5..<15)
        #expect(ranges.takeFirst(upTo: 4) == 5..<9)
        #expect(ranges.takeFirst(upTo: 100) == 9..<15)
        #expect(ranges.takeFirst(upTo: 1) == nil)
    }

    @Test(arguments: 0..<40) func `it agrees with a set of numbers`(round: UInt64) {
        var random = SeededRandom(seed: 0x0FF5_E700 &+ round)
        var ranges = OffsetRanges()
        var model = Set<UInt64>()
        let space: UInt64 = round % 2 == 0 ? 60 : 900
        for _ in 0..<400 {
            let lower = UInt64.random(in: 0..<space, using: &random)
            let upper = min(space, lower + UInt64.random(in: 0..<space / 6, using: &random))
            switch UInt8.random(in: 0..<5, using: &random) {
            case 0, 1:
                ranges.insert(lower..<upper)
                for value in lower..<upper { model.insert(value) }
            case 2, 3:
                ranges.remove(lower..<upper)
                for value in lower..<upper { model.remove(value) }
            default:
                let taken = ranges.takeFirst(upTo: upper - lower)
                #expect((taken == nil) == (model.isEmpty || upper == lower), "\(random)")
                if let taken {
                    #expect(taken.lowerBound == model.min(), "\(random)")
                    for value in taken { #expect(model.remove(value) != nil, "\(random)") }
                }
            }
            #expect(ranges.total == UInt64(model.count), "\(random)")
            let probe = UInt64.random(in: 0..<space, using: &random)
            #expect(ranges.contains(probe) == model.contains(probe), "\(random)")
            #expect(ranges.contains(lower..<upper) == (lower..<upper).allSatisfy(model.contains), "\(random)")
            for position in 0..<max(0, ranges.count - 1) {
                #expect(ranges[position].upperBound < ranges[position + 1].lowerBound, "\(random)")
            }
            #expect(ranges.first?.lowerBound == model.min(), "\(random)")
            #expect(ranges.last.map { $0.upperBound - 1 } == model.max(), "\(random)")
        }
    }
}
