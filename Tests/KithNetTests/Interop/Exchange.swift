import Crypto
import KithAPI
import KithNet
import Testing

/// The conversation with foreign peers; its words are those of `Tests/Interop/exchange.py`.
enum Exchange {
    /// The dialer's part: sends `count` bytes, and asks for as many.
    static func ask(_ connection: Connection, count: Int) async throws {
        let stream = try await connection.openStream()
        let sending = Task { () -> [UInt8] in
            var random = SplitMix(seed: 7)
            var hash = SHA256()
            try await stream.write((0..<8).map { UInt8(truncatingIfNeeded: UInt64(count) >> (56 - 8 * $0)) })
            var left = count
            while left > 0 {
                let piece = random.bytes(min(1 << 20, left))
                hash.update(data: piece)
                try await stream.write(piece)
                left -= piece.count
            }
            try await stream.finish()
            return Array(hash.finalize())
        }
        let head = try await read(32, from: stream)
        var hash = SHA256()
        var left = count
        while left > 0 {
            guard let piece = try await stream.read(upTo: min(left, 256 << 10)) else { break }
            hash.update(data: piece)
            left -= piece.count
        }
        #expect(left == 0)
        #expect(try await stream.readAll() == Array(hash.finalize()))
        #expect(try await sending.value == head)
    }

    /// The answerer's part.
    static func answer(_ stream: QUICStream) async throws {
        let count = try await read(8, from: stream).reduce(0) { $0 << 8 | Int($1) }
        try await stream.write(try await stream.readDigest().digest)
        var random = SplitMix(seed: 8)
        var hash = SHA256()
        var left = count
        while left > 0 {
            let piece = random.bytes(min(1 << 20, left))
            hash.update(data: piece)
            try await stream.write(piece)
            left -= piece.count
        }
        try await stream.write(Array(hash.finalize()))
        // The dialer closes the connection once it has everything, so its last acknowledgement may never come.
        try await stream.finish()
    }

    private static func read(_ count: Int, from stream: QUICStream) async throws -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            guard let more = try await stream.read(upTo: count - bytes.count) else {
                throw TestError("the stream ended after \(bytes.count) of \(count) bytes")
            }
            bytes += more
        }
        return bytes
    }
}
