import KithQUIC

/// Decides whether a stranger's first packet may begin a handshake.
///
/// Two limits: how many handshakes are under way at once, and how many may begin in a second
/// (a bucket that refills evenly, so a burst of one second's worth passes).
struct AcceptLimiter {
    private let maxHalfOpen: Int
    private let perSecond: Int
    private var halfOpen = 0
    /// Billionths of a handshake.
    private var credit: Int64
    private var refilled: Timestamp

    private static let unit: Int64 = 1_000_000_000

    init(maxHalfOpen: Int, perSecond: Int, at now: Timestamp) {
        self.maxHalfOpen = max(1, maxHalfOpen)
        self.perSecond = min(max(1, perSecond), 1_000_000)
        credit = Int64(self.perSecond) * Self.unit
        refilled = now
    }

    /// Takes a place for a handshake that begins now; false when it must not begin.
    mutating func begin(at now: Timestamp) -> Bool {
        let full = Int64(perSecond) * Self.unit
        let elapsed = min(max(0, now - refilled), Self.unit)
        credit = min(full, credit + elapsed * Int64(perSecond))
        refilled = now
        guard halfOpen < maxHalfOpen, credit >= Self.unit else { return false }
        credit -= Self.unit
        halfOpen += 1
        return true
    }

    /// Gives the place back: the handshake is over, either way.
    mutating func end() {
        halfOpen = max(0, halfOpen - 1)
    }
}

/// Answers at most so many strays a second: version negotiations and stateless resets cost an attacker nothing to ask for.
struct AnswerLimiter {
    private let perSecond: Int
    private var left: Int
    private var began: Timestamp

    init(perSecond: Int, at now: Timestamp) {
        self.perSecond = perSecond
        left = perSecond
        began = now
    }

    /// Whether one more answer may go out now.
    mutating func allows(at now: Timestamp) -> Bool {
        if now - began >= 1_000_000_000 {
            began = now
            left = perSecond
        }
        guard left > 0 else { return false }
        left -= 1
        return true
    }
}
