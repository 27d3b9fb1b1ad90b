package import KithAPI
import KithWire

/// One message of a tree transfer: a type byte, a varint length (RFC 9000 §16), then that many bytes.
///
/// | type | message | body |
/// | --- | --- | --- |
/// | 1 | folder begins | mode u32, seconds i64, nanoseconds u32, name |
/// | 2 | folder ends | – |
/// | 3 | file begins | mode u32, seconds i64, nanoseconds u32, size u64, name |
/// | 4 | data | bytes of the file, at most 1 MiB |
/// | 5 | file ends | SHA-256 of its data, 32 bytes |
/// | 6 | link | seconds i64, nanoseconds u32, varint and name, target |
/// | 7 | left out | CBOR of `Files.Skipped` |
/// | 8 | total | bytes u64, files u64 |
/// | 9 | end | – |
/// | 10 | file given up | – |
/// | 11 | failure | CBOR of `Files.Failure`; from either side, nothing follows |
/// | 12 | acknowledgement | CBOR of `Files.Summary`; from the receiver |
///
/// Names are single components, as bytes; the receiver takes no others. Numbers are big-endian.
package enum TransferFrame: Hashable, Sendable {
    case folder(Attributes)
    case folderEnd
    case file(Attributes, size: UInt64)
    /// A part of a data message, as much of it as has arrived.
    case data(ArraySlice<UInt8>)
    case fileEnd(sha256: [UInt8])
    case link(Attributes, target: [UInt8])
    case skipped(Files.Skipped)
    case total(bytes: UInt64, files: UInt64)
    case end
    case fileAbandoned
    case failure(Files.Failure)
    case acknowledgement(Files.Summary)

    /// What a name has besides its contents.
    package struct Attributes: Hashable, Sendable {
        package var name: [UInt8]
        package var mode: UInt32
        package var seconds: Int64
        package var nanoseconds: UInt32

        package init(name: [UInt8], mode: UInt32, seconds: Int64, nanoseconds: UInt32) {
            self.name = name
            self.mode = mode
            self.seconds = seconds
            self.nanoseconds = nanoseconds
        }
    }

    /// The most data one message carries.
    package static let maximumData = 1 << 20
    /// The most bytes another message has.
    package static let maximumBody = 16 << 10
    /// The bytes before the data of a data message: its type and a length of four bytes.
    static let dataPrefix = 5

    /// Writes the beginning of a data message of `count` bytes, ``dataPrefix`` bytes long.
    static func dataPrefix(count: Int) -> [UInt8] {
        precondition(count <= maximumData, "a data message holds at most 1 MiB")
        let length = UInt32(count) | 0x8000_0000
        return [
            4, UInt8(truncatingIfNeeded: length >> 24), UInt8(truncatingIfNeeded: length >> 16),
            UInt8(truncatingIfNeeded: length >> 8), UInt8(truncatingIfNeeded: length),
        ]
    }

    /// Appends the message to `bytes`.
    package func append(to bytes: inout [UInt8]) throws {
        let type: UInt8
        var body = ByteWriter()
        switch self {
        case .folder(let attributes):
            type = 1
            attributes.write(to: &body, withMode: true)
            body.bytes(attributes.name)
        case .folderEnd: type = 2
        case .file(let attributes, let size):
            type = 3
            attributes.write(to: &body, withMode: true)
            body.integer(size)
            body.bytes(attributes.name)
        case .data(let data):
            bytes += Self.dataPrefix(count: data.count)
            bytes += data
            return
        case .fileEnd(let sha256):
            type = 5
            body.bytes(sha256)
        case .link(let attributes, let target):
            type = 6
            attributes.write(to: &body, withMode: false)
            body.prefixedBytes(attributes.name)
            body.bytes(target)
        case .skipped(let skipped):
            type = 7
            body.bytes(try CBOREncoder().encode(skipped))
        case .total(let count, let files):
            type = 8
            body.integer(count)
            body.integer(files)
        case .end: type = 9
        case .fileAbandoned: type = 10
        case .failure(let failure):
            type = 11
            body.bytes(try CBOREncoder().encode(failure))
        case .acknowledgement(let summary):
            type = 12
            body.bytes(try CBOREncoder().encode(summary))
        }
        var frame = ByteWriter(capacity: body.bytes.count + 3)
        frame.integer(type)
        frame.prefixedBytes(body.bytes)
        bytes += frame.bytes
    }

    /// Reads the body of any message but data.
    init(type: UInt8, body: ArraySlice<UInt8>) throws {
        let bytes = Array(body)
        var reader = ByteReader(bytes.span)
        switch type {
        case 1:
            var attributes = try Attributes(from: &reader, withMode: true)
            attributes.name = try Self.name(reader.bytes(reader.remaining))
            self = .folder(attributes)
        case 2: self = .folderEnd
        case 3:
            var attributes = try Attributes(from: &reader, withMode: true)
            let size: UInt64 = try reader.integer()
            attributes.name = try Self.name(reader.bytes(reader.remaining))
            self = .file(attributes, size: size)
        case 5: self = .fileEnd(sha256: try reader.bytes(32))
        case 6:
            var attributes = try Attributes(from: &reader, withMode: false)
            attributes.name = try Self.name(reader.prefixedBytes(limit: 255))
            let target = try reader.bytes(reader.remaining)
            guard !target.isEmpty, target.count <= 4_096, !target.contains(0) else {
                throw KithError(.invalid, "The other end sent a link that leads nowhere.")
            }
            self = .link(attributes, target: target)
        case 7: self = .skipped(try CBORDecoder().decode(Files.Skipped.self, from: reader.bytes(reader.remaining)))
        case 8: self = .total(bytes: try reader.integer(), files: try reader.integer())
        case 9: self = .end
        case 10: self = .fileAbandoned
        case 11: self = .failure(try CBORDecoder().decode(Files.Failure.self, from: reader.bytes(reader.remaining)))
        case 12:
            self = .acknowledgement(
                try CBORDecoder().decode(Files.Summary.self, from: reader.bytes(reader.remaining)))
        default: throw KithError(.invalid, "The other end sent a message of an unknown kind, \(type).")
        }
        try reader.finish()
    }

    /// A name from elsewhere, checked to be one component that stays where it is put.
    private static func name(_ bytes: [UInt8]) throws(KithError) -> [UInt8] {
        guard isSafe(name: bytes) else {
            throw KithError(
                .invalid,
                "The other end sent the name “\(String(decoding: bytes, as: UTF8.self))”, which is not allowed.")
        }
        return bytes
    }

    /// Whether bytes are the name of something in one folder: not empty, `.` or `..`, without slash and NUL.
    static func isSafe(name: [UInt8]) -> Bool {
        !name.isEmpty && name.count <= 255 && name != [0x2E] && name != [0x2E, 0x2E]
            && !name.contains { $0 == 0 || $0 == 0x2F }
    }
}

extension TransferFrame.Attributes {
    fileprivate func write(to writer: inout ByteWriter, withMode: Bool) {
        if withMode { writer.integer(mode) }
        writer.integer(UInt64(bitPattern: seconds))
        writer.integer(nanoseconds)
    }

    fileprivate init(from reader: inout ByteReader, withMode: Bool) throws {
        mode = withMode ? try reader.integer(as: UInt32.self) & 0o7777 : 0o777
        seconds = Int64(bitPattern: try reader.integer())
        nanoseconds = min(try reader.integer(), 999_999_999)
        name = []
    }
}

/// Cuts arriving bytes into messages, holding back no more than one small message.
package struct TransferParser: Sendable {
    private var pending: [UInt8] = []
    private var chunk: ArraySlice<UInt8> = []
    /// How many bytes of a data message have not come yet.
    private var dataLeft = 0

    package init() {}

    /// Takes the next bytes in; ask ``next()`` until it has no more before feeding again.
    package mutating func feed(_ bytes: [UInt8]) {
        if pending.isEmpty {
            chunk = bytes[...]
        } else {
            pending += bytes
            chunk = pending[...]
            pending = []
        }
    }

    /// Whether the bytes ended between two messages.
    package var isBetweenFrames: Bool { pending.isEmpty && chunk.isEmpty && dataLeft == 0 }

    /// The next message; `nil` when more bytes are needed.
    ///
    /// - Throws: `.invalid` for one that is malformed or too long, before anything is allocated for it.
    package mutating func next() throws -> TransferFrame? {
        if dataLeft > 0 {
            guard !chunk.isEmpty else { return nil }
            return takeData()
        }
        guard let type = chunk.first, chunk.count >= 2 else { return hold() }
        let first = chunk[chunk.startIndex + 1]
        let prefix = 1 << Int(first >> 6)
        guard chunk.count > prefix else { return hold() }
        var length = UInt64(first & 0x3F)
        for byte in chunk.dropFirst(2).prefix(prefix - 1) { length = length << 8 | UInt64(byte) }
        let limit = type == 4 ? TransferFrame.maximumData : TransferFrame.maximumBody
        guard length <= UInt64(limit) else {
            throw KithError(
                .invalid, "The other end announced a message of \(length) bytes; at most \(limit) may come.")
        }
        if type == 4 {
            chunk = chunk.dropFirst(1 + prefix)
            dataLeft = Int(length)
            return try next()
        }
        guard chunk.count >= 1 + prefix + Int(length) else { return hold() }
        let body = chunk.dropFirst(1 + prefix).prefix(Int(length))
        chunk = chunk.dropFirst(1 + prefix + Int(length))
        do {
            return try TransferFrame(type: type, body: body)
        } catch let error as WireError {
            throw KithError(.invalid, "The other end sent a malformed message.", cause: error)
        }
    }

    private mutating func takeData() -> TransferFrame {
        let data = chunk.prefix(dataLeft)
        chunk = chunk.dropFirst(data.count)
        dataLeft -= data.count
        return .data(data)
    }

    private mutating func hold() -> TransferFrame? {
        pending = Array(chunk)
        chunk = []
        return nil
    }
}
