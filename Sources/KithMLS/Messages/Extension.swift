/// A parameter of a group, leaf, key package or group info (RFC 9420 §13.4).
public struct Extension: Hashable, Sendable {
    /// The registered kind.
    public var type: ExtensionType
    /// The content, in the kind's own encoding.
    public var data: [UInt8]

    /// Makes an extension of any kind.
    public init(type: ExtensionType, data: [UInt8]) {
        self.type = type
        self.data = data
    }
}

extension Extension: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) {
        type = try ExtensionType(from: &reader)
        data = try reader.opaque()
    }

    package func encode(into writer: inout TLSWriter) {
        type.encode(into: &writer)
        writer.opaque(data)
    }
}

extension [Extension] {
    /// The first extension of a kind, decoded.
    func decoded<Value: TLSCodable>(_ type: ExtensionType, as: Value.Type = Value.self) throws(MLSError) -> Value? {
        guard let found = first(where: { $0.type == type }) else { return nil }
        return try Value(decoding: found.data)
    }

    /// Checks that no kind stands twice (§13.4).
    func checkUnique() throws(MLSError) {
        guard Set(map(\.type)).count == count else { throw .duplicateExtension }
    }
}

extension Extension {
    /// A leaf's name, which nobody vouches for (RFC 9420 §5.3.3).
    public static func applicationID(_ id: [UInt8]) -> Extension {
        var writer = TLSWriter()
        writer.opaque(id)
        return Extension(type: .applicationID, data: writer.bytes)
    }

    /// The capabilities that every member must have (RFC 9420 §11.1).
    public static func requiredCapabilities(_ required: RequiredCapabilities) -> Extension {
        Extension(type: .requiredCapabilities, data: required.encoded)
    }

    /// The outsiders who may send proposals (RFC 9420 §12.1.8.1).
    public static func externalSenders(_ senders: [ExternalSender]) -> Extension {
        Extension(type: .externalSenders, data: ExternalSenders(senders: senders).encoded)
    }
}

/// The capabilities that every member of a group must have, beyond the defaults (RFC 9420 §11.1).
public struct RequiredCapabilities: Hashable, Sendable {
    /// Kinds of extensions.
    public var extensions: [ExtensionType]
    /// Kinds of proposals.
    public var proposals: [ProposalType]
    /// Kinds of credentials.
    public var credentials: [CredentialType]

    /// Takes the three lists.
    public init(
        extensions: [ExtensionType] = [], proposals: [ProposalType] = [], credentials: [CredentialType] = []
    ) {
        self.extensions = extensions
        self.proposals = proposals
        self.credentials = credentials
    }
}

extension RequiredCapabilities: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) {
        extensions = try reader.list()
        proposals = try reader.list()
        credentials = try reader.list()
    }

    package func encode(into writer: inout TLSWriter) {
        writer.list(extensions)
        writer.list(proposals)
        writer.list(credentials)
    }
}

/// One who may send proposals without being a member (RFC 9420 §12.1.8.1).
public struct ExternalSender: Hashable, Sendable {
    /// The key its messages are signed with.
    public var signatureKey: SignaturePublicKey
    /// The identity it presents.
    public var credential: Credential

    /// Names a sender.
    public init(signatureKey: SignaturePublicKey, credential: Credential) {
        self.signatureKey = signatureKey
        self.credential = credential
    }
}

extension ExternalSender {
    /// Reads one from its form on the wire.
    public init(_ bytes: [UInt8]) throws(MLSError) { try self.init(decoding: bytes) }

    /// The form on the wire, to be handed to whoever makes the group.
    public var bytes: [UInt8] { encoded }
}

extension ExternalSender: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) {
        signatureKey = try reader.opaque()
        credential = try Credential(from: &reader)
    }

    package func encode(into writer: inout TLSWriter) {
        writer.opaque(signatureKey)
        credential.encode(into: &writer)
    }
}

/// The content of the `external_senders` extension.
struct ExternalSenders: TLSCodable {
    var senders: [ExternalSender]
}

extension ExternalSenders {
    init(from reader: inout TLSReader) throws(MLSError) { senders = try reader.list() }
    func encode(into writer: inout TLSWriter) { writer.list(senders) }
}

/// The content of the `external_pub` extension (RFC 9420 §12.4.3.2).
struct ExternalPub: TLSCodable {
    var key: HPKEPublicKey
}

extension ExternalPub {
    init(from reader: inout TLSReader) throws(MLSError) { key = try reader.opaque() }
    func encode(into writer: inout TLSWriter) { writer.opaque(key) }
}
