/// The limit on output in flight to a client.
///
/// An interrupt key is answered behind what is already on its way; so no more of it is than the link carries in
/// ``ahead``. What it carries is measured by the client's own acknowledgements. A pure value.
package struct OutputWindow: Sendable {
    /// The time's worth of output that may be in flight besides what fills the round trip.
    package static let ahead = Duration.milliseconds(100)
    /// The least that may be, so that a screen arrives in one go.
    package static let minimum = 16 << 10
    package static let maximum = 4 << 20

    /// The number of bytes that may be unacknowledged.
    package private(set) var limit = 64 << 10
    /// Bytes sent.
    package private(set) var sent: UInt64
    /// Bytes acknowledged.
    package private(set) var received: UInt64

    /// The beginning of the measurement that runs: what was sent until then, and when.
    private var mark: (sent: UInt64, received: UInt64, at: Duration)?
    private var lastSent: Duration?
    private var roundTrip: Duration?

    /// Begins at a position.
    package init(at position: UInt64) {
        sent = position
        received = position
    }

    /// The number of bytes that may be sent now.
    package var room: Int { max(0, limit - Int(sent - received)) }

    /// Goes on elsewhere: what was skipped is neither sent nor received.
    package mutating func jump(to position: UInt64) {
        sent = position
        received = position
        mark = nil
    }

    /// Notes that bytes were sent at a time of a monotonic clock.
    package mutating func sent(_ count: Int, at now: Duration) {
        sent += UInt64(count)
        // A pause in between says nothing about the link.
        if let lastSent, now - lastSent > .milliseconds(50) { mark = nil }
        lastSent = now
        if mark == nil { mark = (sent, received, now) }
    }

    /// Notes an acknowledgement; returns whether it makes sense: not more than was sent, not less than before.
    package mutating func received(_ position: UInt64, at now: Duration) -> Bool {
        guard position <= sent, position >= received else { return position <= sent }
        received = position
        guard let mark, position >= mark.sent else { return true }
        // One measurement: all that was acknowledged since a byte was sent until it was itself.
        let took = max(now - mark.at, .microseconds(50))
        roundTrip = min(roundTrip ?? took, took)
        let perSecond = Double(position - mark.received) / (took / .seconds(1))
        let time = (Self.ahead + min(roundTrip ?? took, .seconds(1))) / .seconds(1)
        let wanted = min(Double(Self.maximum), perSecond * time)
        // Half the way down, at once up: a pause of the program is not a slow link.
        let next = max(Self.minimum, Int(wanted))
        limit = next > limit ? next : sent - received < UInt64(limit / 2) ? limit : (limit + next) / 2
        self.mark = nil
        return true
    }
}
