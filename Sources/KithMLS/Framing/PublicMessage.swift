/// A message that everybody can read and nobody can change (RFC 9420 §6.2).
public struct PublicMessage: Hashable, Sendable {
    package let authenticated: AuthenticatedContent
    /// The group's tag, present when the sender is a member.
    package var membershipTag: [UInt8]?

    /// The group's name.
    public var groupID: [UInt8] { authenticated.content.groupID }
    /// The epoch it was sent in.
    public var epoch: UInt64 { authenticated.content.epoch }
    /// The sender, as the message names it.
    public var sender: Sender { authenticated.content.sender }
    /// The kind of its content.
    public var contentType: ContentType { authenticated.content.content.type }
    /// The sender's additional data, in the clear.
    public var authenticatedData: [UInt8] { authenticated.content.authenticatedData }

    package init(_ authenticated: AuthenticatedContent, membershipTag: [UInt8]?) {
        self.authenticated = authenticated
        self.membershipTag = membershipTag
    }
}

extension PublicMessage: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) {
        let start = reader.offset
        let content = try FramedContent(from: &reader)
        var authenticated = AuthenticatedContent(
            wireFormat: .publicMessage, content: content, contentBytes: reader.read(since: start))
        (authenticated.signature, authenticated.confirmationTag) = try AuthenticatedContent.readAuth(
            content.content.type, from: &reader)
        self.authenticated = authenticated
        if case .member = content.sender { membershipTag = try reader.opaque() } else { membershipTag = nil }
    }

    package func encode(into writer: inout TLSWriter) {
        writer.fixed(authenticated.contentBytes)
        authenticated.encodeAuth(into: &writer)
        if let membershipTag { writer.opaque(membershipTag) }
    }
}

extension PublicMessage {
    /// Protects a member's handshake content (§6.2).
    package init(
        protecting authenticated: AuthenticatedContent, _ suite: any CipherSuite, membershipKey: borrowing Secret,
        context: [UInt8]
    ) throws(MLSError) {
        guard authenticated.content.content.type != .application else { throw .applicationDataNotEncrypted }
        if case .member = authenticated.content.sender {
            self.init(
                authenticated, membershipTag: authenticated.membershipTag(suite, membershipKey, context: context))
        } else {
            self.init(authenticated, membershipTag: nil)
        }
    }

    /// Checks the group's tag, which only a member's message has (§6.2).
    package func checkMembership(
        _ suite: any CipherSuite, _ key: borrowing Secret, context: [UInt8]
    ) throws(MLSError) {
        guard case .member = sender else { return }
        guard let membershipTag,
            constantTimeEqual(membershipTag, authenticated.membershipTag(suite, key, context: context))
        else { throw .invalidMembershipTag }
    }
}
