import KithQUIC

/// Decides about the first packet of a client.
///
/// Three limits: how many handshakes are under way at once, how many of them with one host, and how many may begin in a
/// second (a bucket that refills evenly, so a burst of one second's worth passes). Well before they are reached, only
/// clients that have proven their address begin one; the others get a Retry, for which nothing is kept.
struct AcceptLimiter {
    /// The decision on a client's first packet.
    enum Verdict: Hashable {
        /// Begin the handshake; ``AcceptLimiter/end(_:)`` follows.
        case accept
        /// Ask for a proof of the address.
        case retry
        /// Say nothing.
        case drop
    }

    /// The slot of one handshake; of the host that holds it, if its address is proven.
    struct Slot: Hashable {
        fileprivate var host: [UInt8]?
    }

    private let maxHalfOpen: Int
    private let retryAbove: Int
    private let maxPerHost: Int
    private let perSecond: Int
    /// The number of handshakes under way.
    private(set) var halfOpen = 0
    /// The number of them for each host that has proven its address.
    private var hosts: [[UInt8]: Int] = [:]
    /// The number of hosts counted.
    var hostCount: Int { hosts.count }
    /// Billionths of a handshake.
    private var credit: Int64
    private var refilled: Timestamp

    private static let unit: Int64 = 1_000_000_000

    init(maxHalfOpen: Int, retryAbove: Int = .max, maxPerHost: Int = .max, perSecond: Int, at now: Timestamp) {
        self.maxHalfOpen = max(1, maxHalfOpen)
        self.retryAbove = max(0, retryAbove)
        self.maxPerHost = max(1, maxPerHost)
        self.perSecond = min(max(1, perSecond), 1_000_000)
        credit = Int64(self.perSecond) * Self.unit
        refilled = now
    }

    /// Judges a handshake with the host of the address `ip` that would begin now, and takes a slot for it.
    mutating func begin(with ip: [UInt8], isProven: Bool, at now: Timestamp) -> Verdict {
        let full = Int64(perSecond) * Self.unit
        let elapsed = min(max(0, now - refilled), Self.unit)
        credit = min(full, credit + elapsed * Int64(perSecond))
        refilled = now
        if !isProven, retryAbove < .max, halfOpen >= retryAbove || credit < full / 2 { return .retry }
        guard halfOpen < maxHalfOpen, credit >= Self.unit else { return .drop }
        if isProven {
            guard hosts[ip, default: 0] < maxPerHost else { return .drop }
            hosts[ip, default: 0] += 1
        }
        credit -= Self.unit
        halfOpen += 1
        return .accept
    }

    /// The slot of a handshake that was accepted.
    static func slot(of ip: [UInt8], isProven: Bool) -> Slot { Slot(host: isProven ? ip : nil) }

    /// Frees the slot: the handshake is over, either way.
    mutating func end(_ slot: Slot) {
        halfOpen = max(0, halfOpen - 1)
        guard let host = slot.host, let count = hosts[host] else { return }
        hosts[host] = count > 1 ? count - 1 : nil
    }
}

/// Limits the answers to unroutable datagrams per second: an attacker can request version negotiations and stateless
/// resets at no cost.
struct AnswerLimiter {
    private let perSecond: Int
    private var left: Int
    private var began: Timestamp

    init(perSecond: Int, at now: Timestamp) {
        self.perSecond = perSecond
        left = perSecond
        began = now
    }

    /// Returns whether one more answer may go out now.
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
