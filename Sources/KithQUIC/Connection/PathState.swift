import KithWire

/// One path: whether the peer is proven to be at its other end, how much may be sent before, and what is known of it.
struct PathState {
    /// Its address.
    var address: PathAddress
    var rank: PathRank
    /// Indicates whether the peer has shown that it receives there (RFC 9000 §8).
    var isValidated: Bool
    /// Indicates whether only a small challenge has been answered, so that nobody knows yet whether it carries 1200 bytes.
    var needsFullSize = false
    /// Indicates whether this end may send before that: a client to its server, at its own wish.
    var isTrusted = false
    /// Indicates whether this end has asked for it: it is not pushed out by those the peer comes from.
    var isOwn = false
    /// The numbers of bytes received and sent, for the limit before validation and for statistics.
    var bytesReceived: UInt64 = 0
    var bytesSent: UInt64 = 0
    /// The sequence number of the peer's id that packets are sent to (RFC 9000 §9.5).
    var peerSequence: UInt64 = 0
    /// The id of ours that the peer last used here.
    var localID: ConnectionID?
    /// The validation under way.
    var validation: PathValidation?
    /// The round trip of the newest challenge.
    var challengeDelay: Int64?
    /// Indicates whether to move here once it is validated.
    var movesWhenValidated = false
    /// Indicates whether it was left on purpose, and is returned to only when others fail.
    var isLeft = false
    /// Indicates whether it is in use and nothing has come along it since this end moved to it.
    var awaitsPeer = false
    /// The time at which it was in use last.
    var leftAt: Timestamp?
    /// Probe time-outs in a row without an answer, while it is in use.
    var consecutiveProbes = 0
    /// The time something authentic last came this way.
    var lastReceived: Timestamp?
    /// The estimates recovery had of it when it was left.
    var estimates: PathEstimates?

    init(_ address: PathAddress, isValidated: Bool) {
        self.address = address
        self.isValidated = isValidated
        rank = address.local.rank
    }

    /// Indicates whether the peer is there, and full datagrams reach it.
    var isProven: Bool { isValidated && !needsFullSize }

    /// Begins to be the path in use.
    mutating func putInUse() {
        isLeft = false
        movesWhenValidated = false
        awaitsPeer = true
        consecutiveProbes = 0
    }

    /// The peer's address.
    var remote: NetworkAddress { address.remote }

    /// The number of bytes that may be sent: three times those received until the address is validated (RFC 9000 §8.1).
    var allowance: Int {
        isValidated || isTrusted ? .max : Int(clamping: 3 * bytesReceived) - Int(clamping: bytesSent)
    }
}

/// A PATH_RESPONSE to send.
struct PathAnswer {
    /// The most answers to one address that may wait: nobody needs more at once (RFC 9000 §8.2.2).
    static let limitPerAddress = 4
    /// The most answers that may wait in all: a peer may try many addresses at once.
    static let limit = 32

    /// What is sent when it answers a probe from an address that has no path.
    struct Probe {
        /// The size of the datagram.
        var limit: Int
        /// Indicates whether the address is asked in return.
        var challenges: Bool
    }

    var data: UInt64
    var address: PathAddress
    var probe: Probe?
}

/// The validation of one path (RFC 9000 §8.2): challenges, each with data of its own, until one is answered.
///
/// ```
///  challenging ──answer to a small one──▶ challenging at full size ──answer──▶ done
///       └──────────────── deadline ──────────────┴──▶ failed
/// ```
struct PathValidation {
    /// A challenge on its way.
    struct Challenge {
        var data: UInt64
        var sent: Timestamp
        var isFullSize: Bool
    }

    /// The most challenges that may still be answered.
    static let memory = 8
    /// The longest wait between two challenges.
    static let maximumInterval: Int64 = .seconds(1)

    /// The newest challenges.
    private(set) var challenges: [Challenge] = []
    /// The time to send the next one.
    private(set) var nextAttempt: Timestamp
    /// The time to give up.
    private(set) var deadline: Timestamp
    private var attempts: Int64 = 0

    /// Begins; `span` is how long answers are waited for (RFC 9000 §8.2.4).
    init(at now: Timestamp, giveUpAfter span: Int64) {
        nextAttempt = now
        deadline = now.advanced(nanoseconds: span)
    }

    /// Notes a challenge sent, and when to send another.
    mutating func sent(_ data: UInt64, isFullSize: Bool, interval: Int64, at now: Timestamp) {
        if challenges.count >= Self.memory { challenges.removeFirst() }
        challenges.append(Challenge(data: data, sent: now, isFullSize: isFullSize))
        nextAttempt = now.advanced(nanoseconds: min(interval << min(attempts, 8), Self.maximumInterval))
        attempts += 1
    }

    /// Puts a challenge off that the limit of an unproven address does not allow.
    mutating func postpone(by interval: Int64, at now: Timestamp) {
        nextAttempt = now.advanced(nanoseconds: min(interval, Self.maximumInterval))
    }

    /// The challenge of which `data` is the answer.
    func challenge(_ data: UInt64) -> Challenge? { challenges.first { $0.data == data } }

    /// Goes on at full size: the answer came to a datagram smaller than every path must carry (RFC 9000 §8.2.1).
    mutating func requireFullSize(at now: Timestamp, giveUpAfter span: Int64) {
        challenges = []
        attempts = 0
        nextAttempt = now
        deadline = now.advanced(nanoseconds: span)
    }

    /// The next thing that happens by itself.
    var due: Timestamp { min(nextAttempt, deadline) }
}
