/// What a client decides for itself in a group; none of it is agreed with others.
public struct GroupConfiguration: Sendable {
    /// Says who is who.
    public var authentication: any AuthenticationService
    /// The suites of groups that the client joins, where one of its own stands beside the engine's.
    public var suites: [any CipherSuite] = CipherSuites.all + CipherSuites.experimental
    /// Which wire format the client's proposals and commits take: public or private.
    public var handshakeFormat: WireFormat = .privateMessage
    /// Whether proposals and commits of members that are not encrypted are taken.
    public var acceptsPublicHandshake = true
    /// Whether others may join by their own commit who are no members: whoever has the group's public state, and a
    /// credential that ``authentication`` takes for a committer's.
    public var acceptsExternalCommits = true
    /// Whether members may replace a lost appearance of theirs by their own commit (§12.4.3.2).
    public var acceptsResync = true
    /// Whether others may propose that they be added (§12.1.8).
    public var acceptsNewMemberProposals = true
    /// How much is added to encrypted messages.
    public var padding: PaddingPolicy = .sizeClasses
    /// How far messages may come out of their order.
    public var ratchetLimits = RatchetLimits()
    /// What is kept of past epochs to read late messages.
    public var retention = EpochRetention()
    /// For how many past epochs the resumption key is kept (§8.6).
    public var resumptionEpochs = 16
    /// The longest lifetime of a leaf that is taken, in seconds (§7.2): by default 13 weeks and an hour.
    public var maximumLifetime: UInt64 = 13 * 7 * 86_400 + 3_600
    /// How many proposals of one epoch are kept.
    public var queuedProposals = 4_096
    /// How many own messages are known again when they come back.
    public var rememberedMessages = 256
    /// Of how many own messages the keys are kept, so that this member can read them once when they come back.
    ///
    /// None of them is then an ``OwnMessage``. Zero, as the RFC has it, unless an application cannot keep what it sends.
    public var readableOwnMessages = 0

    /// Who does what is to be done for each of many members: by default the caller's own thread.
    public var workforce: any Workforce = Alone()

    /// The defaults.
    public init(authentication: any AuthenticationService) { self.authentication = authentication }

    /// The suite with a number.
    func suite(_ id: CipherSuiteID) throws(MLSError) -> any CipherSuite {
        guard let suite = suites.first(where: { $0.id == id }) else { throw .unsupportedCipherSuite }
        return suite
    }
}

/// What is kept of past epochs so that late messages can be read (RFC 9420 §15.3).
public struct EpochRetention: Hashable, Sendable {
    /// How many epochs.
    public var epochs: Int
    /// For how many seconds after an epoch ended.
    public var seconds: UInt64
    /// How many messages of each.
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
