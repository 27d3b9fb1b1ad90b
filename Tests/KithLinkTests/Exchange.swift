import Crypto
import KithAPI
import KithNet
import KithTesting
import KithWire

/// The conversation of every case; its words are those of `Tests/Interop/exchange.py`.
///
///     dialer  -> count (8 bytes, big-endian), payload, end
///     answerer-> SHA-256 of the payload (32), `count` bytes, SHA-256 of those (32), end
enum Exchange {
    /// The dialer's part: sends `up` bytes and asks for `down`.
    static func ask(_ connection: Connection, up: Int, down: Int, seed: UInt64) async throws {
        let stream = try await connection.openStream()
        async let sent = send(up, head: bigEndian(down), seed: seed, to: stream)
        let head = try await read(32, from: stream)
        var hash = SHA256()
        var left = down
        while left > 0 {
            guard let piece = try await stream.read(upTo: min(left, 256 << 10)) else {
                throw LinkError("the stream ended \(left) bytes early")
            }
            hash.update(data: piece)
            left -= piece.count
        }
        guard try await read(32, from: stream) == Array(hash.finalize()) else {
            throw LinkError("we received other bytes than the answerer sent")
        }
        guard try await stream.read(upTo: 1) == nil else { throw LinkError("more came than was asked for") }
        guard try await sent == head else { throw LinkError("the answerer received other bytes than we sent") }
    }

    /// The answerer's part on one stream.
    static func answer(_ stream: QUICStream) async throws {
        let count = try await read(8, from: stream).reduce(0) { $0 << 8 | Int($1) }
        guard count < 1 << 30 else { throw LinkError("\(count) bytes are too much to ask for") }
        var hash = SHA256()
        while let piece = try await stream.read(upTo: 256 << 10) { hash.update(data: piece) }
        _ = try await send(count, head: Array(hash.finalize()), seed: 8, to: stream, withDigest: true)
    }

    /// Answers every stream of every connection until the endpoint shuts down.
    static func serve(_ endpoint: Endpoint, _ events: Events) async {
        await withDiscardingTaskGroup { group in
            for await connection in endpoint.established {
                group.addTask {
                    await withDiscardingTaskGroup { group in
                        group.addTask { await events.note(connection) }
                        for await stream in connection.incomingStreams {
                            // The dialer checks what it gets, so that what fails here is seen there.
                            group.addTask { try? await answer(stream) }
                        }
                    }
                }
            }
        }
    }

    private static func bigEndian(_ number: Int) -> [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: UInt64(number) >> (56 - 8 * $0)) }
    }

    /// Sends `head`, `count` seeded bytes and the end; returns the digest of the seeded bytes.
    private static func send(
        _ count: Int, head: [UInt8], seed: UInt64, to stream: QUICStream, withDigest: Bool = false
    ) async throws -> [UInt8] {
        var random = SeededRandom(seed: seed)
        var hash = SHA256()
        var pending = head
        var left = count
        while left > 0 {
            let piece = random.bytes(min(64 << 10, left))
            hash.update(data: piece)
            try await stream.write(pending + piece)
            pending = []
            left -= piece.count
        }
        let digest = Array(hash.finalize())
        if withDigest { pending += digest }
        if !pending.isEmpty { try await stream.write(pending) }
        try await stream.finish()
        return digest
    }

    private static func read(_ count: Int, from stream: QUICStream) async throws -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            guard let more = try await stream.read(upTo: count - bytes.count) else {
                throw LinkError("the stream ended after \(bytes.count) of \(count) bytes")
            }
            bytes += more
        }
        return bytes
    }
}
