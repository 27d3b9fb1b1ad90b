/// Follows a group's public messages without its secrets: a server that wants to refuse commits nobody will take
/// (RFC 9420 §3.2).
///
/// It checks all that can be checked without keys: shapes, signatures, proposals, trees. It cannot check membership and
/// confirmation tags, so a member that lies about those is found out by the members only.
public struct GroupObserver: Sendable {
    private var state: PublicState
    private var proposals = ProposalQueue()
    /// The settings the observer chose for itself.
    public var configuration: GroupConfiguration

    /// The state that the members agree on.
    public var context: GroupContext { state.context }
    /// The members and their public keys.
    public var tree: RatchetTree { state.tree }

    /// Starts with a group info and the tree, where the info does not hold it.
    public init(
        _ info: GroupInfo, tree: RatchetTree? = nil, at now: UInt64? = nil, configuration: GroupConfiguration
    ) throws(MLSError) {
        let suite = try configuration.suite(info.groupContext.cipherSuite)
        let tree = try info.tree(suite, or: tree)
        try tree.validate(
            suite, context: info.groupContext, lifetime: LifetimeRule(now: now, maximum: configuration.maximumLifetime),
            configuration: configuration)
        state = PublicState(suite, context: info.groupContext, tree: tree, confirmationTag: info.confirmationTag)
        self.configuration = configuration
    }

    /// The kind of message that was observed.
    @nonexhaustive
    public enum Observed: Hashable, Sendable {
        /// A proposal, now queued.
        case proposal(QueuedProposal)
        /// A commit, which has begun a new epoch.
        case commit(EpochChange)
    }

    /// Takes in a proposal or commit; on an error nothing has changed.
    public mutating func process(_ message: PublicMessage, at now: UInt64? = nil) throws(MLSError) -> Observed {
        try state.checkGroup(message.groupID)
        guard message.epoch == context.epoch else { throw .wrongEpoch }
        let content = message.authenticated
        try state.checkSignature(content)
        let lifetime = LifetimeRule(now: now, maximum: configuration.maximumLifetime)
        switch content.content.content {
        case .application: throw .applicationDataNotEncrypted
        case .proposal(let proposal):
            guard proposals.all.count < configuration.queuedProposals else { throw .tooManyProposals }
            try state.check(
                SentProposal(proposal: proposal, sender: message.sender), lifetime: lifetime,
                authentication: configuration.authentication)
            let queued = QueuedProposal(
                reference: content.proposalReference(state.suite), proposal: proposal, sender: message.sender,
                authenticatedData: message.authenticatedData)
            proposals.add(queued)
            return .proposal(queued)
        case .commit(let commit):
            guard let tag = content.confirmationTag else { throw .invalidConfirmationTag }
            let result = try state.process(
                commit, in: content, queue: proposals, configuration: configuration, lifetime: lifetime)
            let change = EpochChange(
                result.list, before: state.tree, after: result.tree, added: result.applied.added,
                epoch: result.context.epoch, committer: result.committer, isExternal: result.isExternal,
                hasPath: commit.path != nil, authenticatedData: message.authenticatedData)
            state = PublicState(state.suite, context: result.context, tree: result.tree, confirmationTag: tag)
            proposals = ProposalQueue()
            return .commit(change)
        }
    }
}
