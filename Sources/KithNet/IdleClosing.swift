import KithQUIC
import KithWire

/// Decides when a connection that nobody uses is closed, so that it costs no battery.
///
/// A connection is in use while a stream is open that is not in the background, and for a while after a stream or a
/// datagram. What merely listens for changes is in the background.
struct IdleClosing {
    /// The next step.
    enum Action: Hashable {
        /// Ask again then.
        case wait(until: Timestamp)
        /// Close it.
        case close
    }

    private let limit: Duration
    private var lastUse: Timestamp
    /// The number of streams that keep it open.
    private var streams = 0

    /// Begins with the connection.
    init(after limit: Duration, at now: Timestamp) { (self.limit, lastUse) = (limit, now) }

    /// Notes a stream that keeps it open.
    mutating func began() { streams += 1 }

    /// Notes that such a stream has ended, or is in the background from now on.
    mutating func ended(at now: Timestamp) {
        streams = max(0, streams - 1)
        lastUse = now
    }

    /// Notes a datagram.
    mutating func used(at now: Timestamp) { lastUse = now }

    /// The next step.
    func next(at now: Timestamp) -> Action {
        let end = (streams > 0 ? now : lastUse).advanced(by: limit)
        return now >= end ? .close : .wait(until: end)
    }
}
