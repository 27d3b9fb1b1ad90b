import KithWire

/// The content of one direction of a stream: messages (a type of the method's, ``StreamMessage``), ``RawBytes``, or
/// ``Nothing``.
///
/// Do not conform types to it directly.
public protocol StreamContent: Sendable {
    /// The form in which it is carried.
    static var form: StreamForm { get }
}

/// The forms in which one direction of a stream is carried.
@frozen
public enum StreamForm: String, Hashable, Sendable, Codable, CaseIterable {
    /// Only its end.
    case nothing
    /// Bytes, cut into pieces anywhere.
    case bytes
    /// Messages, each whole.
    case messages
}

/// Bytes carried as they are in one direction of a stream: a file, a connection, a protocol of its own.
public enum RawBytes: StreamContent {
    /// Bytes.
    public static var form: StreamForm { .bytes }
}

extension Nothing: StreamContent {
    /// Only its end.
    public static var form: StreamForm { .nothing }
}

/// A message of one direction of a stream.
///
/// By default it travels between devices as a varint length (RFC 9000 §16) and that many bytes of CBOR, and over
/// JSON-RPC as JSON.
public protocol StreamMessage: StreamContent, Codable {
    /// The most bytes of one encoded message.
    ///
    /// A longer one is refused before anything is allocated for it.
    static var sizeLimit: Int { get }

    /// Appends the message as it travels between devices.
    func append(to bytes: inout [UInt8]) throws

    /// Takes the next whole message from the beginning of `buffer`.
    ///
    /// - Returns: the message; `nil` while it is not complete.
    /// - Throws: `KithError` `.invalid` when no continuation could make a message of it.
    static func next(from buffer: inout ReceiveBuffer) throws -> Self?
}

extension StreamMessage {
    /// Messages.
    public static var form: StreamForm { .messages }

    /// 1 MiB.
    public static var sizeLimit: Int { 1 << 20 }

    /// Appends a varint length and the message as CBOR.
    public func append(to bytes: inout [UInt8]) throws {
        var writer = ByteWriter()
        writer.prefixedBytes(try CBOREncoder().encode(self))
        bytes += writer.bytes
    }

    /// Takes a varint length and that many bytes of CBOR.
    public static func next(from buffer: inout ReceiveBuffer) throws -> Self? {
        guard let (length, prefix) = buffer.varint(at: 0) else { return nil }
        guard length <= UInt64(sizeLimit) else {
            throw KithError(
                .invalid, "The other end announced a message of \(length) bytes; at most \(sizeLimit) may come.")
        }
        guard buffer.count >= prefix + Int(length) else { return nil }
        buffer.removeFirst(prefix)
        do {
            return try CBORDecoder().decode(Self.self, from: buffer.take(Int(length)))
        } catch {
            throw KithError(.invalid, "The other end sent a message that makes no sense here.", cause: error)
        }
    }
}

/// Bytes that have been received and are not yet a whole message.
public struct ReceiveBuffer: Sendable {
    private var bytes: [UInt8] = []
    private var start = 0

    /// Makes an empty buffer.
    public init() {}

    /// The number of bytes it holds.
    public var count: Int { bytes.count - start }

    /// The byte at `index`, from 0.
    public subscript(index: Int) -> UInt8 {
        precondition(index >= 0 && index < count, "The buffer has \(count) bytes")
        return bytes[start + index]
    }

    /// Adds what has come.
    public mutating func append(_ more: [UInt8]) {
        if start == bytes.count {
            bytes = more
        } else {
            bytes.removeFirst(start)
            bytes += more
        }
        start = 0
    }

    /// Drops the first `count` bytes.
    public mutating func removeFirst(_ count: Int) {
        precondition(count >= 0 && count <= self.count, "The buffer has \(self.count) bytes")
        start += count
    }

    /// Takes the first `count` bytes out.
    public mutating func take(_ count: Int) -> [UInt8] {
        removeFirst(count)
        return Array(bytes[start - count..<start])
    }

    /// The varint (RFC 9000 §16) at `index` and how many bytes it takes, 1…8; `nil` while it is not complete.
    public func varint(at index: Int) -> (value: UInt64, size: Int)? {
        guard count > index else { return nil }
        let size = 1 << Int(self[index] >> 6)
        guard count >= index + size else { return nil }
        var value = UInt64(self[index] & 0x3F)
        for byte in bytes[start + index + 1..<start + index + size] { value = value << 8 | UInt64(byte) }
        return (value, size)
    }
}
