import KithWire
import Testing

@Suite struct ByteReaderTests {
    @Test func `integers are big-endian`() throws {
        var writer = ByteWriter()
        writer.integer(0x01 as UInt8)
        writer.integer(0x0203 as UInt16)
        writer.integer(0x0405_0607 as UInt32)
        writer.integer(0x0809_0A0B_0C0D_0E0F as UInt64)
        #expect(writer.bytes == Array(1...15))
        let bytes = writer.bytes
        var reader = ByteReader(bytes)
        expect(try reader.integer(as: UInt8.self), is: 1)
        expect(try reader.integer(as: UInt16.self), is: 0x0203)
        expect(try reader.integer(as: UInt32.self), is: 0x0405_0607)
        expect(try reader.integer(as: UInt64.self), is: 0x0809_0A0B_0C0D_0E0F)
        try reader.finish()
    }

    @Test(
        arguments: [
            ("c2197c5eff14e88c", 151_288_809_941_952_652), ("9d7f3e7d", 494_878_333), ("7bbd", 15_293), ("25", 37),
            ("4025", 37),
        ] as [(String, UInt64)])
    func `varints are those of RFC 9000 A 1`(hex: String, value: UInt64) throws {
        let bytes = try #require(Hex.decode(hex))
        var reader = ByteReader(bytes)
        expect(try reader.varint(), is: value)
        try reader.finish()
        if hex != "4025" {
            var writer = ByteWriter()
            writer.varint(value)
            #expect(writer.bytes == bytes)
        }
    }

    @Test func `a varint takes the shortest of four lengths`() throws {
        for (value, length) in [
            (0, 1), (63, 1), (64, 2), (16_383, 2), (16_384, 4), (1 << 30 - 1, 4), (1 << 30, 8), (1 << 62 - 1, 8),
        ] as [(UInt64, Int)] {
            var writer = ByteWriter()
            writer.varint(value)
            #expect(writer.bytes.count == length && ByteWriter.varintLength(value) == length)
            let bytes = writer.bytes
            var reader = ByteReader(bytes)
            expect(try reader.varint(), is: value)
        }
    }

    @Test func `a failed read takes nothing`() throws {
        let bytes: [UInt8] = [0xC0, 0x01, 0x02]
        var reader = ByteReader(bytes)
        expect(.truncated(needed: 8, left: 3)) { () throws(WireError) in _ = try reader.varint() }
        expect(.truncated(needed: 4, left: 3)) { () throws(WireError) in _ = try reader.integer(as: UInt32.self) }
        expect(.truncated(needed: 4, left: 3)) { () throws(WireError) in _ = try reader.bytes(4) }
        expect(.truncated(needed: 4, left: 3)) { () throws(WireError) in try reader.skip(4) }
        expect(.truncated(needed: -1, left: 3)) { () throws(WireError) in _ = try reader.span(-1) }
        expect(.trailing(3)) { () throws(WireError) in try reader.finish() }
        expect(reader.position, is: 0)
        expect(reader.remaining, is: 3)
        expect(try reader.bytes(3), is: bytes)
        expect(reader.isAtEnd, is: true)
    }

    @Test func `a length beyond the limit is refused before anything is allocated`() throws {
        var writer = ByteWriter()
        writer.varint(1 << 62 - 1)
        let bytes = writer.bytes
        var reader = ByteReader(bytes)
        expect(.tooLong(limit: 10, actual: 1 << 62 - 1)) { () throws(WireError) in
            _ = try reader.prefixedBytes(limit: 10)
        }
        expect(.truncated(needed: 1 << 62 - 1, left: 0)) { () throws(WireError) in
            _ = try reader.prefixedBytes(limit: .max)
        }
        expect(reader.position, is: 0)
    }

    @Test func `spans and runs see the same bytes`() throws {
        var writer = ByteWriter()
        writer.prefixedBytes([7, 8, 9])
        writer.bytes([1, 2, 3].lazy.map { $0 + 1 })
        let bytes = writer.bytes
        var reader = ByteReader(bytes)
        expect(try reader.prefixedBytes(limit: 3), is: [7, 8, 9])
        let span = try reader.span(2)
        expect([UInt8(span.count), span[0], span[1]], is: [2, 2, 3])
        expect(reader.remaining, is: 1)
    }

    /// `#expect` cannot look into a value that does not escape.
    private func expect<Value: Equatable>(
        _ value: Value, is wanted: Value, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        #expect(value == wanted, sourceLocation: sourceLocation)
    }

    private func expect(_ error: WireError, from body: () throws(WireError) -> Void) {
        do {
            try body()
            Issue.record("no error")
        } catch let thrown {
            #expect(thrown == error)
        }
    }
}
