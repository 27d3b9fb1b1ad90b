import Testing

@testable import KithQUIC

@Suite struct PacketHeaderTests {
    private func parse(_ bytes: [UInt8]) -> (kind: PacketHeader.Kind, numberOffset: Int, length: Int)? {
        bytes.withUnsafeBytes { buffer in
            PacketHeader.read(buffer, localConnectionIDLength: 8).map { ($0.kind, $0.numberOffset, $0.length) }
        }
    }

    @Test func `a long header reads back as written`() throws {
        let destination = try #require(ConnectionID([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]))
        let source = try #require(ConnectionID([20, 21, 22]))
        var buffer = [UInt8](repeating: 0, count: 200)
        try buffer.withUnsafeMutableBytes { bytes in
            var writer = PacketWriter(bytes)
            let offset = writer.longHeader(
                .initial, .one, destination: destination, source: source, token: [7, 7], number: 0x1234,
                numberLength: 2)
            let expected = PacketWriter.longHeaderLength(
                .initial, destination: destination, source: source, token: [7, 7], numberLength: 2)
            #expect(writer.count == expected)
            writer.patchLength(52, at: offset)
            let header = try #require(PacketHeader.read(UnsafeRawBufferPointer(bytes), localConnectionIDLength: 8))
            #expect(header.kind == .initial)
            #expect(header.destination == destination)
            #expect(header.source == source)
            #expect(Array(header.token) == [7, 7])
            #expect(header.numberOffset == writer.count - 2)
            #expect(header.length == header.numberOffset + 52)
            let outside = try #require(DatagramHeader(UnsafeRawBufferPointer(bytes)))
            #expect(outside.form == .initial)
            #expect(outside.destination == destination)
            #expect(outside.source == source)
        }
    }

    @Test func `a short header has the local length of ids`() throws {
        let id = ConnectionID(random: 0x0102_0304_0506_0708)
        var buffer = [UInt8](repeating: 0, count: 40)
        buffer.withUnsafeMutableBytes { bytes in
            var writer = PacketWriter(bytes)
            writer.shortHeader(destination: id, keyPhase: true, number: 0xABCDEF, numberLength: 3)
            #expect(writer.count == 12)
        }
        #expect(buffer[0] == 0x46)
        #expect(Array(buffer[9..<12]) == [0xAB, 0xCD, 0xEF])
        let header = buffer.withUnsafeBytes { DatagramHeader($0) }
        #expect(header?.form == .short)
        #expect(header?.destination == id)
        #expect(header?.destination.bytes == id.bytes)
    }

    @Test func `what is no packet is refused`() {
        #expect(parse([]) == nil)
        #expect(parse([0x40]) == nil)
        // The fixed bit may have any value (RFC 9287 §3).
        #expect(parse([UInt8](repeating: 0, count: 40))?.kind == .short)
        // A connection id of 21 bytes.
        #expect(parse([0xC0, 0, 0, 0, 1, 21] + [UInt8](repeating: 0, count: 60)) == nil)
        // A length beyond the datagram.
        #expect(parse([0xE0, 0, 0, 0, 1, 0, 0, 0x41, 0x00] + [UInt8](repeating: 0, count: 60)) == nil)
        // An unknown version says nothing about the rest.
        #expect(parse([0xC0, 9, 9, 9, 9, 0, 0] + [UInt8](repeating: 0, count: 60)) == nil)
    }

    @Test func `packet numbers decode as in RFC 9000 Appendix A`() {
        // Appendix A.3: 0xa82f30ea is the largest, 0x9b32 arrives in two bytes.
        #expect(PacketNumber.decode(0x9B32, length: 2, largestReceived: 0xA82F_30EA) == 0xA82F_9B32)
        #expect(PacketNumber.decode(0, length: 1, largestReceived: nil) == 0)
        for largest: UInt64 in [0, 1, 127, 128, 255, 256, 65_534, 65_535, 1 << 24, 1 << 40] {
            for ahead: UInt64 in [1, 2, 50, 1000, 30_000, 100_000] {
                let number = largest + ahead
                let length = PacketNumber.encodedLength(number, largestAcknowledged: largest)
                let truncated = number & (1 << (8 * UInt64(length)) - 1)
                #expect(PacketNumber.decode(truncated, length: length, largestReceived: largest) == number)
            }
        }
    }

    @Test func `variable-length integers are as in RFC 9000 Appendix A`() throws {
        let vectors: [(UInt64, [UInt8])] = [
            (151_288_809_941_952_652, [0xC2, 0x19, 0x7C, 0x5E, 0xFF, 0x14, 0xE8, 0x8C]),
            (494_878_333, [0x9D, 0x7F, 0x3E, 0x7D]), (15_293, [0x7B, 0xBD]), (37, [0x25]),
        ]
        for (value, bytes) in vectors {
            let read = try bytes.withUnsafeBytes { buffer in
                var reader = PacketReader(buffer)
                return try reader.varint()
            }
            #expect(read == value)
            var buffer = [UInt8](repeating: 0, count: 8)
            let count = buffer.withUnsafeMutableBytes { target in
                var writer = PacketWriter(target)
                writer.varint(value)
                return writer.count
            }
            #expect(Array(buffer[..<count]) == bytes)
            for length in 0..<bytes.count {
                #expect(throws: Truncated.self) {
                    try bytes[..<length].withUnsafeBytes { buffer in
                        var reader = PacketReader(buffer)
                        _ = try reader.varint()
                    }
                }
            }
        }
    }

    @Test func `connection ids of every length keep their bytes`() throws {
        for count in 0...20 {
            let bytes = (0..<UInt8(count)).map { $0 &* 13 &+ 1 }
            let id = try #require(ConnectionID(bytes))
            let copied = bytes.withUnsafeBytes { ConnectionID(copying: $0) }
            #expect(id == copied)
            #expect(id.bytes == bytes)
            #expect(id.count == count)
        }
        #expect(ConnectionID([UInt8](repeating: 0, count: 21)) == nil)
    }
}
