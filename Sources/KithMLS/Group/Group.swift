/// A client's membership in one group (RFC 9420).
///
/// A value with one owner: there is no second copy that could use a message key again. Every operation either succeeds
/// or throws an ``MLSError`` and leaves the group as it was. The engine reads no clock and keeps nothing on disk.
///
/// A commit changes nothing before it is confirmed:
///
///     ours:    stageCommit ──▶ pending ──confirmPendingCommit──▶ next epoch
///                                 └──discardPendingCommit──▶ as before
///     theirs:  process ──▶ StagedCommit ──confirm──▶ next epoch
///                              └──dropped──▶ as before
public struct Group: ~Copyable, Sendable {
    var state: EpochState
    /// The key this member signs with.
    var signatureKey: SignaturePrivateKey
    /// The settings this client chose for itself.
    public var configuration: GroupConfiguration
    var proposals = ProposalQueue()
    var pending: PendingCommit?
    var past: [PastEpoch] = []
    var resumption = ResumptionKeys()
    var sent = SentMessages()
    /// The stored state of the group; `nil` when nothing is stored.
    var journal: GroupJournal?
    /// The parameters of the group that follows, once a commit has ended this one (§11.2).
    public internal(set) var reInit: ReInit?
    /// True once a commit has removed this member, in the epoch that the commit ended.
    public internal(set) var isRemoved = false

    init(_ state: consuming EpochState, signatureKey: SignaturePrivateKey, configuration: GroupConfiguration) {
        resumption.add(epoch: state.context.epoch, state.secrets.resumptionPSK, limit: configuration.resumptionEpochs)
        self.state = state
        self.signatureKey = signatureKey
        self.configuration = configuration
    }

    /// The state that all members agree on.
    public var context: GroupContext { state.context }
    /// The group's name.
    public var groupID: [UInt8] { state.context.groupID }
    /// The current epoch.
    public var epoch: UInt64 { state.context.epoch }
    /// The group's cipher suite.
    public var cipherSuite: any CipherSuite { state.suite }
    /// This member's leaf.
    public var leafIndex: UInt32 { state.leafIndex }
    /// The members and their keys.
    public var tree: RatchetTree { state.tree }
    /// The proposals of this epoch that await a commit.
    public var queuedProposals: [QueuedProposal] { proposals.all }
    /// True while a commit of this member awaits its confirmation.
    public var hasPendingCommit: Bool { pending != nil }

    /// The own commit that awaits its confirmation, with its Welcome.
    public var pendingCommit: CommitOutput? {
        switch pending {
        case .none: nil
        case .some(let pending):
            CommitOutput(
                commit: pending.message, welcome: pending.welcome, change: pending.change,
                proposals: pending.proposals, references: pending.references)
        }
    }

    /// A value that two members compare to know that they see the same group (§8.7).
    public var epochAuthenticator: [UInt8] { state.secrets.authenticator.reveal() }

    /// A secret for the application, which all members of this epoch can make (§8.5).
    ///
    /// - Throws: ``MLSError/exportTooLong`` above 255 hashes' length.
    public func export(label: String, context: [UInt8], count: Int) throws(MLSError) -> Secret {
        guard count >= 0, count <= 255 * state.suite.secretLength, count <= Int(UInt16.max) else {
            throw .exportTooLong
        }
        return state.secrets.export(state.suite, label: label, context: context, count: count)
    }

    /// Checks that the group may still be used.
    func checkUsable() throws(MLSError) {
        guard !isRemoved else { throw .removedFromGroup }
        guard reInit == nil else { throw .groupEnded }
    }

    func lifetimeRule(_ now: UInt64?) -> LifetimeRule {
        LifetimeRule(now: now, maximum: configuration.maximumLifetime)
    }

    /// The keys at hand for a commit: the caller's and this group's own resumption keys.
    func allKeys(_ psks: PreSharedKeys) -> PreSharedKeys {
        var all = psks
        for (epoch, key) in resumption.keys { all.add(groupID, epoch, key) }
        return all
    }
}

/// The resumption keys of a group's last epochs (RFC 9420 §8.6).
struct ResumptionKeys: Sendable {
    private(set) var keys: [(epoch: UInt64, key: SecretBox)] = []

    init(_ keys: [(epoch: UInt64, key: SecretBox)] = []) { self.keys = keys }

    /// Puts keys of earlier epochs before those there are.
    mutating func insert(_ earlier: ResumptionKeys?, before first: UInt64) {
        keys = (earlier?.keys ?? []).filter { $0.epoch < first } + keys
    }

    mutating func add(epoch: UInt64, _ key: SecretBox, limit: Int) {
        keys.append((epoch, key))
        if keys.count > limit + 1 { keys.removeFirst(keys.count - limit - 1) }
    }
}

/// The messages this member sent lately, so that it knows its own echoes: a sender cannot decrypt them (RFC 9420).
struct SentMessages: Sendable {
    private(set) var digests: [[UInt8]] = []
    /// The number sent in this epoch.
    private(set) var total: UInt64 = 0

    init() {}

    /// Those that are stored, the last of them the `total`-th.
    init(_ digests: [[UInt8]], total: UInt64) {
        self.digests = digests
        self.total = total
    }

    mutating func add(_ digest: [UInt8], limit: Int) {
        total += 1
        digests.append(digest)
        if digests.count > limit { digests.removeFirst(digests.count - limit) }
    }

    func contains(_ digest: [UInt8]) -> Bool { digests.contains(digest) }

    /// True when more were sent than are remembered.
    var hasForgotten: Bool { total > digests.count }

    /// Forgets one that came back, until the group is opened again; false when it is not known.
    mutating func takeEcho(_ digest: [UInt8]) -> Bool {
        guard let index = digests.firstIndex(of: digest) else { return false }
        digests[index] = []
        return true
    }
}
