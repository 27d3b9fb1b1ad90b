import KithWire

/// Bounds the work that one client makes of frames whose bytes do not pay for it.
///
/// Frames are cheap to send and costly to serve. Large datagrams are bounded by the bytes a network carries; each small
/// one counts here, and whatever carries none counts as many: honest clients send hardly any.
struct RelayWork {
    /// What becomes of a client.
    enum Verdict: Hashable {
        case goesOn
        /// It is not heard for so long.
        case waits(Duration)
        /// It is so far beyond its rate that it is closed.
        case ends
    }

    /// The bytes from which on a datagram counts nothing.
    static let small = 1_024
    /// What a frame without datagrams counts, a small part of a message, or a ping.
    static let idle = 50
    /// The most datagrams in one frame that are shorter than ``shortest``.
    static let maxShort = 8
    /// The bytes that each of many datagrams in one frame must have: to a client by QUIC each is a packet's part of its own.
    static let shortest = 256
    /// The bytes that each further datagram of a frame counts, as they are sent with a head of their own.
    static let overhead = 64
    /// The seconds that a client may be ahead of its rate.
    private static let seconds = 2
    /// The longest that one is not heard: who owes more is closed.
    private static let patience = Duration.seconds(10)

    private var bucket: TokenBucket
    /// What was refused where nobody can be made to wait.
    private var refusals: TokenBucket

    /// Begins with nothing owed; `rate` is the small frames in a second.
    init(rate: UInt64, at now: ContinuousClock.Instant) {
        let rate = max(1, Double(rate))
        bucket = TokenBucket(perSecond: rate, burst: rate * Double(Self.seconds), at: now)
        refusals = TokenBucket(perSecond: rate, burst: rate * (Self.patience / .seconds(1)), at: now)
    }

    /// What a frame of `length` bytes counts that holds one datagram, or several of `segmentSize`; `nil` for one that is
    /// not passed on, as it would be many times as much to its receiver.
    static func cost(of length: Int, segmentSize: Int?) -> Int? {
        guard let size = segmentSize, size < length else { return length < small ? 1 : 0 }
        let count = datagrams(in: length, segmentSize: size)
        guard size >= shortest || count <= maxShort else { return nil }
        return size < small ? count : 0
    }

    /// The number of datagrams in `length` bytes.
    static func datagrams(in length: Int, segmentSize: Int?) -> Int {
        guard let size = segmentSize, size > 0, size < length else { return 1 }
        return (length - 1) / size + 1
    }

    /// Counts work that is done anyway; whoever owes some waits.
    mutating func take(_ cost: Int, at now: ContinuousClock.Instant) -> Verdict {
        guard cost > 0 else { return .goesOn }
        let pause = bucket.take(cost, at: now)
        if pause > Self.patience { return .ends }
        return pause > .zero ? .waits(pause) : .goesOn
    }

    /// Counts work that is done only if there is room for it: `waits` is the answer when it is not.
    mutating func takeIfThere(_ cost: Int, at now: ContinuousClock.Instant) -> Verdict {
        guard cost > 0, !bucket.takeIfThere(cost, at: now) else { return .goesOn }
        return refusals.takeIfThere(cost, at: now) ? .waits(.zero) : .ends
    }
}
