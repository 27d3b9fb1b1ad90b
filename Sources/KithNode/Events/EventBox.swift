import KithAPI
import KithIO
import KithWire
import Synchronization

/// A mailbox with the one task that waits at it.
final class EventBox: Sendable {
    private struct State {
        var mailbox: EventMailbox
        var waiter: Waiter<Void>?
        var isEnded = false
    }

    private let state: Mutex<State>

    init(capacity: Int, overflow: Events.Overflow) {
        state = Mutex(State(mailbox: EventMailbox(capacity: capacity, overflow: overflow)))
    }

    /// The number of events that were dropped.
    var lostCount: UInt64 { state.withLock { $0.mailbox.lostCount } }

    /// Adds an event.
    ///
    /// - Returns: the task to resume, outside of all locks.
    func put(_ event: SharedEvent, lookBack: UInt64? = nil, receipt: EventReceipt? = nil) -> Waiter<Void>? {
        state.withLock { state in
            guard !state.isEnded else {
                receipt?.fail()
                return nil
            }
            state.mailbox.put(event, lookBack: lookBack, receipt: receipt)
            return state.waiter.take()
        }
    }

    /// Adds that events are missing.
    func put(_ gap: Events.Gap) {
        state.withLock { state -> Waiter<Void>? in
            guard !state.isEnded else { return nil }
            state.mailbox.put(gap)
            return state.waiter.take()
        }?.resume()
    }

    /// Wakes the task that waits, to look at something else.
    func wake() { state.withLock { $0.waiter.take() }?.resume() }

    /// Takes what is first, when it is there.
    func poll() -> EventMailbox.Item? { state.withLock { $0.mailbox.take() } }

    /// Waits for something to take, for the end, or for ``wake()``; one task waits.
    func wait() async {
        await state.wait(in: { $1(&$0.waiter) }) { !$0.mailbox.isEmpty || $0.isEnded }
    }

    /// Waits for what is first; `nil` at the end, and when the task is cancelled.
    func next() async -> EventMailbox.Item? {
        while true {
            let (item, isEnded) = state.withLock { ($0.mailbox.take(), $0.isEnded) }
            if let item { return item }
            if isEnded || Task.isCancelled { return nil }
            await wait()
        }
    }

    /// Ends it: what it holds is dropped, and nothing more comes.
    func end() {
        let (waiter, old) = state.withLock { state -> (Waiter<Void>?, EventMailbox) in
            state.isEnded = true
            let old = state.mailbox
            state.mailbox = EventMailbox(capacity: 1, overflow: .dropOldest)
            return (state.waiter.take(), old)
        }
        waiter?.resume()
        // Outside the lock: with its last reference a receipt is given.
        var mailbox = old
        mailbox.removeAll()
    }
}
