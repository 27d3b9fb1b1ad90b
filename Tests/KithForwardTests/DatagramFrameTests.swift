import KithAPI
import KithForward
import KithTesting
import KithWire
import Testing

@Suite struct DatagramFrameTests {
    @Test func `frames survive however the bytes are cut`() throws {
        var random = SeededRandom.fromEnvironment()
        print(random)
        for _ in 0..<200 {
            let frames = (0..<Int.random(in: 1...8, using: &random)).map { _ in Self.frame(&random) }
            let bytes = frames.flatMap(\.encoded)
            var decoder = DatagramFrameDecoder()
            var read: [DatagramFrame] = []
            var start = 0
            while start < bytes.count {
                let end = min(bytes.count, start + Int.random(in: 1...5_000, using: &random))
                decoder.append(Array(bytes[start..<end]))
                while let frame = try decoder.next() { read.append(frame) }
                start = end
            }
            #expect(read == frames, "\(random)")
        }
    }

    @Test(arguments: [
        [0x00], [0x01, 0x05], [0x02, 0x03, 0x05], [0x06, 0x03, 0x01, 0x20, 0x00, 0x50, 0x00], [0x04, 0x04, 1, 2, 3],
        [0xC0, 0, 0, 1, 0, 0, 0, 0], [0x05, 0x03, 0x00, 0x00, 0x50, 0x00],
    ])
    func `a malformed frame is refused`(bytes: [UInt8]) {
        var decoder = DatagramFrameDecoder()
        decoder.append(bytes)
        #expect(throws: KithError(.invalid, "")) { try decoder.next() }
    }

    @Test func `random bytes never do more than fail`() {
        var random = SeededRandom.fromEnvironment()
        print(random)
        for _ in 0..<5_000 {
            var decoder = DatagramFrameDecoder()
            decoder.append(random.bytes(Int.random(in: 0...64, using: &random)))
            do {
                while let frame = try decoder.next() { #expect(frame.encoded.count <= 80, "\(random)") }
            } catch {
                #expect(error.code == .invalid, "\(random)")
            }
        }
    }

    private static func frame(_ random: inout SeededRandom) -> DatagramFrame {
        let port = UInt16.random(in: 0...65_535, using: &random)
        let others: [Forward.Endpoint?] = [
            nil, .address(NetworkAddress(ipv4: UInt32(truncatingIfNeeded: random.next()), port: port)),
            .address(NetworkAddress(ipv6: random.next() | 1 << 63, random.next(), port: port)),
            .name("a.example", port: port),
        ]
        let size = [0, 1, 500, DatagramFrame.longestPayload].randomElement(using: &random) ?? 0
        return DatagramFrame(
            other: others[Int.random(in: 0..<4, using: &random)], payload: random.bytes(size))
    }
}
