import Crypto
import KithNet
import KithTesting
import KithWire
import Synchronization

/// As much HTTP/3 (RFC 9114) as a file's transfer takes: requests and responses with bodies, no control stream.
///
/// Header blocks use the static table only (RFC 9204 appendix A); the other end's are not read.
enum HTTP3 {
    private static let data: UInt64 = 0
    private static let headers: UInt64 = 1
    /// `:status: 200`, after the prefix of a block without dynamic entries.
    private static let ok: [UInt8] = [0, 0, 0xC0 | 25]

    /// What the requests to ``serve(_:down:tally:events:)`` were.
    final class Tally: Sendable {
        /// The digests of the bodies, one for each request.
        let bodies = Mutex<[SHA256.Digest]>([])
    }

    /// Sends `up` bytes to `path` and expects `wanted`.
    static func ask(_ connection: Connection, path: String, up: Int, wanted: [UInt8]) async throws {
        let stream = try await connection.openStream()
        // :method (GET or POST), :scheme https, :authority and :path by name.
        var block: [UInt8] = [0, 0, 0xC0 | (up > 0 ? 20 : 17), 0xC0 | 23]
        block += [0x50, 9] + Array("localhost".utf8)
        block += [0x51, UInt8(path.utf8.count)] + Array(path.utf8)
        var request = frame(headers, count: block.count) + block
        if up > 0 { request += frame(data, count: up) + body(up) }
        try await stream.write(request)
        try await stream.finish()
        let (answer, head) = try await read(stream)
        guard head.starts(with: ok) else { throw LinkError("the server's answer begins with \(head.prefix(8))") }
        guard answer.elementsEqual(SHA256.hash(data: wanted)) else {
            throw LinkError("other bytes came than the server has")
        }
    }

    /// Answers every request of every connection with `down` bytes, until the endpoint shuts down.
    static func serve(_ endpoint: Endpoint, down: Int, tally: Tally, events: Events) async {
        await withDiscardingTaskGroup { group in
            for await connection in endpoint.established {
                group.addTask {
                    await withDiscardingTaskGroup { group in
                        group.addTask { await events.note(connection) }
                        for await stream in connection.incomingStreams {
                            // The client checks what it gets, so that what fails here is seen there.
                            group.addTask { try? await answer(stream, down: down, tally: tally) }
                        }
                    }
                }
            }
        }
    }

    /// What bodies of `count` bytes consist of.
    static func body(_ count: Int) -> [UInt8] {
        var random = SeededRandom(seed: UInt64(count))
        return random.bytes(count)
    }

    private static func answer(_ stream: QUICStream, down: Int, tally: Tally) async throws {
        let (digest, _) = try await read(stream)
        tally.bodies.withLock { $0.append(digest) }
        try await stream.write(frame(headers, count: ok.count) + ok + frame(data, count: down) + body(down))
        try await stream.finish()
    }

    /// Reads a message to its end: the digest of its body, and its first header block.
    private static func read(_ stream: QUICStream) async throws -> (digest: SHA256.Digest, head: [UInt8]) {
        var hash = SHA256()
        var head: [UInt8] = []
        var pending: [UInt8] = []
        while let more = try await stream.read(upTo: 256 << 10) {
            pending += more
            var offset = 0
            while let (kind, size) = header(pending, &offset) {
                if kind == headers, head.isEmpty { head = Array(pending[(offset - size)..<offset]) }
                if kind == data { hash.update(data: pending[(offset - size)..<offset]) }
            }
            pending.removeFirst(offset)
        }
        guard pending.isEmpty else { throw LinkError("the stream ended in the middle of a frame") }
        return (hash.finalize(), head)
    }

    /// Steps over one frame; nil while it is not complete, and then the offset stays.
    private static func header(_ bytes: [UInt8], _ offset: inout Int) -> (kind: UInt64, size: Int)? {
        var position = offset
        guard let kind = integer(bytes, &position), let size = integer(bytes, &position),
            size <= bytes.count - position
        else { return nil }
        offset = position + Int(size)
        return (kind, Int(size))
    }

    /// RFC 9000 §16.
    private static func integer(_ bytes: [UInt8], _ position: inout Int) -> UInt64? {
        guard position < bytes.count else { return nil }
        let size = 1 << Int(bytes[position] >> 6)
        guard position + size <= bytes.count else { return nil }
        defer { position += size }
        return bytes[(position + 1)..<(position + size)].reduce(UInt64(bytes[position] & 63)) { $0 << 8 | UInt64($1) }
    }

    private static func frame(_ kind: UInt64, count: Int) -> [UInt8] {
        let length = UInt32(count) | 0x8000_0000  // in the form of four bytes
        return [UInt8(kind)] + [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: length >> $0) }
    }
}
