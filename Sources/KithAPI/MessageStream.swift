import KithWire

/// Whole messages over a ``ByteStream``: each a varint length (RFC 9000 §16), then that many bytes of CBOR.
///
/// One task may send while another receives. A length above `limit` ends the stream with `.invalid`
/// before anything is allocated.
public final class MessageStream: Sendable {
    /// The bytes beneath.
    public let stream: any ByteStream
    private let limit: Int
    private let buffer = Buffer()

    /// Only the one receiving task touches it.
    private final class Buffer: @unchecked Sendable {  // one reader at a time is the contract of `ByteStream`
        var bytes: [UInt8] = []
    }

    /// Makes a stream of messages of at most `limit` bytes each.
    public init(_ stream: any ByteStream, limit: Int = 1 << 20) {
        self.stream = stream
        self.limit = limit
    }

    /// Sends one message.
    public func send(_ message: some Encodable & Sendable) async throws {
        var writer = ByteWriter()
        writer.prefixedBytes(try CBOREncoder().encode(message))
        try await stream.write(writer.bytes)
    }

    /// Waits for the next message; `nil` when the other end finished between two messages.
    ///
    /// - Throws: `KithError` `.closed` when it finished inside one, `.invalid` when it is too long or malformed.
    public func receive<Message: Decodable>(_ type: Message.Type) async throws -> Message? {
        while true {
            if let message = try takeMessage() {
                return try CBORDecoder().decode(type, from: message)
            }
            guard let more = try await stream.read(upTo: 64 << 10) else {
                if buffer.bytes.isEmpty { return nil }
                throw KithError(.closed, "The other end stopped in the middle of a message.")
            }
            buffer.bytes += more
        }
    }

    private func takeMessage() throws -> [UInt8]? {
        guard let first = buffer.bytes.first else { return nil }
        let prefix = 1 << Int(first >> 6)
        guard buffer.bytes.count >= prefix else { return nil }
        var length = UInt64(first & 0x3F)
        for byte in buffer.bytes[1..<prefix] { length = length << 8 | UInt64(byte) }
        guard length <= UInt64(limit) else {
            stream.abort(.invalid)
            throw KithError(
                .invalid, "The other end announced a message of \(length) bytes; at most \(limit) may come.")
        }
        let end = prefix + Int(length)
        guard buffer.bytes.count >= end else { return nil }
        let message = Array(buffer.bytes[prefix..<end])
        buffer.bytes.removeFirst(end)
        return message
    }
}
