/// The state known to everybody who follows a group's public messages: all but its secrets.
struct PublicState: Sendable {
    let suite: any CipherSuite
    let context: GroupContext
    /// The bytes of ``context``, which every signature is over.
    let contextBytes: [UInt8]
    let tree: RatchetTree
    let confirmationTag: [UInt8]
    let interimTranscriptHash: [UInt8]

    init(
        _ suite: any CipherSuite, context: GroupContext, tree: RatchetTree, confirmationTag: [UInt8]
    ) {
        self.suite = suite
        self.context = context
        self.contextBytes = context.encoded
        self.tree = tree
        self.confirmationTag = confirmationTag
        self.interimTranscriptHash = suite.interimTranscriptHash(
            confirmed: context.confirmedTranscriptHash, confirmationTag: confirmationTag)
    }

    func requiredCapabilities() throws(MLSError) -> RequiredCapabilities? {
        try context.extensions.decoded(.requiredCapabilities)
    }

    func externalSenders() throws(MLSError) -> [ExternalSender] {
        try context.extensions.decoded(.externalSenders, as: ExternalSenders.self)?.senders ?? []
    }

    /// Checks that a message belongs to this group.
    func checkGroup(_ groupID: [UInt8]) throws(MLSError) {
        guard groupID == context.groupID else { throw .wrongGroup }
    }

    /// The key a sender signs with (§6.1), after checking that it may send content of this kind.
    func signatureKey(of content: FramedContent) throws(MLSError) -> SignaturePublicKey {
        switch (content.sender, content.content) {
        case (.member(let leaf), _):
            guard let key = tree.signatureKey(leaf) else { throw .senderNotMember }
            return key
        case (.external(let index), .proposal(let proposal)):
            guard proposal.type.isAllowedFromOutside else { throw .proposalNotAllowedFromSender }
            let senders = try externalSenders()
            guard index < senders.count else { throw .unknownExternalSender }
            return senders[Int(index)].signatureKey
        case (.newMemberProposal, .proposal(.add(let package))): return package.leafNode.signatureKey
        case (.newMemberProposal, .proposal): throw .proposalNotAllowedFromSender
        case (.newMemberCommit, .commit(let commit)):
            guard let path = commit.path else { throw .pathRequired }
            return path.leafNode.signatureKey
        case (.external, _), (.newMemberProposal, _), (.newMemberCommit, _): throw .contentNotAllowedFromSender
        }
    }

    /// Checks the signature of a message from this epoch (§6.1).
    func checkSignature(_ authenticated: AuthenticatedContent) throws(MLSError) {
        let key = try signatureKey(of: authenticated.content)
        guard authenticated.hasValidSignature(suite, by: key, context: contextBytes) else {
            throw .invalidMessageSignature
        }
    }
}

extension ProposalType {
    /// True when an external sender may send it (§12.1.8).
    var isAllowedFromOutside: Bool {
        switch self {
        case .add, .remove, .psk, .reInit, .groupContextExtensions: true
        default: false
        }
    }
}
