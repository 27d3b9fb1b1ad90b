import Crypto
import Foundation
public import KithWire

/// Bytes that only the holders of some keys can read: the members of a network, the holders of profiles, or both.
///
/// Each envelope has a content key of its own, which is encrypted to every recipient. Its metadata can be read by
/// anybody, and is authenticated for the recipients, as is who else can read it. Nothing proves who made it.
///
/// ```
///  byte     what
///  0…7      "kithenv1"
///  8…9      the number of bytes of the metadata, big-endian, at most 4,096
///  10…      the metadata
///  2        the number of recipients, big-endian, 1…256
///  142 each the KeyID, ascending; the content key, as ``AgreementPublicKey/seal(_:authenticating:)`` encrypts it
///  12       the nonce
///  …        AES-256-GCM of the content, and its tag of 16 bytes
/// ```
///
/// Everything before the nonce is authenticated with the content, and so is the context that both ends give.
public struct Envelope: Hashable, Sendable {
    /// The most recipients.
    public static let recipientLimit = 256
    /// The most bytes of metadata.
    public static let metadataLimit = 4_096

    /// What anybody can read.
    public let metadata: [UInt8]
    /// The keys that open it, in their order.
    public let recipients: [KeyID]
    /// The envelope as it travels.
    public let bytes: [UInt8]
    private let header: Header

    /// Where what stands in the bytes.
    private struct Header: Hashable {
        /// The first of the sealed keys' records.
        var recipients: Int
        /// The nonce.
        var content: Int
    }

    private static let magic = Array("kithenv1".utf8)
    private static let sealedKeySize = 32 + 94
    private static let recipientSize = 16 + sealedKeySize

    /// Encrypts `content` to `recipients`; one that is named twice counts once.
    ///
    /// `context` is not in the envelope, and must be the same to open it: what the content is, and where it belongs.
    ///
    /// - Throws: `KithError` `.invalid` for no recipients, `.exhausted` for too many of them or too much metadata.
    public init(
        sealing content: [UInt8], to recipients: some Sequence<AgreementPublicKey>, metadata: [UInt8] = [],
        context: [UInt8]
    ) throws(KithError) {
        let keys = Set(recipients).sorted { $0.id < $1.id }
        guard !keys.isEmpty else {
            throw KithError(.invalid, "An envelope has recipients: a network's key, or a profile's.")
        }
        guard keys.count <= Self.recipientLimit else {
            throw KithError(.exhausted, "An envelope has at most \(Self.recipientLimit) recipients, not \(keys.count).")
        }
        guard metadata.count <= Self.metadataLimit else {
            throw KithError(
                .exhausted,
                "The metadata of an envelope has at most \(Self.metadataLimit) bytes, not \(metadata.count).")
        }
        let contentKey = SymmetricKey(size: .bits256)
        var secret = unsafe contentKey.withUnsafeBytes { unsafe Array($0) }
        defer { secret.clear() }
        var writer = ByteWriter()
        writer.bytes(Self.magic)
        writer.integer(UInt16(metadata.count))
        writer.bytes(metadata)
        writer.integer(UInt16(keys.count))
        let start = writer.bytes.count
        for key in keys {
            writer.bytes(key.id.bytes)
            writer.bytes(try key.seal(secret, authenticating: Self.magic))
        }
        let head = writer.bytes
        do {
            let box = try AES.GCM.seal(content, using: contentKey, authenticating: head + context)
            guard let combined = box.combined else { preconditionFailure("a nonce of 12 bytes is part of the message") }
            bytes = head + Array(combined)
        } catch {
            throw KithError(.internal, "Could not encrypt an envelope.", cause: error)
        }
        self.metadata = metadata
        self.recipients = keys.map(\.id)
        header = Header(recipients: start, content: head.count)
    }

    /// Reads an envelope; that decrypts nothing, and proves nothing.
    ///
    /// - Throws: `KithError` `.invalid` for what is none.
    public init(_ bytes: [UInt8]) throws(KithError) {
        do {
            var reader = ByteReader(bytes)
            guard try reader.bytes(8) == Self.magic else { throw Self.malformed }
            let length = Int(try reader.integer(as: UInt16.self))
            guard length <= Self.metadataLimit else { throw Self.malformed }
            metadata = try reader.bytes(length)
            let count = Int(try reader.integer(as: UInt16.self))
            guard (1...Self.recipientLimit).contains(count) else { throw Self.malformed }
            var recipients: [KeyID] = []
            for _ in 0..<count {
                let id = KeyID(bytes: try reader.bytes(16))
                // Each once, and in one order: there is one way to write an envelope.
                if let last = recipients.last, last >= id { throw Self.malformed }
                recipients.append(id)
                try reader.skip(Self.sealedKeySize)
            }
            let start = 8 + 2 + length + 2
            header = Header(recipients: start, content: start + count * Self.recipientSize)
            self.recipients = recipients
            try reader.skip(12 + 16)
        } catch {
            throw Self.malformed
        }
        self.bytes = bytes
    }

    private static var malformed: KithError { KithError(.invalid, "This is no envelope, or one of a later version.") }

    /// Tells whether one of `keys` is a recipient's.
    public func isFor(_ keys: some Sequence<AgreementKey>) -> Bool {
        keys.contains { recipients.contains($0.publicKey.id) }
    }

    /// Decrypts the content with whichever of `keys` is a recipient's.
    ///
    /// - Throws: `KithError` `.notFound` when none of them is; `.denied` when the envelope was changed, or `context` is
    ///   another than when it was made.
    public func open(with keys: some Sequence<AgreementKey>, context: [UInt8]) throws(KithError) -> [UInt8] {
        for key in keys {
            guard let index = recipients.firstIndex(of: key.publicKey.id) else { continue }
            let place = header.recipients + index * Self.recipientSize + 16
            var secret = try key.open(
                Array(bytes[place..<place + Self.sealedKeySize]), authenticating: Self.magic)
            defer { secret.clear() }
            do {
                var opened = try AES.GCM.open(
                    AES.GCM.SealedBox(combined: bytes[header.content...]), using: SymmetricKey(data: secret),
                    authenticating: bytes[..<header.content] + context)
                defer { opened.resetBytes(in: opened.startIndex..<opened.endIndex) }
                return Array(opened)
            } catch {
                throw KithError(.denied, "An envelope was changed, or does not belong where it was found.")
            }
        }
        throw KithError(.notFound, "None of the keys that are here opens this envelope.")
    }

    /// Compares the bytes.
    public static func == (left: Envelope, right: Envelope) -> Bool { left.bytes == right.bytes }
    /// Hashes the bytes.
    public func hash(into hasher: inout Hasher) { hasher.combine(bytes) }
}

extension Envelope: Codable {
    /// Reads the bytes.
    public init(from decoder: any Decoder) throws {
        try self.init(decoder.singleValueContainer().decode(ByteString.self).bytes)
    }

    /// Writes the bytes.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(ByteString(bytes))
    }
}
