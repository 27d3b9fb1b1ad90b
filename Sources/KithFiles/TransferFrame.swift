package import KithAPI
import KithWire

/// One message of a transfer: a type byte, a varint length (RFC 9000 §16), then that many bytes.
///
/// The sender lists what there is, ahead; the receiver answers for each *file* in the order of the listing whether it
/// wants it; the sender then sends the contents of those wanted, in the same order. Neither waits for the other as long
/// as no more than ``maximumListed`` files are listed and not done.
///
/// From the sender:
///
/// | type | message | body |
/// | --- | --- | --- |
/// | 2 | folder begins | attributes, name |
/// | 3 | folder ends | u8: 1 when all of it was listed |
/// | 4 | data | bytes of the file, at most 1 MiB |
/// | 5 | file | u8 flags (1: has holes, 2: is linked to), attributes, size u64, name |
/// | 6 | link | attributes, varint and name, target |
/// | 7 | hard link | u64: which file of the listing, the first being 0; name |
/// | 8 | extended attributes of what is listed next | for each, varint and name, varint and value |
/// | 10 | total | bytes u64, files u64 |
/// | 11 | end | u8: 1 when all of the source could be read |
/// | 12 | small file | tree hash of 32 bytes, all its bytes, at most 64 KiB |
/// | 13 | file ends | tree hash of 32 bytes |
/// | 14 | file given up | – |
/// | 15 | hole | length u64 |
/// | 16 | kept | how many leaves u64 that the receiver has |
/// | 17 | copied | offset u64 and length u64 in the receiver's old version |
/// | 18 | same | –; the receiver's version is this very file |
/// | 19 | compressed | size u32 and a zstd frame of so many bytes: whole messages that stand here, none of this type |
/// | 20 | elsewhere | u8: the contents of this file come over this substream |
///
/// Compressed messages come only when the receiver's hello has ``Features/compression``, and what was taken is told only
/// when both hellos have ``Features/confirmation``.
///
/// Substreams are there only when both hellos have ``Features/substreams``: on the stream of a substream types 4, 9 for a file given up,
/// 13 and 15 to 17 go, and type 39 comes back; neither end says hello there.
///
/// From the receiver:
///
/// | type | message | body |
/// | --- | --- | --- |
/// | 32 | send | for how many files, u64 |
/// | 33 | not needed | for how many files, u64 |
/// | 34 | leaves | hashes of the leaves it has of the next file, 32 bytes each |
/// | 35 | chunks | u8 exponent of the average; for each u32 length, first 16 bytes of SHA-256 |
/// | 36 | root | tree hash of the version it has of the next file |
/// | 37 | send what differs | –; one file, given what types 34…36 said |
/// | 38 | change | CBOR of `Files.Change` |
/// | 39 | taken | u64: how many bytes of the sender's direction it has taken in, each 256 KiB; at once for its hello |
/// | 63 | acknowledgement | CBOR of `Files.Summary` |
///
/// From either:
///
/// | type | message | body |
/// | --- | --- | --- |
/// | 1 | hello, first of all | version u16, features u32 |
/// | 9 | left out | CBOR of `Files.Skipped` |
/// | 62 | failure | CBOR of `Files.Failure`; nothing follows |
///
/// Attributes are mode u32, seconds i64, nanoseconds u32, identity u64. Names are single components, as bytes; the
/// receiver takes no others. Numbers are big-endian.
package enum TransferFrame: Hashable, Sendable {
    case hello(version: UInt16, features: Features)
    case folder(Attributes)
    case folderEnd(isComplete: Bool)
    /// A part of a data message, as much of it as has arrived.
    case data(ArraySlice<UInt8>)
    case file(Attributes, size: UInt64, FileFlags)
    case link(Attributes, target: [UInt8])
    case hardLink(name: [UInt8], to: UInt64)
    case extended([ExtendedAttribute])
    case skipped(Files.Skipped)
    case total(bytes: UInt64, files: UInt64)
    case end(isComplete: Bool)
    case small(root: [UInt8], ArraySlice<UInt8>)
    case fileEnd(root: [UInt8])
    case fileAbandoned
    case hole(UInt64)
    case kept(leaves: UInt64)
    case copied(offset: UInt64, length: UInt64)
    case same
    case elsewhere(substream: UInt8)
    case send(files: UInt64)
    case notNeeded(files: UInt64)
    case leaves(ArraySlice<UInt8>)
    case chunks(exponent: UInt8, ArraySlice<UInt8>)
    case root([UInt8])
    case sendDifference
    case change(Files.Change)
    case taken(UInt64)
    case failure(Files.Failure)
    case acknowledgement(Files.Summary)

    /// The attributes of a name, besides its contents.
    package struct Attributes: Hashable, Sendable {
        package var name: [UInt8]
        package var mode: UInt32
        package var seconds: Int64
        package var nanoseconds: UInt32
        /// A number of the file on its own device, the same as long as it is the same file.
        package var identity: UInt64

        package init(name: [UInt8], mode: UInt32, seconds: Int64, nanoseconds: UInt32, identity: UInt64 = 0) {
            self.name = name
            self.mode = mode
            self.seconds = seconds
            self.nanoseconds = nanoseconds
            self.identity = identity
        }
    }

    /// The flags of a file, sent before its contents.
    package struct FileFlags: OptionSet, Hashable, Sendable {
        package let rawValue: UInt8
        package init(rawValue: UInt8) { self.rawValue = rawValue }
        /// It has holes; zeros in it are to become holes.
        package static let sparse = FileFlags(rawValue: 1)
        /// A hard link to it may follow.
        package static let linked = FileFlags(rawValue: 2)
    }

    /// An extended attribute.
    package struct ExtendedAttribute: Hashable, Sendable {
        package var name: [UInt8]
        package var value: [UInt8]

        package init(name: [UInt8], value: [UInt8]) {
            self.name = name
            self.value = value
        }
    }

    /// The abilities and wishes of one end, as its hello names them.
    package struct Features: OptionSet, Hashable, Sendable {
        package let rawValue: UInt32
        package init(rawValue: UInt32) { self.rawValue = rawValue }
        /// It takes compressed messages.
        package static let compression = Features(rawValue: 1)
        /// It wants what it gets compressed whatever that costs.
        package static let compressionAlways = Features(rawValue: 2)
        /// It tells, or wants to be told, how much was taken in.
        package static let confirmation = Features(rawValue: 4)
        /// It has, or takes, contents over further streams.
        package static let substreams = Features(rawValue: 8)
    }

    /// The version both ends must speak.
    package static let version: UInt16 = 1
    /// The most files that may be listed and not done.
    package static let maximumListed = 4_096
    /// The most folders that may be begun and not done.
    package static let maximumFolders = 256
    /// The most further names that may wait for files not in place, and about how many bytes of extended attributes.
    package static let maximumWaitingLinks = 1 << 16
    package static let maximumWaitingExtended = 32 << 20
    /// The most data one message carries.
    package static let maximumData = 1 << 20
    /// The largest file that goes in one message.
    package static let maximumSmall = 64 << 10
    /// The most bytes of extended attributes one thing has.
    package static let maximumExtended = 256 << 10
    /// The most bytes of leaves or chunks in one message.
    static let maximumBasis = 60 << 10
    /// The bytes before the data of a data message: its type and a length of four bytes.
    static let dataPrefix = 5
    /// The type of a compressed message.
    static let compressedType: UInt8 = 19

    /// The most bytes a message of a type has.
    static func limit(type: UInt8) -> Int {
        switch type {
        case 4: maximumData
        case 8: maximumExtended + (16 << 10)
        case 12: maximumSmall + TreeHash.count
        case compressedType: BlockCompression.maximumBlock + BlockCompression.headCount
        case 34, 35: maximumBasis + 1
        default: 16 << 10
        }
    }

    /// Writes the beginning of a message of `count` bytes, ``dataPrefix`` bytes long.
    static func prefix(type: UInt8, count: Int) -> [UInt8] {
        precondition(count < 1 << 30, "a length has four bytes")
        let length = UInt32(count) | 0x8000_0000
        return [
            type, UInt8(truncatingIfNeeded: length >> 24), UInt8(truncatingIfNeeded: length >> 16),
            UInt8(truncatingIfNeeded: length >> 8), UInt8(truncatingIfNeeded: length),
        ]
    }

    /// Appends the message to `bytes`.
    package func append(to bytes: inout [UInt8]) throws {
        let type: UInt8
        var body = ByteWriter()
        switch self {
        case .hello(let version, let features):
            type = 1
            body.integer(version)
            body.integer(features.rawValue)
        case .folder(let attributes):
            type = 2
            attributes.write(to: &body)
            body.bytes(attributes.name)
        case .folderEnd(let isComplete):
            type = 3
            body.integer(UInt8(isComplete ? 1 : 0))
        case .data(let data): return Self.append(4, data, to: &bytes)
        case .file(let attributes, let size, let flags):
            type = 5
            body.integer(flags.rawValue)
            attributes.write(to: &body)
            body.integer(size)
            body.bytes(attributes.name)
        case .link(let attributes, let target):
            type = 6
            attributes.write(to: &body)
            body.prefixedBytes(attributes.name)
            body.bytes(target)
        case .hardLink(let name, let file):
            type = 7
            body.integer(file)
            body.bytes(name)
        case .extended(let attributes):
            type = 8
            for attribute in attributes {
                body.prefixedBytes(attribute.name)
                body.prefixedBytes(attribute.value)
            }
        case .skipped(let skipped):
            type = 9
            body.bytes(try CBOREncoder().encode(skipped))
        case .total(let count, let files):
            type = 10
            body.integer(count)
            body.integer(files)
        case .end(let isComplete):
            type = 11
            body.integer(UInt8(isComplete ? 1 : 0))
        case .small(let root, let data): return Self.append(12, root + data, to: &bytes)
        case .fileEnd(let root):
            type = 13
            body.bytes(root)
        case .fileAbandoned: type = 14
        case .hole(let length):
            type = 15
            body.integer(length)
        case .kept(let leaves):
            type = 16
            body.integer(leaves)
        case .copied(let offset, let length):
            type = 17
            body.integer(offset)
            body.integer(length)
        case .same: type = 18
        case .elsewhere(let substream):
            type = 20
            body.integer(substream)
        case .send(let files):
            type = 32
            body.integer(files)
        case .notNeeded(let files):
            type = 33
            body.integer(files)
        case .leaves(let hashes): return Self.append(34, hashes, to: &bytes)
        case .chunks(let exponent, let entries): return Self.append(35, [exponent] + entries, to: &bytes)
        case .root(let root):
            type = 36
            body.bytes(root)
        case .sendDifference: type = 37
        case .change(let change):
            type = 38
            body.bytes(try CBOREncoder().encode(change))
        case .taken(let bytes):
            type = 39
            body.integer(bytes)
        case .failure(let failure):
            type = 62
            body.bytes(try CBOREncoder().encode(failure))
        case .acknowledgement(let summary):
            type = 63
            body.bytes(try CBOREncoder().encode(summary))
        }
        var length = ByteWriter()
        length.varint(UInt64(body.bytes.count))
        bytes.append(type)
        bytes += length.bytes
        bytes += body.bytes
    }

    private static func append(_ type: UInt8, _ body: some Collection<UInt8>, to bytes: inout [UInt8]) {
        bytes += prefix(type: type, count: body.count)
        bytes += body
    }

    /// Reads the body of any message but data.
    init(type: UInt8, body: ArraySlice<UInt8>) throws {
        switch type {
        case 12:
            guard body.count >= TreeHash.count else {
                throw WireError.truncated(needed: TreeHash.count, left: body.count)
            }
            self = .small(root: Array(body.prefix(TreeHash.count)), body.dropFirst(TreeHash.count))
            return
        case 34:
            guard body.count.isMultiple(of: TreeHash.count) else { throw Self.malformed }
            self = .leaves(body)
            return
        case 35:
            guard let exponent = body.first, (body.count - 1).isMultiple(of: ChunkTable.entryCount),
                ContentChunker.exponents.contains(Int(exponent))
            else { throw Self.malformed }
            self = .chunks(exponent: exponent, body.dropFirst())
            return
        default: break
        }
        let bytes = Array(body)
        var reader = ByteReader(bytes)
        switch type {
        case 1: self = .hello(version: try reader.integer(), features: Features(rawValue: try reader.integer()))
        case 2:
            var attributes = try Attributes(from: &reader)
            attributes.name = try Self.name(reader.bytes(reader.remaining))
            self = .folder(attributes)
        case 3: self = .folderEnd(isComplete: try reader.integer(as: UInt8.self) == 1)
        case 5:
            let flags = FileFlags(rawValue: try reader.integer())
            var attributes = try Attributes(from: &reader)
            let size: UInt64 = try reader.integer()
            guard size <= UInt64(Int64.max) else {
                throw KithError(.invalid, "The other end lists a file of \(size) bytes: there can be none.")
            }
            attributes.name = try Self.name(reader.bytes(reader.remaining))
            self = .file(attributes, size: size, flags)
        case 6:
            var attributes = try Attributes(from: &reader)
            attributes.name = try Self.name(reader.prefixedBytes(limit: 255))
            let target = try reader.bytes(reader.remaining)
            guard !target.isEmpty, target.count <= 4_096, !target.contains(0) else {
                throw KithError(.invalid, "The other end sent a link that leads nowhere.")
            }
            self = .link(attributes, target: target)
        case 7:
            let file: UInt64 = try reader.integer()
            self = .hardLink(name: try Self.name(reader.bytes(reader.remaining)), to: file)
        case 8:
            var attributes: [ExtendedAttribute] = []
            while !reader.isAtEnd {
                let name = try reader.prefixedBytes(limit: 255)
                let value = try reader.prefixedBytes(limit: 64 << 10)
                guard !name.isEmpty, !name.contains(0) else { throw Self.malformed }
                attributes.append(ExtendedAttribute(name: name, value: value))
            }
            self = .extended(attributes)
        case 9: self = .skipped(try CBORDecoder().decode(Files.Skipped.self, from: reader.bytes(reader.remaining)))
        case 10: self = .total(bytes: try reader.integer(), files: try reader.integer())
        case 11: self = .end(isComplete: try reader.integer(as: UInt8.self) == 1)
        case 13: self = .fileEnd(root: try reader.bytes(TreeHash.count))
        case 14: self = .fileAbandoned
        case 15: self = .hole(try reader.integer())
        case 16: self = .kept(leaves: try reader.integer())
        case 17: self = .copied(offset: try reader.integer(), length: try reader.integer())
        case 18: self = .same
        case 20: self = .elsewhere(substream: try reader.integer())
        case 32: self = .send(files: try reader.integer())
        case 33: self = .notNeeded(files: try reader.integer())
        case 36: self = .root(try reader.bytes(TreeHash.count))
        case 37: self = .sendDifference
        case 38: self = .change(try CBORDecoder().decode(Files.Change.self, from: reader.bytes(reader.remaining)))
        case 39: self = .taken(try reader.integer())
        case 62: self = .failure(try CBORDecoder().decode(Files.Failure.self, from: reader.bytes(reader.remaining)))
        case 63:
            self = .acknowledgement(
                try CBORDecoder().decode(Files.Summary.self, from: reader.bytes(reader.remaining)))
        default: throw KithError(.invalid, "The other end sent a message of an unknown kind, \(type).")
        }
        try reader.finish()
    }

    private static var malformed: KithError { KithError(.invalid, "The other end sent a malformed message.") }

    /// A name from elsewhere, checked to be one component that stays where it is put.
    private static func name(_ bytes: [UInt8]) throws(KithError) -> [UInt8] {
        guard Files.Path.isName(bytes) else {
            throw KithError(
                .invalid,
                "The other end sent the name “\(String(decoding: bytes, as: UTF8.self))”, which is not allowed.")
        }
        return bytes
    }
}

extension TransferFrame.Attributes {
    fileprivate func write(to writer: inout ByteWriter) {
        writer.integer(mode)
        writer.integer(UInt64(bitPattern: seconds))
        writer.integer(nanoseconds)
        writer.integer(identity)
    }

    fileprivate init(from reader: inout ByteReader) throws {
        mode = try reader.integer(as: UInt32.self) & 0o7777
        seconds = Int64(bitPattern: try reader.integer())
        nanoseconds = min(try reader.integer(), 999_999_999)
        identity = try reader.integer()
        name = []
    }
}
