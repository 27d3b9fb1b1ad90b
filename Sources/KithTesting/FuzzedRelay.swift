internal import KithIdentity
internal import KithReach

/// What a relay and its clients send each other.
enum FuzzedRelay {
    /// The first byte says which version, which end, and how the rest is used.
    static func run(_ bytes: [UInt8]) {
        guard let first = bytes.first else { return }
        let version: RelayVersion = first & 1 == 0 ? .v1 : .v2
        let sender: RelayFrame.Sender = first & 2 == 0 ? .client : .relay
        let message = Array(bytes.dropFirst())
        if let frame = try? RelayFrame(message, version: version, from: sender) {
            let written = frame.bytes
            precondition(written.count <= RelayFrame.maxLength, "A frame is bounded")
            if case .denied(let reason) = frame, reason.utf8.count > RelayFrame.maxText { return }
            if case .health(let text) = frame, text.utf8.count > RelayFrame.maxText { return }
            let again = try? RelayFrame(written, version: version, from: sender)
            precondition(again == frame, "What is written reads the same")
            conclude(frame, sender)
        }
        queue(message)
        stream(message, sender)
        datagram(message, sender)
    }

    /// The stream of a link by QUIC: in pieces it reads as it does whole.
    private static func stream(_ bytes: [UInt8], _ sender: RelayFrame.Sender) {
        var (whole, pieces) = (RelayStreamReader(from: sender), RelayStreamReader(from: sender))
        let all = try? whole.receive(bytes)
        var some: [RelayStreamMessage]? = []
        for byte in bytes where some != nil { some = (try? pieces.receive([byte])).map { (some ?? []) + $0 } }
        precondition(all == some, "Pieces read as the whole does")
        for message in all ?? [] {
            if case .frame(.denied(let reason)) = message, reason.utf8.count > RelayFrame.maxText { continue }
            let written = message.bytes
            precondition(written.count <= RelayStreamMessage.maxLength + 2, "A message is bounded")
        }
    }

    /// The datagram of a link by QUIC: what is read is what frames say, and a batch is cut into its datagrams.
    private static func datagram(_ bytes: [UInt8], _ sender: RelayFrame.Sender) {
        guard let header = try? RelayedHeader(bytes, from: sender) else { return }
        let (device, datagrams): (DeviceID, RelayedDatagrams)
        switch try? RelayFrame(bytes, version: .v2, from: sender) {
        case .send(let to, let contents), .received(let to, let contents): (device, datagrams) = (to, contents)
        default: preconditionFailure("Both read the same frames")
        }
        precondition(header.device == device, "The frame says the same device")
        precondition(header.segmentSize == datagrams.segmentSize.map(Int.init), "The frame says the same size")
        precondition(Array(bytes[header.start...]) == datagrams.contents, "Nothing is lost")
        var segments = RelayedSegments(
            bytes, from: header.start, segmentSize: header.segmentSize, device: device, sender: sender)
        var contents: [UInt8] = []
        while let frame = segments.next() {
            guard let one = try? RelayedHeader(frame, from: sender) else { preconditionFailure("A cut frame is one") }
            precondition(one.device == device && one.segmentSize == nil, "A cut frame is single")
            contents += frame[one.start...]
        }
        precondition(contents == datagrams.contents, "A batch is cut into all of it")
        guard sender == .client else { return }
        var turned = bytes
        RelayedHeader.turn(&turned, toFrameFrom: device)
        precondition((try? RelayedHeader(turned, from: .relay))?.device == device, "What is turned can be read")
    }

    /// A handshake that starts with anything.
    private static func conclude(_ frame: RelayFrame, _ sender: RelayFrame.Sender) {
        var random = SeededRandom(seed: 1)
        switch sender {
        case .client:
            let server = RelayHandshake.Server(using: &random)
            // Only a signature of this very challenge would do.
            if (try? server.received(frame)) != nil { preconditionFailure("No key is proven by chance") }
        case .relay:
            guard let key = try? DeviceKey(seed: [UInt8](repeating: 1, count: 32)) else { return }
            var client = RelayHandshake.Client(key: key)
            if case .begin? = try? client.received(frame) { preconditionFailure("Nothing begins without a challenge") }
        }
    }

    /// A queue into which anybody puts anything: sender, size and time of each come from the bytes.
    private static func queue(_ bytes: [UInt8]) {
        var queue = FairSendQueue<Int>()
        var now = ContinuousClock.now
        var taken = 0
        for (index, byte) in bytes.enumerated() {
            guard let sender = try? DeviceID(publicKey: [UInt8](repeating: byte & 7, count: 32)) else { return }
            if byte & 8 == 0 {
                queue.append(index, size: Int(byte) << (byte & 16 == 0 ? 0 : 7), from: sender, at: now)
            } else if queue.next(at: now) != nil {
                taken += 1
            }
            now += .milliseconds(Int(byte >> 5))
            precondition(queue.bytes <= 256 << 10, "A queue is bounded")
        }
        while queue.next(at: now) != nil { taken += 1 }
        precondition(queue.bytes == 0 && queue.isEmpty && taken <= bytes.count, "An empty queue is empty")
    }

    /// A frame of each kind, both ways.
    static var seeds: [[UInt8]] {
        guard let key = try? DeviceKey(seed: [UInt8](repeating: 2, count: 32)) else { return [] }
        let client: [RelayFrame] = [
            .proof(key.id, signature: [UInt8](repeating: 3, count: 64)), .send(to: key.id, RelayedDatagrams([1, 2])),
            .send(to: key.id, RelayedDatagrams([1, 2, 3], segmentSize: 2, ecn: 1)), .ping([UInt8](0..<8)),
            .pong([UInt8](0..<8)),
        ]
        let relay: [RelayFrame] = [
            .challenge([UInt8](0..<16)), .confirmed, .denied("no"), .received(from: key.id, RelayedDatagrams([1, 2])),
            .received(from: key.id, RelayedDatagrams([1, 2, 3], segmentSize: .max)), .gone(key.id), .health("slow"),
            .restarting(reconnectIn: .max, tryFor: .max), .status(.other(255)),
        ]
        var all: [[UInt8]] = [
            [3, 3, 0xFF, 0xFF, 0x7F], [3, 3, 0xFF, 0xFF, 0xFF], [0] + [UInt8](repeating: 0xFF, count: 8),
        ]
        let hello = RelayStreamMessage.hello(token: "t").bytes
        all += [[0] + hello, [0] + hello + RelayStreamMessage.frame(client[1]).bytes, [0, 0, 0], [0, 0xFF, 0xFF, 14]]
        all += [[2] + RelayStreamMessage.frame(.confirmed).bytes + RelayStreamMessage.frame(.gone(key.id)).bytes]
        for frame in client.map(\.bytes) { all += [[0] + frame, [1] + frame] }
        for frame in relay.map(\.bytes) { all += [[2] + frame, [3] + frame] }
        return all
    }
}
