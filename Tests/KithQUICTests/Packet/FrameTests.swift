import KithTesting
import KithWire
import Testing

@testable import KithQUIC

@Suite struct FrameTests {
    /// Writes with `body`, and reads the first frame back.
    private func roundTrip(_ body: (inout PacketWriter) -> Void, _ check: (Frame) -> Bool) throws -> Bool {
        var buffer = [UInt8](repeating: 0, count: 1500)
        return try buffer.withUnsafeMutableBytes { bytes in
            var writer = PacketWriter(bytes)
            body(&writer)
            var reader = PacketReader(UnsafeRawBufferPointer(rebasing: bytes[..<writer.count]))
            let frame = try Frame.read(&reader)
            return check(frame) && reader.isAtEnd
        }
    }

    private func read(_ bytes: [UInt8]) throws(TransportError) -> Int {
        let result = bytes.withUnsafeBytes { buffer -> Result<Int, TransportError> in
            do throws(TransportError) {
                var reader = PacketReader(buffer)
                var count = 0
                while !reader.isAtEnd {
                    _ = try Frame.read(&reader)
                    count += 1
                }
                return .success(count)
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    @Test func `every frame the connection writes reads back the same`() throws {
        let id = try #require(ConnectionID([1, 2, 3, 4, 5]))
        let token = try #require(ResetToken([UInt8](repeating: 3, count: 16)))
        #expect(try roundTrip({ $0.ping() }) { if case .ping = $0 { true } else { false } })
        #expect(try roundTrip({ $0.handshakeDone() }) { if case .handshakeDone = $0 { true } else { false } })
        #expect(
            try roundTrip({ $0.retireConnectionID(70_000) }) {
                if case .retireConnectionID(70_000) = $0 { true } else { false }
            })
        #expect(
            try roundTrip({ $0.pathChallenge(.max) }) {
                if case .pathChallenge(.max) = $0 { true } else { false }
            })
        #expect(try roundTrip({ $0.pathResponse(5) }) { if case .pathResponse(5) = $0 { true } else { false } })
        #expect(
            try roundTrip({ $0.newConnectionID(sequence: 9, retirePriorTo: 2, id: id, token: token) }) {
                if case .newConnectionID(9, 2, id, token) = $0 { true } else { false }
            })
        #expect(
            try roundTrip({ $0.connectionClose(code: 0xA, frameType: 6, reason: [65, 66]) }) {
                if case .connectionClose(0xA, 6, let reason) = $0 { Array(reason) == [65, 66] } else { false }
            })
        #expect(
            try roundTrip({ $0.applicationClose(code: 1 << 40, reason: []) }) {
                if case .applicationClose(1 << 40, let reason) = $0 { reason.isEmpty } else { false }
            })
        #expect(
            try roundTrip({ $0.datagram([1, 2, 3]) }) {
                if case .datagram(let bytes) = $0 { Array(bytes) == [1, 2, 3] } else { false }
            })
    }

    @Test func `an observed address is read back as it was written, of either family`() throws {
        let addresses = ["192.0.2.1:4433", "[2001:db8::1]:65535", "0.0.0.0:0"].compactMap { NetworkAddress($0) }
        #expect(addresses.count == 3)
        for (address, sequence) in zip(addresses, [0, 70_000, 1 << 62 - 1] as [UInt64]) {
            #expect(
                try roundTrip({ $0.observedAddress(sequence: sequence, address) }) {
                    if case .observedAddress(sequence, address) = $0 {
                        $0.isAckEliciting && $0.isProbing
                    } else {
                        false
                    }
                })
        }
    }

    @Test func `an observed address has the bytes of the draft`() throws {
        let ipv4: [UInt8] = [0x80, 0x9F, 0x81, 0xA6, 5, 192, 0, 2, 1, 0x11, 0x51]
        let ipv6: [UInt8] =
            [0x80, 0x9F, 0x81, 0xA7, 6] + [0x20, 1, 0x0D, 0xB8] + Array(repeating: 0, count: 11) + [1, 0, 7]
        for (bytes, text) in [(ipv4, "192.0.2.1:4433"), (ipv6, "[2001:db8::1]:7")] {
            let address = try #require(NetworkAddress(text))
            var buffer = [UInt8](repeating: 0, count: 64)
            let count = buffer.withUnsafeMutableBytes { buffer in
                var writer = PacketWriter(buffer)
                writer.observedAddress(sequence: bytes[4] == 5 ? 5 : 6, address)
                return writer.count
            }
            #expect(Array(buffer[..<count]) == bytes)
            for length in 4..<bytes.count {
                #expect { try read(Array(bytes[..<length])) } throws: { ($0 as? TransportError)?.code == 0x7 }
            }
        }
    }

    @Test func `a stream frame without a length runs to the end of the packet`() throws {
        let bytes: [UInt8] = [0x0D, 4, 0x40, 100, 9, 8, 7]
        try bytes.withUnsafeBytes { buffer in
            var reader = PacketReader(buffer)
            guard case .stream(4, 100, let data, true) = try Frame.read(&reader) else {
                Issue.record("another frame")
                return
            }
            #expect(Array(data) == [9, 8, 7])
        }
    }

    @Test func `acknowledged ranges are told largest first`() throws {
        // 10…12, then a gap of 2 (8, 9), then 5…7.
        let bytes: [UInt8] = [0x03, 12, 0, 1, 2, 1, 2, 4, 5, 6]
        try bytes.withUnsafeBytes { buffer in
            var reader = PacketReader(buffer)
            guard case .acknowledgement(let frame) = try Frame.read(&reader) else {
                Issue.record("another frame")
                return
            }
            var ranges: [ClosedRange<UInt64>] = []
            frame.forEachRange { ranges.append($0...$1) }
            #expect(ranges == [10...12, 5...7])
            #expect(frame.counts?.ce == 6)
            #expect(reader.isAtEnd)
        }
    }

    @Test(
        arguments: [
            [0x02, 5, 0, 0, 6],  // a range below zero
            [0x02, 5, 0, 1, 5, 0, 0],  // a gap below zero
            [0x02, 5, 0, 0xBF, 0xFF, 0xFF, 0xFF, 0],  // a count beyond the packet
            [0x07, 0],  // an empty token
            [0x18, 1, 2, 4, 1, 2, 3, 4] + [UInt8](repeating: 0, count: 16),  // retires itself
            [0x18, 1, 0, 0] + [UInt8](repeating: 0, count: 16),  // an empty id
            [0x18, 1, 0, 21] + [UInt8](repeating: 0, count: 37),  // an id too long
            [0x12, 0xD0, 0, 0, 0, 0, 0, 0, 1],  // more streams than there are ids
            [0x0C, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1],  // beyond 2⁶²−1
            [0x21], [0x1F],
        ] as [[UInt8]])
    func `a malformed frame is a FRAME_ENCODING_ERROR`(bytes: [UInt8]) {
        #expect { try read(bytes) } throws: { ($0 as? TransportError)?.code == 0x7 }
    }

    @Test func `a frame type in a longer form than needed is a PROTOCOL_VIOLATION`() {
        #expect { try read([0x40, 0x01]) } throws: { ($0 as? TransportError)?.code == 0xA }
    }

    @Test func `every frame cut short anywhere is refused`() throws {
        var buffer = [UInt8](repeating: 0, count: 200)
        let id = try #require(ConnectionID([1, 2, 3, 4]))
        let token = try #require(ResetToken([UInt8](repeating: 3, count: 16)))
        let count = buffer.withUnsafeMutableBytes { bytes in
            var writer = PacketWriter(bytes)
            writer.newConnectionID(sequence: 300, retirePriorTo: 1, id: id, token: token)
            return writer.count
        }
        for length in 1..<count {
            #expect(throws: TransportError.self) { try read(Array(buffer[..<length])) }
        }
        #expect(try read(Array(buffer[..<count])) == 1)
    }

    @Test func `random bytes never trap`() {
        var random = SeededRandom.fromEnvironment()
        print("seed \(random.seed)")
        for _ in 0..<20_000 {
            var bytes = random.bytes(Int.random(in: 0...80, using: &random))
            if !bytes.isEmpty { bytes[0] &= 0x3F }
            _ = try? read(bytes)  // malformed input is expected
            bytes.withUnsafeBytes { _ = DatagramHeader($0) }
        }
    }
}
