public import KithWire

/// The address of a path: the peer's address, and which of this end's sockets reaches it.
public struct PathAddress: Hashable, Sendable {
    /// The peer's address.
    public var remote: NetworkAddress
    /// The driver's own number for the socket and the local address in use; the engine only compares it.
    public var local: UInt32

    /// Makes the address of a path.
    public init(remote: NetworkAddress, local: UInt32 = 0) {
        self.remote = remote
        self.local = local
    }
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
/// A client asks it whenever a path has been validated or measured, never for a packet.
public protocol PathChooser: Sendable {
    /// The best of `paths`, all of them validated; the one in use is among them and says so.
    ///
    /// - Returns: a place in `paths`, or nil to stay.
    func choose(from paths: [PathStatus]) -> Int?
}

/// Prefers primary paths to backup ones, and the shortest round trip among equals.
///
/// An equal is left only for one that is better by more than ``hysteresis``, so that two like paths do not take turns.
public struct ShortestPathChooser: PathChooser {
    /// By how much another path must be shorter.
    public var hysteresis: Duration

    /// Makes a chooser.
    public init(hysteresis: Duration = .milliseconds(5)) {
        self.hysteresis = hysteresis
    }

    /// The best of `paths`; nil to stay.
    public func choose(from paths: [PathStatus]) -> Int? {
        guard let active = paths.firstIndex(where: \.isActive) else { return nil }
        let span = hysteresis.inNanoseconds
        var best = active
        for (index, path) in paths.enumerated() where index != active {
            if path.rank != paths[best].rank {
                if path.rank < paths[best].rank { best = index }
                continue
            }
            guard let delay = path.roundTrip else { continue }
            // What is in use has to be beaten clearly; the others only by being shorter.
            let margin = best == active ? span : 0
            if let known = paths[best].roundTrip, delay + margin < known { best = index }
        }
        return best == active ? nil : best
    }
}
