/// A content with its sender's signature, and for a commit the tag that confirms the new epoch (RFC 9420 §6.1).
package struct AuthenticatedContent: Hashable, TLSCodable {
    package let wireFormat: WireFormat
    package let content: FramedContent
    /// The bytes of ``content``: signatures, tags and transcripts are made over them again and again.
    let contentBytes: [UInt8]
    package var signature: [UInt8]
    package var confirmationTag: [UInt8]?

    package init(wireFormat: WireFormat, content: FramedContent) {
        self.init(wireFormat: wireFormat, content: content, contentBytes: content.encoded)
    }

    /// The same for a content whose bytes are known.
    init(wireFormat: WireFormat, content: FramedContent, contentBytes: [UInt8]) {
        self.wireFormat = wireFormat
        self.content = content
        self.contentBytes = contentBytes
        self.signature = []
    }

    package init(from reader: inout TLSReader) throws(MLSError) {
        wireFormat = try WireFormat(from: &reader)
        let start = reader.offset
        content = try FramedContent(from: &reader)
        contentBytes = reader.read(since: start)
        (signature, confirmationTag) = try Self.readAuth(content.content.type, from: &reader)
    }

    package func encode(into writer: inout TLSWriter) {
        wireFormat.encode(into: &writer)
        writer.fixed(contentBytes)
        encodeAuth(into: &writer)
    }

    /// `FramedContentAuthData`.
    static func readAuth(
        _ type: ContentType, from reader: inout TLSReader
    ) throws(MLSError) -> (signature: [UInt8], tag: [UInt8]?) {
        (try reader.opaque(), type == .commit ? try reader.opaque() : nil)
    }

    /// `FramedContentAuthData`.
    func encodeAuth(into writer: inout TLSWriter) {
        writer.opaque(signature)
        if let confirmationTag { writer.opaque(confirmationTag) }
    }

    /// `FramedContentTBS`: what the signature is over; members' content is bound to the group's state.
    package func toBeSigned(_ context: [UInt8]) -> [UInt8] {
        var writer = TLSWriter(capacity: contentBytes.count + context.count + 4)
        ProtocolVersion.mls10.encode(into: &writer)
        wireFormat.encode(into: &writer)
        writer.fixed(contentBytes)
        switch content.sender {
        case .member, .newMemberCommit: writer.fixed(context)
        case .external, .newMemberProposal: break
        }
        return writer.bytes
    }

    package mutating func sign(
        _ suite: any CipherSuite, with key: SignaturePrivateKey, context: [UInt8]
    ) throws(MLSError) {
        signature = try suite.sign(toBeSigned(context), label: "FramedContentTBS", with: key)
    }

    package func hasValidSignature(_ suite: any CipherSuite, by key: SignaturePublicKey, context: [UInt8]) -> Bool {
        suite.isValid(signature, for: toBeSigned(context), label: "FramedContentTBS", by: key)
    }

    /// `MAC(membership_key, AuthenticatedContentTBM)` (§6.2).
    package func membershipTag(_ suite: any CipherSuite, _ key: borrowing Secret, context: [UInt8]) -> [UInt8] {
        var writer = TLSWriter(capacity: contentBytes.count + context.count + 200)
        writer.fixed(toBeSigned(context))
        encodeAuth(into: &writer)
        return suite.mac(key, writer.bytes)
    }

    /// `MakeProposalRef` (§5.2).
    package func proposalReference(_ suite: any CipherSuite) -> ProposalReference {
        suite.referenceHash("MLS 1.0 Proposal Reference", encoded)
    }

    /// `ConfirmedTranscriptHashInput` (§8.2).
    var confirmedTranscriptHashInput: [UInt8] {
        var writer = TLSWriter(capacity: contentBytes.count + 100)
        wireFormat.encode(into: &writer)
        writer.fixed(contentBytes)
        writer.opaque(signature)
        return writer.bytes
    }
}
