/// A content with its sender's signature, and for a commit the tag that confirms the new epoch (RFC 9420 §6.1).
package struct AuthenticatedContent: Hashable, TLSCodable {
    package let wireFormat: WireFormat
    package let content: FramedContent
    /// The bytes of ``content``: signatures, tags and transcripts are made over them again and again.
    let contentBytes: ArraySlice<UInt8>
    package var signature: [UInt8]
    package var confirmationTag: [UInt8]?

    package init(wireFormat: WireFormat, content: FramedContent) {
        self.init(wireFormat: wireFormat, content: content, contentBytes: content.encoded[...])
    }

    /// The same for a content whose bytes are known.
    init(wireFormat: WireFormat, content: FramedContent, contentBytes: ArraySlice<UInt8>) {
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

    /// The number of bytes that ``encodeToBeSigned(context:into:)`` writes.
    private func toBeSignedCount(_ context: [UInt8]) -> Int { 4 + contentBytes.count + (isBound ? context.count : 0) }

    /// True when the signature covers the group's state: of members and of those who join (§6.1).
    private var isBound: Bool {
        switch content.sender {
        case .member, .newMemberCommit: true
        case .external, .newMemberProposal: false
        }
    }

    /// `FramedContentTBS`.
    private func encodeToBeSigned(context: [UInt8], into writer: inout TLSWriter) {
        ProtocolVersion.mls10.encode(into: &writer)
        wireFormat.encode(into: &writer)
        writer.fixed(contentBytes)
        if isBound { writer.fixed(context) }
    }

    /// `SignContent` over `FramedContentTBS`, in one piece: the content may be large.
    private func signContent(_ context: [UInt8]) -> [UInt8] {
        let count = toBeSignedCount(context)
        var writer = TLSWriter(capacity: count + 40)
        writer.label("FramedContentTBS")
        writer.length(count)
        encodeToBeSigned(context: context, into: &writer)
        return writer.bytes
    }

    package mutating func sign(
        _ suite: any CipherSuite, with key: SignaturePrivateKey, context: [UInt8]
    ) throws(MLSError) {
        signature = try suite.sign(signContent(context), with: key)
    }

    package func hasValidSignature(_ suite: any CipherSuite, by key: SignaturePublicKey, context: [UInt8]) -> Bool {
        suite.isValid(signature, for: signContent(context), by: key)
    }

    /// `MAC(membership_key, AuthenticatedContentTBM)` (§6.2).
    package func membershipTag(_ suite: any CipherSuite, _ key: borrowing Secret, context: [UInt8]) -> [UInt8] {
        var head = TLSWriter(capacity: 4)
        ProtocolVersion.mls10.encode(into: &head)
        wireFormat.encode(into: &head)
        var tail = TLSWriter(capacity: context.count + 256)
        if isBound { tail.fixed(context) }
        encodeAuth(into: &tail)
        return suite.mac(key, [head.bytes[...], contentBytes, tail.bytes[...]])
    }

    /// `MakeProposalRef` (§5.2).
    package func proposalReference(_ suite: any CipherSuite) -> ProposalReference {
        suite.referenceHash("MLS 1.0 Proposal Reference", encoded)
    }

    /// The parts of a transcript hash followed by `ConfirmedTranscriptHashInput` (§8.2).
    func confirmedTranscriptHashInput(after interim: [UInt8]) -> [ArraySlice<UInt8>] {
        var format = TLSWriter(capacity: 2)
        wireFormat.encode(into: &format)
        var tail = TLSWriter(capacity: signature.count + 2)
        tail.opaque(signature)
        return [interim[...], format.bytes[...], contentBytes, tail.bytes[...]]
    }
}
