import KithIdentity
import KithWire

/// Limits how often invitations, right or wrong, are presented by one key and from one address.
///
/// An attempt that leads to a pairing is given back. A key that broke one off waits, so that others come first.
struct PresentationLimiter {
    /// The rate at which one key or host may present invitations.
    struct Rate: Hashable, Sendable {
        /// The number allowed at once.
        var burst: Int
        /// The time until one more is allowed.
        var interval: Duration
    }

    /// The limits.
    struct Limits: Hashable, Sendable {
        /// The rate of one key.
        var perKey = Rate(burst: 6, interval: .seconds(10))
        /// The rate of one IPv4 address, of one /64 of IPv6, and of all that comes through relays.
        var perHost = Rate(burst: 30, interval: .seconds(2))
        /// The time a key that broke an attempt off must wait.
        var pause = Duration.seconds(5)
        /// The most keys and addresses remembered; beyond, those that may present again soonest are forgotten.
        var memory = 4_096
    }

    private enum Subject: Hashable {
        case key(DeviceID)
        case host([UInt8])
        /// Keys are free, and nobody sees from where they come.
        case relayed
        case pause(DeviceID)
    }

    private let limits: Limits
    /// The time at which a subject's whole burst is allowed again.
    private var free: [Subject: ContinuousClock.Instant] = [:]

    init(_ limits: Limits = Limits()) { self.limits = limits }

    /// The number of keys and addresses it remembers.
    var count: Int { free.count }

    /// Counts a presentation against a key and an address, `nil`: through a relay; `nil` when it may go on, else how long
    /// to wait.
    mutating func present(_ key: DeviceID?, from address: NetworkAddress?, at now: ContinuousClock.Instant) -> Duration?
    {
        present(key, subjects(key) + subjects(address), at: now)
    }

    /// Counts a presentation against a key alone.
    mutating func present(_ key: DeviceID, at now: ContinuousClock.Instant) -> Duration? {
        present(key, subjects(key), at: now)
    }

    private mutating func present(
        _ key: DeviceID?, _ subjects: [(Subject, Rate)], at now: ContinuousClock.Instant
    ) -> Duration? {
        var wait = key.flatMap { free[.pause($0)] }.map { $0 - now } ?? .zero
        for (subject, rate) in subjects {
            // The last place but `burst` becomes free this long before the last.
            wait = max(wait, (free[subject] ?? now) - now - rate.interval * (rate.burst - 1))
        }
        guard wait <= .zero else { return wait }
        for (subject, rate) in subjects { free[subject] = max(free[subject] ?? now, now) + rate.interval }
        forget(at: now)
        return nil
    }

    /// Gives a presentation of a key back: it led to a pairing.
    mutating func paired(_ key: DeviceID) {
        if let instant = free[.key(key)] { free[.key(key)] = instant - limits.perKey.interval }
    }

    /// Makes a key that broke an attempt off wait.
    mutating func brokeOff(_ key: DeviceID, at now: ContinuousClock.Instant) {
        free[.pause(key)] = now + limits.pause
        forget(at: now)
    }

    private func subjects(_ key: DeviceID?) -> [(Subject, Rate)] { key.map { [(.key($0), limits.perKey)] } ?? [] }

    private func subjects(_ address: NetworkAddress?) -> [(Subject, Rate)] {
        [(address.map { .host(Self.host($0)) } ?? .relayed, limits.perHost)]
    }

    /// The four bytes of an IPv4 address, the first eight of an IPv6 one: a network has a whole /64.
    private static func host(_ address: NetworkAddress) -> [UInt8] { Array(address.ip.prefix(8)) }

    private mutating func forget(at now: ContinuousClock.Instant) {
        guard free.count > limits.memory else { return }
        free = free.filter { $0.value > now }
        guard free.count > limits.memory else { return }
        for (subject, _) in free.sorted(by: { $0.value < $1.value }).prefix(free.count - limits.memory / 2) {
            free[subject] = nil
        }
    }
}
