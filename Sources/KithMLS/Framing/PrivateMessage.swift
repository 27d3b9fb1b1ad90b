/// A message that only members can read (RFC 9420 §6.3).
public struct PrivateMessage: Hashable, Sendable {
    /// The group's name.
    public var groupID: [UInt8]
    /// The epoch it was sent in.
    public var epoch: UInt64
    /// The kind of its content.
    public var contentType: ContentType
    /// The sender's additional data, in the clear.
    public var authenticatedData: [UInt8]
    package var encryptedSenderData: [UInt8]
    package var ciphertext: [UInt8]
}

extension PrivateMessage: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) {
        groupID = try reader.opaque()
        epoch = try reader.integer()
        contentType = try ContentType(from: &reader)
        authenticatedData = try reader.opaque()
        encryptedSenderData = try reader.opaque()
        ciphertext = try reader.opaque()
    }

    package func encode(into writer: inout TLSWriter) {
        writer.opaque(groupID)
        writer.integer(epoch)
        contentType.encode(into: &writer)
        writer.opaque(authenticatedData)
        writer.opaque(encryptedSenderData)
        writer.opaque(ciphertext)
    }

    /// `PrivateContentAAD` (§6.3.1).
    fileprivate static func contentAAD(
        _ groupID: [UInt8], _ epoch: UInt64, _ type: ContentType, _ authenticatedData: [UInt8]
    ) -> [UInt8] {
        var writer = TLSWriter(capacity: 64 + authenticatedData.count)
        writer.opaque(groupID)
        writer.integer(epoch)
        type.encode(into: &writer)
        writer.opaque(authenticatedData)
        return writer.bytes
    }

    /// `SenderDataAAD` (§6.3.2).
    fileprivate static func senderDataAAD(_ groupID: [UInt8], _ epoch: UInt64, _ type: ContentType) -> [UInt8] {
        var writer = TLSWriter(capacity: 64)
        writer.opaque(groupID)
        writer.integer(epoch)
        type.encode(into: &writer)
        return writer.bytes
    }
}

/// The key a private message is under: a member, and a generation (RFC 9420 §6.3.2).
package struct SenderData: Hashable, TLSCodable {
    package var leafIndex: UInt32
    package var generation: UInt32
    /// Four bytes by chance that keep a lost state from using a nonce twice.
    var reuseGuard: [UInt8]

    init(leafIndex: UInt32, generation: UInt32, reuseGuard: [UInt8]) {
        self.leafIndex = leafIndex
        self.generation = generation
        self.reuseGuard = reuseGuard
    }

    package init(from reader: inout TLSReader) throws(MLSError) {
        leafIndex = try reader.integer()
        generation = try reader.integer()
        reuseGuard = try reader.fixed(4)
    }

    package func encode(into writer: inout TLSWriter) {
        writer.integer(leafIndex)
        writer.integer(generation)
        writer.fixed(reuseGuard)
    }
}

/// The key and nonce for one message's sender data (RFC 9420 §6.3.2).
package struct SenderDataKey: ~Copyable {
    package let key: Secret
    package let nonce: [UInt8]

    package init(_ suite: any CipherSuite, _ senderDataSecret: borrowing Secret, ciphertext: [UInt8]) {
        let sample = Array(ciphertext.prefix(suite.secretLength))
        key = suite.expand(senderDataSecret, label: "key", context: sample, count: suite.keyLength)
        nonce = suite.expand(senderDataSecret, label: "nonce", context: sample, count: suite.nonceLength).reveal()
    }
}

extension MessageKey {
    /// The nonce with the reuse guard over its first bytes (§6.3.1).
    fileprivate func nonce(guardedBy reuseGuard: [UInt8]) -> [UInt8] {
        var result = nonce
        for index in reuseGuard.indices { result[index] ^= reuseGuard[index] }
        return result
    }
}

extension PrivateMessage {
    /// Encrypts a member's content under one key of its ratchet; `padding` zero bytes go at the end (§6.3.1).
    package init(
        protecting authenticated: AuthenticatedContent, _ suite: any CipherSuite,
        senderDataSecret: borrowing Secret, key: MessageKey, generation: UInt32, padding: Int
    ) throws(MLSError) {
        guard case .member(let leaf) = authenticated.content.sender else { throw .senderNotMember }
        let content = authenticated.content
        var plaintext = TLSWriter(capacity: authenticated.contentBytes.count + 160 + padding)
        content.content.encode(into: &plaintext)
        authenticated.encodeAuth(into: &plaintext)
        plaintext.fixed([UInt8](repeating: 0, count: padding))
        let type = content.content.type
        let senderData = SenderData(leafIndex: leaf, generation: generation, reuseGuard: randomBytes(4))
        ciphertext = suite.seal(
            plaintext.bytes, key: key.key, nonce: key.nonce(guardedBy: senderData.reuseGuard),
            authenticating: Self.contentAAD(content.groupID, content.epoch, type, content.authenticatedData))
        let outer = SenderDataKey(suite, senderDataSecret, ciphertext: ciphertext)
        encryptedSenderData = suite.seal(
            senderData.encoded, key: outer.key, nonce: outer.nonce,
            authenticating: Self.senderDataAAD(content.groupID, content.epoch, type))
        groupID = content.groupID
        epoch = content.epoch
        contentType = type
        authenticatedData = content.authenticatedData
    }

    /// Decrypts the sender data: the member and the generation of the key it is under (§6.3.2).
    package func senderData(
        _ suite: any CipherSuite, senderDataSecret: borrowing Secret
    ) throws(MLSError) -> SenderData {
        let outer = SenderDataKey(suite, senderDataSecret, ciphertext: ciphertext)
        let plaintext = try suite.open(
            encryptedSenderData, key: outer.key, nonce: outer.nonce,
            authenticating: Self.senderDataAAD(groupID, epoch, contentType))
        return try SenderData(decoding: plaintext)
    }

    /// Decrypts the content; its signature is still to be checked (§6.3.1).
    package func content(
        _ suite: any CipherSuite, senderData: SenderData, key: MessageKey
    ) throws(MLSError) -> AuthenticatedContent {
        let plaintext = try suite.open(
            ciphertext, key: key.key, nonce: key.nonce(guardedBy: senderData.reuseGuard),
            authenticating: Self.contentAAD(groupID, epoch, contentType, authenticatedData))
        var reader = TLSReader(plaintext)
        let content = FramedContent(
            groupID: groupID, epoch: epoch, sender: .member(senderData.leafIndex),
            authenticatedData: authenticatedData, content: try .init(contentType, from: &reader))
        var header = TLSWriter(capacity: 80 + authenticatedData.count + reader.offset)
        header.opaque(groupID)
        header.integer(epoch)
        content.sender.encode(into: &header)
        header.opaque(authenticatedData)
        contentType.encode(into: &header)
        header.fixed(reader.read(since: 0))
        var authenticated = AuthenticatedContent(
            wireFormat: .privateMessage, content: content, contentBytes: header.bytes[...])
        (authenticated.signature, authenticated.confirmationTag) = try AuthenticatedContent.readAuth(
            contentType, from: &reader)
        guard reader.rest().allSatisfy({ $0 == 0 }) else { throw .nonZeroPadding }
        return authenticated
    }
}

/// The padding that hides a message's length (RFC 9420 §15.1).
@nonexhaustive
public enum PaddingPolicy: Hashable, Sendable {
    /// Nothing.
    case none
    /// Pads to the next multiple.
    case multiple(of: Int)
    /// Pads to the next power of two, and above 1 kB to the next of its eighths: at most an eighth more.
    case sizeClasses

    /// The padding for `count` bytes.
    func padding(for count: Int) -> Int {
        switch self {
        case .none: return 0
        case .multiple(let size): return size > 1 ? (size - count % size) % size : 0
        case .sizeClasses:
            var size = 64
            while size < count { size *= 2 }
            guard size > 1024 else { return size - count }
            let step = size / 16
            return (step - count % step) % step
        }
    }
}
