import KithIdentity
import KithReach
import Testing

/// The relay protocol over QUIC, byte by byte.
@Suite("The relay protocol over QUIC") struct RelayQUICTests {
    private let key: DeviceID
    private let other: DeviceID

    init() throws {
        key = try DeviceKey(seed: [UInt8](repeating: 1, count: 32)).id
        other = try DeviceKey(seed: [UInt8](repeating: 2, count: 32)).id
    }

    @Test func `the stream is what the table says, to the byte`() {
        #expect(RelayStreamMessage.hello(token: nil).bytes == [0, 1, 14])
        #expect(RelayStreamMessage.hello(token: "ab").bytes == [0, 3, 14, 0x61, 0x62])
        #expect(RelayStreamMessage.frame(.confirmed).bytes == [0, 1, 2])
        #expect(RelayStreamMessage.frame(.denied("no")).bytes == [0, 4, 3, 2, 0x6E, 0x6F])
        #expect(RelayStreamMessage.frame(.gone(key)).bytes == [0, 33, 8] + key.bytes)
        #expect(
            RelayStreamMessage.frame(.restarting(reconnectIn: 250, tryFor: 30_000)).bytes
                == [0, 9, 12, 0, 0, 0, 250, 0, 0, 0x75, 0x30])
        #expect(RelayStreamMessage.frame(.status(.rateLimited)).bytes == [0, 2, 13, 2])
    }

    @Test func `messages are read however the bytes come`() throws {
        let messages: [RelayStreamMessage] = [
            .hello(token: "secret"), .frame(.send(to: other, RelayedDatagrams([1, 2, 3]))),
            .frame(.send(to: key, RelayedDatagrams([UInt8](repeating: 9, count: 1_200)))),
        ]
        let bytes = messages.flatMap(\.bytes)
        for length in [1, 2, 3, 7, 100, bytes.count] {
            var reader = RelayStreamReader(from: .client)
            var read: [RelayStreamMessage] = []
            var start = 0
            while start < bytes.count {
                let end = min(start + length, bytes.count)
                read += try reader.receive(Array(bytes[start..<end]))
                start = end
            }
            #expect(read == messages)
        }
    }

    @Test func `what does not belong on the stream is refused`() {
        let hello = RelayStreamMessage.hello(token: nil).bytes
        let confirmed = RelayStreamMessage.frame(.confirmed).bytes
        let client: [[UInt8]] = [
            // Nothing before the hello, no second one, no frame of the relay, none of the other carriers.
            RelayStreamMessage.frame(.send(to: key, RelayedDatagrams([1]))).bytes, hello + hello, hello + confirmed,
            hello + RelayStreamMessage.framed(RelayFrame.ping([UInt8](0..<8)).bytes),
            hello + RelayStreamMessage.framed(RelayFrame.send(to: key, RelayedDatagrams([1], segmentSize: 1)).bytes),
            hello + RelayStreamMessage.framed(RelayFrame.received(from: key, RelayedDatagrams([1])).bytes),
            // No length of nothing, none beyond the bound, no token that is too long, or not text.
            hello + [0, 0], hello + [8, 1], [2, 2, 14] + [UInt8](repeating: 0x61, count: 513), [0, 2, 14, 0xFF],
        ]
        for bytes in client {
            var reader = RelayStreamReader(from: .client)
            #expect(throws: RelayFrameError.self) { try reader.receive(bytes) }
        }
        let relay: [[UInt8]] = [
            hello, RelayStreamMessage.frame(.gone(key)).bytes, confirmed + confirmed,
            confirmed + RelayStreamMessage.framed(RelayFrame.health("x").bytes),
            confirmed + RelayStreamMessage.framed(RelayFrame.challenge([UInt8](0..<16)).bytes),
            confirmed + RelayStreamMessage.framed([8, 1]),
        ]
        for bytes in relay {
            var reader = RelayStreamReader(from: .relay)
            #expect(throws: RelayFrameError.self) { try reader.receive(bytes) }
        }
    }

    @Test func `the front of a frame is read without what follows, and turned in place`() throws {
        let single = RelayFrame.send(to: other, RelayedDatagrams([1, 2, 3], ecn: 2)).bytes
        let header = try RelayedHeader(single, from: .client)
        #expect(header.device == other && header.segmentSize == nil && header.start == 34)
        var turned = single
        RelayedHeader.turn(&turned, toFrameFrom: key)
        #expect(turned == RelayFrame.received(from: key, RelayedDatagrams([1, 2, 3], ecn: 2)).bytes)
        let batch = try RelayedHeader(
            RelayFrame.received(from: key, RelayedDatagrams([1, 2, 3], segmentSize: 2)).bytes, from: .relay)
        #expect(batch.device == key && batch.segmentSize == 2 && batch.start == 36)
    }

    @Test func `a frame of datagrams that is none is refused`() {
        let single = RelayFrame.send(to: other, RelayedDatagrams([1])).bytes
        let (front, rest): ([UInt8], [UInt8]) = (Array(single[1..<33]), Array(single.dropFirst()))
        let wrong: [[UInt8]] = [
            [], [4], Array(single.dropLast()), [6] + rest, [8] + rest, [4] + front + [4, 1],
            [5] + front + [0, 0, 0, 1], [5] + front + [0, 0, 1],
        ]
        for bytes in wrong {
            #expect(throws: RelayFrameError.self) { try RelayedHeader(bytes, from: .client) }
        }
    }

    @Test func `a batch is cut into frames of one datagram each`() {
        var segments = RelayedSegments([1, 2, 3, 4, 5], segmentSize: 2, device: other, sender: .client)
        var frames: [[UInt8]] = []
        while let frame = segments.next() { frames.append(frame) }
        #expect(frames == [[1, 2], [3, 4], [5]].map { RelayFrame.send(to: other, RelayedDatagrams($0)).bytes })
        #expect(segments.isEmpty)
        var one = RelayedSegments([0, 0, 7], from: 2, segmentSize: .max, device: key, sender: .relay, ecn: 3)
        #expect(one.next() == RelayFrame.received(from: key, RelayedDatagrams([7], ecn: 3)).bytes)
        #expect(one.next() == nil)
    }

    @Test func `what QUIC needs of every path gets through, and what is longer is for it to find out`() {
        #expect(RelayQUIC.carriage(of: 1_234, limit: 1_234) == .datagram)
        #expect(RelayQUIC.carriage(of: 1_234, limit: 1_168) == .stream)
        #expect(RelayQUIC.carriage(of: 1_235, limit: 1_168) == .none)
        #expect(RelayQUIC.carriage(of: 1_421, limit: 1_420) == .none)
    }

    @Test func `a relay is looked for at its port, and at 7842 where that is the usual one`() throws {
        #expect(RelayQUIC.ports(of: try #require(RelayAddress("https://relay.example.org#\(key)"))) == [443, 7_842])
        #expect(RelayQUIC.ports(of: try #require(RelayAddress("https://relay.example.org:3340#\(key)"))) == [3_340])
        #expect(RelayQUIC.ports(of: try #require(RelayAddress("http://192.0.2.1#\(key)"))) == [80])
    }

    @Test func `a URL says whether an authority has a say on TCP`() throws {
        let pinned = try #require(RelayAddress("https://relay.example.org/#\(key)"))
        #expect(pinned.pinnedKey == key && !pinned.isCertified)
        let certified = try #require(RelayAddress("https://relay.example.org#\(key)+ca"))
        #expect(certified.key == key && certified.pinnedKey == nil && certified.isCertified)
        #expect(certified.description == "https://relay.example.org#\(key)+ca")
        #expect(RelayAddress(certified.description) == certified && certified != pinned)
        #expect(certified.withoutKey.description == "https://relay.example.org")
        for text in ["https://a.example#+ca", "https://a.example#\(key)+CA", "https://a.example#\(key)+ca+ca"] {
            #expect(RelayAddress(text) == nil)
        }
    }
}
