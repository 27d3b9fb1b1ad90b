/// The optional contents of a commit.
public struct CommitOptions: Sendable {
    /// Proposals of the committer's own, sent with the commit.
    public var proposals: [Proposal] = []
    /// True to commit the proposals that were sent in this epoch too.
    public var includesQueuedProposals = true
    /// The queued proposals to commit, in this order; nil for all that go together.
    ///
    /// What was chosen is committed whole or refused: ``MLSError/unknownProposal`` for one that is not queued.
    public var chosenProposals: [ProposalReference]?
    /// True to renew the committer's keys even when the proposals do not ask for it (§12.4).
    public var forcesPath = false
    /// Another credential, other capabilities or extensions for the committer's leaf; renews its keys.
    public var profile: LeafProfile?
    /// Another signature key for the committer; renews its keys.
    public var signatureKey: SignaturePrivateKey?
    /// The sender's additional data for the commit, in the clear.
    public var authenticatedData: [UInt8] = []
    /// True to put the whole tree into the Welcome; otherwise new members need it another way (§12.4.3.3).
    public var welcomeHasTree = true
    /// Further extensions for the group info in the Welcome.
    public var groupInfoExtensions: [Extension] = []

    /// The defaults: all queued proposals, and new keys where the RFC asks for them.
    public init() {}

    /// The defaults with proposals of the committer's own.
    public init(_ proposals: [Proposal]) { self.proposals = proposals }
}

/// The messages of a staged commit: the commit for the members, and the Welcome for the added clients, to be sent only
/// after the commit was accepted (RFC 9420 §14).
public struct CommitOutput: Sendable {
    /// The commit.
    public let commit: MLSMessage
    /// For the added clients, if there are any.
    public let welcome: MLSMessage?
    /// The change of the group.
    public let change: EpochChange
    /// The committer's own proposals, which may be made again when another commit wins.
    public let proposals: [Proposal]
    /// The queued proposals that are committed.
    public let references: [ProposalReference]
}

/// The change of a group by a commit.
public struct EpochChange: Hashable, Sendable {
    /// A member and its leaf's content.
    public struct Member: Hashable, Sendable {
        /// The leaf.
        public let leaf: UInt32
        /// The leaf's content.
        public let node: LeafNode

        /// Takes both.
        public init(leaf: UInt32, node: LeafNode) {
            self.leaf = leaf
            self.node = node
        }
    }

    /// The epoch that begins.
    public let epoch: UInt64
    /// The leaf of the member who committed, in the new epoch.
    public let committer: UInt32
    /// True when the committer joined by this commit.
    public let isExternal: Bool
    /// True when the committer's keys are new.
    public let hasPath: Bool
    /// The members added, a joiner by its own commit included.
    public let added: [Member]
    /// The members removed, with the content their leaves had.
    public let removed: [Member]
    /// Whose leaves were replaced, the committer's included.
    public let updated: [Member]
    /// The pre-shared keys that were mixed in.
    public let psks: [PreSharedKeyID]
    /// The group's new extensions, where they were replaced.
    public let extensions: [Extension]?
    /// The group that is to follow; this one has then ended.
    public let reInit: ReInit?
    /// Proposals of the application's own kinds.
    public let custom: [SentProposal]
    /// The committer's additional data, in the clear.
    public let authenticatedData: [UInt8]
}

extension EpochChange {
    init(
        _ list: ProposalList, before: RatchetTree, after: RatchetTree, added: [UInt32], epoch: UInt64,
        committer: UInt32, isExternal: Bool, hasPath: Bool, authenticatedData: [UInt8]
    ) {
        func members(_ leaves: [UInt32], _ tree: RatchetTree) -> [Member] {
            leaves.compactMap { leaf in tree.leaf(leaf).map { Member(leaf: leaf, node: $0) } }
        }
        self.epoch = epoch
        self.committer = committer
        self.isExternal = isExternal
        self.hasPath = hasPath
        self.added = members(isExternal ? [committer] : added, after)
        self.removed = members(list.removes, before)
        self.updated = members(list.updates.map(\.leaf) + (hasPath && !isExternal ? [committer] : []), after)
        self.psks = list.psks
        self.extensions = list.extensions
        self.reInit = list.reInit
        self.custom = list.custom
        self.authenticatedData = authenticatedData
    }
}

/// An own commit that awaits its confirmation.
struct PendingCommit: ~Copyable, Sendable {
    let state: EpochState
    let signatureKey: SignaturePrivateKey
    let message: MLSMessage
    /// For the added clients, kept until the commit was accepted.
    let welcome: MLSMessage?
    let change: EpochChange
    /// The committer's own proposals.
    let proposals: [Proposal]
    let references: [ProposalReference]
}
