import KithWire

/// Bounds what one address may ask of a server: open sockets, and handshakes.
///
/// An IPv6 host counts with its /64. Generous, because a thousand devices may stand behind one address.
package struct AddressLimiter: Sendable {
    /// The bounds.
    package struct Limits: Hashable, Sendable {
        /// The most sockets of one address.
        package var sockets = 1_024
        /// The handshakes one address may begin in a second.
        package var handshakesPerSecond: UInt64 = 50
        /// The handshakes one address may begin at once.
        package var burst: UInt64 = 500
        /// The most handshakes under way, of all addresses together: beyond it the oldest gives way.
        package var halfOpen = 4_096
        /// The most sockets of all addresses together.
        package var allSockets = 100_000

        /// The usual bounds.
        package init() {}
    }

    private struct Host {
        var sockets = 0
        var bucket: TokenBucket
    }

    private let limits: Limits
    private var hosts: [[UInt8]: Host] = [:]
    /// Addresses without a socket are forgotten when there are so many more.
    private var sweepAbove = 1_024

    /// The number of handshakes under way.
    package private(set) var halfOpen = 0
    /// Indicates whether there are too many: whoever takes longest to prove a key gives way, not whoever comes last.
    package var isCrowded: Bool { halfOpen > limits.halfOpen }
    /// The number of sockets.
    package private(set) var sockets = 0
    /// The number of addresses that are remembered.
    package var hostCount: Int { hosts.count }

    /// Starts without a socket.
    package init(limits: Limits = Limits()) { self.limits = limits }

    /// The part of an IP address that counts: all of IPv4, a /64 of IPv6.
    package static func host(of ip: [UInt8]) -> [UInt8] { ip.count == 16 ? Array(ip[..<8]) : ip }

    /// Tells whether a socket may be opened, and counts it and its handshake then.
    package mutating func open(from ip: [UInt8], at now: ContinuousClock.Instant) -> Bool {
        guard sockets < limits.allSockets else { return false }
        if hosts.count > sweepAbove {
            hosts = hosts.filter { $0.value.sockets > 0 || !$0.value.bucket.isFull(at: now) }
            sweepAbove = max(1_024, 2 * hosts.count)
        }
        let name = Self.host(of: ip)
        var host =
            hosts[name]
            ?? Host(bucket: TokenBucket(rate: max(1, limits.handshakesPerSecond), burst: limits.burst, at: now))
        guard host.sockets < limits.sockets, host.bucket.takeIfThere(at: now) else { return false }
        host.sockets += 1
        hosts[name] = host
        sockets += 1
        halfOpen += 1
        return true
    }

    /// The handshake of a socket that was opened is over, either way.
    package mutating func handshakeEnded() { halfOpen -= 1 }

    /// A socket that was opened is closed.
    package mutating func close(from ip: [UInt8]) {
        sockets -= 1
        hosts[Self.host(of: ip)]?.sockets -= 1
    }
}
