/// The settings a client chooses for itself in a group; none of them is agreed with others.
public struct GroupConfiguration: Sendable {
    /// Says who is who.
    public var authentication: any AuthenticationService
    /// The suites of groups that the client joins, where one of its own stands beside the engine's.
    public var suites: [any CipherSuite] = CipherSuites.all + CipherSuites.experimental
    /// The wire format of the client's proposals and commits: public or private.
    public var handshakeFormat: WireFormat = .privateMessage
    /// True to accept proposals and commits of members that are not encrypted.
    public var acceptsPublicHandshake = true
    /// True to let outsiders join by their own commit: anybody with the group's public state and a credential that
    /// ``authentication`` accepts of a committer.
    public var acceptsExternalCommits = true
    /// The members who may replace a lost appearance of theirs by their own commit (§12.4.3.2): by default those who
    /// still have its signature key.
    public var acceptsResync = ResyncRule.sameKey
    /// True to let outsiders propose that they be added (§12.1.8).
    public var acceptsNewMemberProposals = true
    /// The padding of encrypted messages.
    public var padding: PaddingPolicy = .sizeClasses
    /// The limits on messages that come out of order.
    public var ratchetLimits = RatchetLimits()
    /// The part of past epochs that is kept to read late messages.
    public var retention = EpochRetention()
    /// For how many past epochs the resumption key is kept (§8.6).
    public var resumptionEpochs = 16
    /// The longest lifetime of a leaf that is taken, in seconds (§7.2): by default any, as other implementations offer
    /// key packages that never expire.
    public var maximumLifetime: UInt64 = .max
    /// The number of proposals kept in one epoch.
    public var queuedProposals = 4_096
    /// The size in bytes of all proposals kept in one epoch: 64 MiB by default.
    public var queuedProposalBytes = 64 << 20
    /// The number of own messages that are recognised when they come back.
    public var rememberedMessages = 256
    /// The number of own messages whose keys are kept, so that this member can read them once when they come back.
    ///
    /// None of them is then an ``OwnMessage``. Zero, as the RFC has it, unless an application cannot keep what it sends.
    public var readableOwnMessages = 0

    /// The executor of work that is done for each of many members: by default the caller's own thread.
    public var executor: any WorkExecutor = SerialWorkExecutor()

    /// The defaults; keys are pinned in memory unless another service says who is who.
    public init(authentication: any AuthenticationService = PinningAuthenticationService()) {
        self.authentication = authentication
    }

    /// The suite with a number.
    func suite(_ id: CipherSuiteID) throws(MLSError) -> any CipherSuite {
        guard let suite = suites.first(where: { $0.id == id }) else { throw .unsupportedCipherSuite }
        return suite
    }
}

/// The members whose leaf may be replaced by a commit from outside (RFC 9420 §12.4.3.2).
///
/// Whoever has a group's public state can make such a commit, and its remove needs nobody's consent: an outsider must
/// not evict a member by it.
@nonexhaustive
public enum ResyncRule: Hashable, Sendable {
    /// None: who has lost its state is removed and added again.
    case never
    /// Those whose new leaf has the signature key of the one it replaces.
    case sameKey
    /// Those whose new credential ``AuthenticationService`` takes as the old one's successor, whatever their key.
    case successor
}

/// The part of past epochs that is kept so that late messages can be read (RFC 9420 §15.3).
public struct EpochRetention: Hashable, Sendable {
    /// The number of epochs.
    public var epochs: Int
    /// For how many seconds after an epoch ended.
    public var seconds: UInt64
    /// The number of messages of each.
    public var messages: Int

    /// Takes the three limits; an epoch is given up at the first it reaches.
    public init(epochs: Int = 5, seconds: UInt64 = 86_400, messages: Int = 10_000) {
        self.epochs = epochs
        self.seconds = seconds
        self.messages = messages
    }

    /// Nothing is kept.
    public static let none = EpochRetention(epochs: 0, seconds: 0, messages: 0)
}
