public import KithWire

/// The address of a path: the peer's address, and which of this end's links reaches it.
public struct PathAddress: Hashable, Sendable {
    /// The peer's address; by a relay, the driver's own address for the peer there.
    public var remote: NetworkAddress
    /// The link it goes by.
    public var local: LocalLink

    /// Makes the address of a path.
    public init(remote: NetworkAddress, local: LocalLink = 0) {
        self.remote = remote
        self.local = local
    }
}

/// This end's half of a path: a socket or a relay, by the driver's number for it.
///
/// Compared for every datagram, and so one number:
///
/// | bits | meaning |
/// | --- | --- |
/// | 31 | 0 for a socket, 1 for a relay |
/// | 16 … 30 | the number of the socket, or of the relay |
/// | 0 … 15 | how often the address behind the socket has changed |
public struct LocalLink: RawRepresentable, Hashable, Sendable {
    /// The kinds of links.
    @nonexhaustive
    public enum Kind: Hashable, Sendable {
        /// A UDP socket of this device.
        case socket
        /// A relay this device is connected to, which passes datagrams on without reading them.
        case relay
    }

    /// The number as a whole.
    public var rawValue: UInt32

    /// Makes a link of its number as a whole.
    public init(rawValue: UInt32) { self.rawValue = rawValue }

    private init(_ number: UInt32, generation: UInt32, kindBit: UInt32) {
        precondition(number <= Self.maximumNumber, "a link's number has 15 bits")
        rawValue = kindBit | number << 16 | generation & 0xFFFF
    }

    /// The largest number of a socket or relay.
    public static let maximumNumber: UInt32 = 0x7FFF

    /// The socket with that number, after its address has changed `generation` times.
    public static func socket(_ number: UInt32, generation: UInt32 = 0) -> LocalLink {
        LocalLink(number, generation: generation, kindBit: 0)
    }

    /// The relay with that number.
    public static func relay(_ number: UInt32) -> LocalLink { LocalLink(number, generation: 0, kindBit: 1 << 31) }

    /// The kind of link.
    public var kind: Kind { rawValue >> 31 == 0 ? .socket : .relay }

    /// The number of the socket, or of the relay.
    public var number: UInt32 { rawValue >> 16 & Self.maximumNumber }

    /// The rank of a path by this link when nobody says another: what goes by a relay is a backup.
    public var rank: PathRank { kind == .relay ? .backup : .primary }
}

extension LocalLink: ExpressibleByIntegerLiteral {
    /// Makes a link of its number as a whole.
    public init(integerLiteral value: UInt32) { self.init(rawValue: value) }
}

/// One path of a connection, as it stands.
public struct PathStatus: Hashable, Sendable {
    /// Its address.
    public var address: PathAddress
    /// The priority of the path.
    public var rank: PathRank
    /// Indicates whether packets go this way now.
    public var isActive: Bool
    /// Indicates whether the peer has shown that it receives there (RFC 9000 §8.2).
    public var isValidated: Bool
    /// The round-trip time, in nanoseconds; nil before anything was measured.
    public var roundTrip: Int64?
    /// UDP payload bytes sent this way.
    public var bytesSent: UInt64
    /// UDP payload bytes received this way.
    public var bytesReceived: UInt64
}

/// The priority of a path: a backup is used only while there is no ordinary one.
@nonexhaustive
public enum PathRank: Int, Hashable, Sendable, Comparable {
    /// An ordinary path.
    case primary
    /// A path used while there is no ordinary one, as through a relay.
    case backup

    /// Returns whether `left` is to be preferred.
    public static func < (left: PathRank, right: PathRank) -> Bool { left.rawValue < right.rawValue }
}

/// Decides which of a connection's validated paths carries it.
///
/// A client asks it whenever a path has been validated or measured, never for a packet; so does a server that
/// ``QUICConfiguration/serverChoosesPath``.
public protocol PathChooser: Sendable {
    /// The best of `paths`, all of them validated; the one in use is among them and says so.
    ///
    /// - Returns: a place in `paths`, or nil to stay.
    func choose(from paths: [PathStatus]) -> Int?
}

/// Prefers primary paths to backup ones, and the shortest round trip among equals.
///
/// An equal is left only for one that is better by more than ``hysteresis``, so that two like paths do not take turns. A
/// primary path that takes far longer than a backup gives way to it, until it is clearly shorter again:
///
/// | the primary path's round trip, in those of the backup | it |
/// | --- | --- |
/// | at most 3 and 50 ms | is used |
/// | between the two | is used while it is in use |
/// | more than 3 and 100 ms | gives way |
public struct ShortestPathChooser: PathChooser {
    /// By how much another path must be shorter.
    public var hysteresis: Duration
    /// What a path over IPv6 counts as being shorter by: it goes through fewer translations.
    public var ipv6Bonus: Duration

    private static let patience: Int64 = 3
    private static let returnMargin: Int64 = .milliseconds(50)
    private static let leaveMargin: Int64 = .milliseconds(100)

    /// Makes a chooser.
    public init(hysteresis: Duration = .milliseconds(5), ipv6Bonus: Duration = .milliseconds(3)) {
        (self.hysteresis, self.ipv6Bonus) = (hysteresis, ipv6Bonus)
    }

    /// The best of `paths`; nil to stay.
    public func choose(from paths: [PathStatus]) -> Int? {
        guard let active = paths.firstIndex(where: \.isActive) else { return nil }
        var best = active
        for (index, path) in paths.enumerated() where index != active && isBetter(path, than: paths[best]) {
            best = index
        }
        return best == active ? nil : best
    }

    private func isBetter(_ path: PathStatus, than known: PathStatus) -> Bool {
        if path.rank < known.rank { return !isFarLonger(path, than: known) }
        if known.rank < path.rank { return isFarLonger(known, than: path) }
        guard let delay = delay(of: path), let other = self.delay(of: known) else { return false }
        // What is in use has to be beaten clearly; the others only by being shorter.
        return delay + (known.isActive ? hysteresis.inNanoseconds : 0) < other
    }

    private func delay(of path: PathStatus) -> Int64? {
        path.roundTrip.map { path.address.remote.isIPv6 ? $0 - ipv6Bonus.inNanoseconds : $0 }
    }

    /// Indicates whether a primary path waits so much more than a backup that it is not worth it.
    private func isFarLonger(_ primary: PathStatus, than backup: PathStatus) -> Bool {
        guard let delay = primary.roundTrip, let other = backup.roundTrip else { return false }
        return delay / Self.patience > other + (primary.isActive ? Self.leaveMargin : Self.returnMargin) / Self.patience
    }
}
