extension Group {
    /// Proposes a change to the group; the proposal is queued here as it will be by the others (§12.1).
    ///
    /// An Update of this member's own leaf is made by ``proposeUpdate(profile:signatureKey:authenticatedData:)``.
    public mutating func propose(
        _ proposal: Proposal, authenticatedData: [UInt8] = [], at now: UInt64? = nil
    ) throws(MLSError) -> MLSMessage {
        try checkUsable()
        switch proposal {
        case .update: throw .proposalNotAllowedFromSender
        case .externalInit: throw .externalInitNotAllowed
        default: break
        }
        try check(SentProposal(proposal: proposal, sender: .member(leafIndex)), at: now)
        return try send(proposal, authenticatedData)
    }

    /// Proposes new keys for this member, and if wanted another credential or signature key (§12.1.2).
    public mutating func proposeUpdate(
        profile: LeafProfile? = nil, signatureKey: SignaturePrivateKey? = nil, authenticatedData: [UInt8] = []
    ) throws(MLSError) -> MLSMessage {
        try checkUsable()
        guard let own = tree.leaf(leafIndex) else { throw .blankLeaf }
        let encryption = state.suite.generateHPKEKey()
        let signature = signatureKey ?? self.signatureKey
        let leaf = try LeafNode(
            profile ?? LeafProfile(own), suite: state.suite, encryptionKey: encryption.publicKey,
            signatureKey: signature, source: .update, at: LeafLocation(groupID: groupID, leafIndex: leafIndex))
        try check(SentProposal(proposal: .update(leaf), sender: .member(leafIndex)), at: nil)
        let message = try send(.update(leaf), authenticatedData)
        proposals.add(ProposalQueue.OwnLeafKeys(encryption: encryption, signature: signature))
        return message
    }

    private mutating func send(_ proposal: Proposal, _ authenticatedData: [UInt8]) throws(MLSError) -> MLSMessage {
        guard proposals.all.count < configuration.queuedProposals else { throw .tooManyProposals }
        var content = try signed(.proposal(proposal), authenticatedData, configuration.handshakeFormat)
        let message = try protect(&content)
        proposals.add(
            QueuedProposal(
                reference: content.proposalReference(state.suite), proposal: proposal, sender: .member(leafIndex),
                authenticatedData: authenticatedData))
        return message
    }

    /// A name for a pre-shared key with a fresh nonce, for a proposal (§8.4).
    public func presharedKeyID(_ key: PreSharedKeyID.Key) -> PreSharedKeyID {
        PreSharedKeyID(key: key, nonce: randomBytes(state.suite.secretLength))
    }

    /// Checks one proposal as if it were committed alone by somebody else (§12.1).
    func check(_ item: SentProposal, at now: UInt64?) throws(MLSError) {
        try state.shared.check(item, lifetime: lifetimeRule(now), authentication: configuration.authentication)
    }
}

extension PublicState {
    /// Checks one proposal as if it were committed alone by somebody whom it does not concern (§12.1).
    func check(
        _ item: SentProposal, lifetime: LifetimeRule, authentication: any AuthenticationService
    ) throws(MLSError) {
        switch item.proposal {
        case .externalInit: throw .externalInitNotAllowed
        case .remove, .update, .add, .psk, .reInit, .groupContextExtensions, .custom: break
        }
        // A committer that no leaf number is: no rule about the committer's own leaf applies.
        let list = try ProposalList([item], committer: .member(.max), suite: suite, version: context.version)
        if case .add(let package) = item.proposal {
            // An Add of a member may stand beside that member's Remove: only the package itself is checked.
            try package.validate(suite, lifetime: lifetime)
            try TreeTraits.combine(tree.traits, TreeTraits(package.leafNode))?.check(
                extensions: context.extensions, required: requiredCapabilities())
            let leaf = package.leafNode
            guard authentication.isValid(leaf.credential, signatureKey: leaf.signatureKey, for: .add) else {
                throw .credentialRejected
            }
            return
        }
        _ = try apply(list, lifetime: lifetime, authentication: authentication)
    }
}
