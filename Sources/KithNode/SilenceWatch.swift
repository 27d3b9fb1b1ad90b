import KithIO
import KithWire
import Synchronization

/// Calls a call off when the device that is to answer has been silent for too long.
///
/// A device that only takes its time is not silent: its machine acknowledges what comes.
final class SilenceWatch: Sendable {
    private struct State {
        var ticket: TimerQueue.Ticket?
        var isOver = false
    }

    /// The delay of a timer that shows that this process was itself held up: what came meanwhile is read first.
    private static let heldUp = Duration.seconds(1)

    private let link: any PeerLink
    private let scope: CallScope
    private let limit: Duration
    private let name: String
    private let timers: TimerQueue
    private let clock: any Ticker
    private let state = Mutex(State())

    /// Begins; looks for the first time after `patience`, which the call has in any case.
    init(
        _ link: any PeerLink, of name: String, _ scope: CallScope, limit: Duration, patience: Duration,
        timers: TimerQueue, clock: any Ticker
    ) {
        self.link = link
        self.scope = scope
        self.limit = limit
        self.name = name
        self.timers = timers
        self.clock = clock
        look(at: clock.now + patience)
    }

    /// Ends: the answer has come, or is not waited for any more.
    func end() {
        let ticket = state.withLock { state in
            state.isOver = true
            return state.ticket
        }
        if let ticket { timers.cancel(ticket) }
    }

    private func look(at time: ContinuousClock.Instant) {
        state.withLock { state in
            guard !state.isOver else { return }
            state.ticket = timers.schedule(at: time) {
                self.link.silence { self.received($0, expected: time) }
            }
        }
    }

    private func received(_ silence: Duration, expected: ContinuousClock.Instant) {
        let now = clock.now
        if silence < limit {
            look(at: now + (limit - silence))
        } else if now - expected > Self.heldUp {
            look(at: now + Self.heldUp)
        } else {
            let seconds = Int(silence / .seconds(1))
            scope.cancel(KithError(.timedOut, "\(name) does not answer: nothing was heard of it for \(seconds) s."))
        }
    }
}
