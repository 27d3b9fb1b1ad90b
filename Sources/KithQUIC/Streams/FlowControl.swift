/// The flow-control limit we set the peer, on one stream or in all (RFC 9000 §4.1).
///
/// The window grows with the path: it doubles whenever half of it was used up within two round trips, for then it,
/// not the path, sets the pace.
struct ReceiveWindow: Sendable {
    /// The offset the peer may not pass, as last announced.
    private(set) var limit: UInt64
    /// The number of bytes the peer has sent.
    private(set) var arrived: UInt64 = 0
    private(set) var consumed: UInt64 = 0
    private(set) var window: UInt64
    private var maximum: UInt64
    /// The number of bytes that may wait for their readers without counting against the window.
    private var allowance: UInt64
    private var lastUpdate: Timestamp?

    init(window: UInt64, maximum: UInt64, allowance: UInt64 = 0) {
        self.window = window
        self.maximum = max(window, maximum)
        self.allowance = allowance
        limit = window
    }

    /// Notes that `count` bytes have come.
    mutating func arrive(_ count: UInt64) {
        arrived += count
    }

    /// Notes that the reader took `count` bytes, or that they were thrown away.
    mutating func consume(_ count: UInt64) {
        consumed += count
    }

    /// The number of bytes the limit moves on with.
    private var credited: UInt64 { max(consumed, min(arrived, consumed + allowance)) }

    /// Indicates whether a new limit is worth a frame.
    var needsUpdate: Bool { limit - credited <= window / 2 }

    /// Moves the limit up, widening the window if it was used up fast, by readers that keep up.
    mutating func update(at now: Timestamp, rtt: Int64) {
        let keepsUp = credited - consumed <= window / 4
        if let lastUpdate, keepsUp, now - lastUpdate < 2 * max(rtt, 1) {
            // A short path needs no more than half of what a long fat one may: 8 MiB in 10 ms are 6 Gbit/s.
            window = max(window, min(window * 2, rtt < .milliseconds(10) ? maximum / 2 : maximum))
        }
        lastUpdate = now
        limit = max(limit, credited + window)
    }

    /// Lets the peer send more from now on, which the limit says at once.
    mutating func raise(to window: UInt64, maximum: UInt64, allowance: UInt64) {
        self.allowance = max(self.allowance, allowance)
        self.maximum = max(self.maximum, window, maximum)
        self.window = max(self.window, window)
        limit = max(limit, credited + self.window)
    }

    /// Raises the window to at least `other`, as the connection's must not be smaller than a stream's.
    mutating func widen(to other: UInt64) {
        window = max(window, min(other, maximum))
    }
}

/// The flow-control limit the peer sets us, on one stream or in all.
struct SendWindow: Sendable {
    private(set) var limit: UInt64
    private(set) var used: UInt64 = 0
    /// The limit at which we last said that it stops us.
    var announcedBlocked: UInt64?

    init(limit: UInt64) {
        self.limit = limit
    }

    var room: UInt64 { limit - used }

    mutating func use(_ count: UInt64) {
        precondition(count <= room, "never more than the peer allows")
        used += count
    }

    /// Takes a new limit and tells whether it is larger; a smaller one is an old one (RFC 9000 §4.1).
    mutating func raise(to limit: UInt64) -> Bool {
        guard limit > self.limit else { return false }
        self.limit = limit
        return true
    }
}

/// The limits a peer's transport parameters set us at the start.
package struct PeerStreamLimits: Hashable, Sendable {
    package var maxData: UInt64 = 0
    package var maxStreamDataBidiLocal: UInt64 = 0
    package var maxStreamDataBidiRemote: UInt64 = 0
    package var maxStreamDataUni: UInt64 = 0
    package var maxStreamsBidi: UInt64 = 0
    package var maxStreamsUni: UInt64 = 0

    package init() {}
}

/// The limits we set the peer, and how much we buffer ourselves.
package struct StreamConfiguration: Hashable, Sendable {
    /// A stream's first receive window in bytes.
    package var streamWindow: UInt64 = 1 << 20
    /// The bound of ``streamWindow``'s growth.
    package var maxStreamWindow: UInt64 = 16 << 20
    /// The connection's first receive window in bytes.
    package var connectionWindow: UInt64 = 3 << 19
    /// The bound of ``connectionWindow``'s growth.
    package var maxConnectionWindow: UInt64 = 64 << 20
    /// The number of bytes of all streams that may wait for their readers besides.
    package var unreadAllowance: UInt64 = 16 << 20
    /// The number of bidirectional streams the peer may have open at once.
    package var maxStreamsBidirectional: UInt64 = 128
    /// The number of unidirectional streams the peer may have open at once.
    package var maxStreamsUnidirectional: UInt64 = 128
    /// The number of written bytes a stream holds until they are acknowledged.
    package var sendCapacity = 1 << 20

    package init() {}
}
