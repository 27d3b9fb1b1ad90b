/// A client's own commit by which it joins a group (RFC 9420 §12.4.3.2).
///
/// Send ``commit``; when the group has accepted it, take the group with ``confirm()``. Let go, nothing has happened.
public struct ExternalJoin: ~Copyable, Sendable {
    /// The commit.
    public let commit: MLSMessage
    private let group: Group

    /// The new epoch's public state, to be published once the commit was accepted; O(members) with the tree.
    public func groupInfo(withTree: Bool = true, withExternalKey: Bool = true) throws(MLSError) -> GroupInfo {
        try group.groupInfo(withTree: withTree, withExternalKey: withExternalKey)
    }

    /// The group, once the commit was accepted.
    public consuming func confirm() -> Group { group }
}

/// The choices of a client that joins by its own commit.
public struct ExternalJoinOptions: Sendable {
    /// The group's tree, where the group info does not hold it (§12.4.3.3).
    public var tree: RatchetTree?
    /// The leaf of an earlier appearance of this client, which the commit removes.
    public var replacing: UInt32?
    /// The key that this client's last epoch of the group left behind: the group info must then come from somebody who
    /// knew it (``Group/resumptionProofs()``), and not from one who had been removed before.
    public var resuming: ResumptionKey?
    /// The pre-shared keys that the commit mixes in, in this order.
    public var pskIDs: [PreSharedKeyID] = []
    /// Those keys.
    public var psks = PreSharedKeys()
    /// The sender's additional data, in the clear.
    public var authenticatedData: [UInt8] = []
    /// Seconds since 1970; nil without a clock.
    public var now: UInt64?

    /// Joins as a new member.
    public init() {}
}

extension ExternalJoin {
    /// Makes the commit by which a client joins the group of a group info.
    ///
    /// - Throws: ``MLSError/resumptionNotProven`` for a group info that nobody made who knew the key that is resumed.
    public init(
        _ info: GroupInfo, profile: LeafProfile, signatureKey: SignaturePrivateKey,
        _ options: ExternalJoinOptions = ExternalJoinOptions(), configuration: GroupConfiguration
    ) throws(MLSError) {
        guard info.groupContext.version == .mls10 else { throw .unsupportedVersion }
        let suite = try configuration.suite(info.groupContext.cipherSuite)
        guard let external: ExternalPub = try info.extensions.decoded(.externalPub) else { throw .externalKeyMissing }
        let tree = try info.tree(suite, or: options.tree)
        if let key = options.resuming { try info.checkProof(suite, of: key) }
        let lifetime = LifetimeRule(now: options.now, maximum: configuration.maximumLifetime)
        try info.validate(
            suite, tree: tree, capabilities: profile.capabilities, lifetime: lifetime, configuration: configuration)
        let old = PublicState(
            suite, context: info.groupContext, tree: tree, confirmationTag: info.confirmationTag)
        let export = try suite.hpkeExport(to: external.key, context: externalInitLabel, count: suite.secretLength)
        var proposals: [Proposal] = [.externalInit(kemOutput: export.kemOutput)]
        if let replaced = options.replacing { proposals.append(.remove(replaced)) }
        proposals += options.pskIDs.map { .psk($0) }
        let list = try ProposalList(
            proposals.map { SentProposal(proposal: $0, sender: .newMemberCommit) }, committer: .newMember,
            suite: suite, version: info.groupContext.version)
        var applied = try old.apply(list, lifetime: lifetime, authentication: configuration.authentication)
        let leaf = try applied.tree.reserveLeaf()
        let path = try applied.tree.preparePath(
            suite, leaf: leaf, profile: profile, signatureKey: signatureKey, groupID: info.groupContext.groupID)
        try path.leafNode.validate(
            suite, at: LeafLocation(groupID: info.groupContext.groupID, leafIndex: leaf), lifetime: nil)
        try path.tree.checkCommonSupport(extensions: applied.extensions, required: applied.required)
        try configuration.authentication.admit(membersOf: path.tree)
        var context = try old.provisionalContext(path.tree, applied.extensions)
        let update = try applied.tree.encrypt(
            suite, path, context: context.encoded, excluding: [], executor: configuration.executor)
        let framed = FramedContent(
            groupID: context.groupID, epoch: info.groupContext.epoch, sender: .newMemberCommit,
            authenticatedData: options.authenticatedData,
            content: .commit(Commit(proposals: proposals.map { .proposal($0) }, path: update)))
        try framed.checkLength()
        var content = AuthenticatedContent(wireFormat: .publicMessage, content: framed)
        try content.sign(suite, with: signatureKey, context: old.contextBytes)
        context.confirmedTranscriptHash = suite.confirmedTranscriptHash(
            interim: old.interimTranscriptHash, commit: content)
        let bytes = context.encoded
        let schedule = KeySchedule(
            suite, initSecret: export.secret, commitSecret: path.commitSecret,
            pskSecret: try suite.pskSecret(options.pskIDs, from: options.psks), context: bytes)
        let derived = DerivedEpoch(
            suite, epochSecret: schedule.epochSecret(context: bytes), context: context, tree: path.tree)
        content.confirmationTag = derived.confirmationTag
        let state = derived.state(suite, context: context, tree: path.tree, keys: path.keys)
        self.init(
            commit: .publicMessage(PublicMessage(content, membershipTag: nil)),
            group: Group(state, signatureKey: signatureKey, configuration: configuration))
    }
}

extension MLSMessage {
    /// A client's proposal that it be added, for a group it knows by name and epoch (§12.1.8).
    public init(
        proposingToJoin bundle: KeyPackageBundle, _ suite: any CipherSuite, groupID: [UInt8], epoch: UInt64
    ) throws(MLSError) {
        try self.init(
            suite, .add(bundle.keyPackage), sender: .newMemberProposal, key: bundle.signatureKey, groupID: groupID,
            epoch: epoch)
    }

    /// A proposal of one of the group's external senders (§12.1.8), by its place in the `external_senders` extension.
    public init(
        proposing proposal: Proposal, asExternalSender index: UInt32, key: SignaturePrivateKey,
        _ suite: any CipherSuite, groupID: [UInt8], epoch: UInt64
    ) throws(MLSError) {
        guard proposal.type.isAllowedFromOutside else { throw .proposalNotAllowedFromSender }
        try self.init(suite, proposal, sender: .external(index), key: key, groupID: groupID, epoch: epoch)
    }

    private init(
        _ suite: any CipherSuite, _ proposal: Proposal, sender: Sender, key: SignaturePrivateKey, groupID: [UInt8],
        epoch: UInt64
    ) throws(MLSError) {
        var content = AuthenticatedContent(
            wireFormat: .publicMessage,
            content: FramedContent(
                groupID: groupID, epoch: epoch, sender: sender, authenticatedData: [], content: .proposal(proposal)))
        try content.sign(suite, with: key, context: [])
        self = .publicMessage(PublicMessage(content, membershipTag: nil))
    }
}
