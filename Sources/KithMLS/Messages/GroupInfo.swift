/// A group's public state, signed by a member, for those who join (RFC 9420 §12.4.3).
public struct GroupInfo: Hashable, Sendable {
    /// The state that the members agree on.
    public var groupContext: GroupContext
    /// The extensions a new member needs besides; unknown kinds are passed over.
    public var extensions: [Extension]
    /// The confirmation tag of the commit that began the epoch.
    public var confirmationTag: [UInt8]
    /// The leaf of the member who signed.
    public var signer: UInt32
    /// The signature over the rest.
    public var signature: [UInt8]
}

extension GroupInfo: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) {
        groupContext = try GroupContext(from: &reader)
        extensions = try reader.list()
        confirmationTag = try reader.opaque()
        signer = try reader.integer()
        signature = try reader.opaque()
    }

    package func encode(into writer: inout TLSWriter) {
        encodeUnsigned(into: &writer)
        writer.opaque(signature)
    }

    private func encodeUnsigned(into writer: inout TLSWriter) {
        groupContext.encode(into: &writer)
        writer.list(extensions)
        writer.opaque(confirmationTag)
        writer.integer(signer)
    }

    /// `SignContent` over `GroupInfoTBS`, in one piece: the tree may be large.
    private var signContent: [UInt8] {
        var writer = TLSWriter(capacity: extensions.reduce(1_024) { $0 + $1.data.count + 16 })
        writer.label("GroupInfoTBS")
        writer.vector { encodeUnsigned(into: &$0) }
        return writer.bytes
    }

    package mutating func sign(_ suite: any CipherSuite, with key: SignaturePrivateKey) throws(MLSError) {
        signature = try suite.sign(signContent, with: key)
    }

    package func hasValidSignature(_ suite: any CipherSuite, by key: SignaturePublicKey) -> Bool {
        suite.isValid(signature, for: signContent, by: key)
    }
}
