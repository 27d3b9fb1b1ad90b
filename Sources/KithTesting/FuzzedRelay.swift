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
        for frame in client.map(\.bytes) { all += [[0] + frame, [1] + frame] }
        for frame in relay.map(\.bytes) { all += [[2] + frame, [3] + frame] }
        return all
    }
}
