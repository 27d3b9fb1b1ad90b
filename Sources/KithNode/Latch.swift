import Synchronization

/// Something that happens once, for any number of tasks to wait for.
final class Latch: Sendable {
    private struct State {
        var isOpen = false
        var next: UInt64 = 0
        var waiting: [UInt64: CheckedContinuation<Void, Never>] = [:]
    }
    private let state = Mutex(State())

    /// Whether it has happened.
    var isOpen: Bool { state.withLock { $0.isOpen } }

    /// Lets it happen.
    ///
    /// Again does nothing.
    func open() {
        let waiting = state.withLock { state in
            state.isOpen = true
            defer { state.waiting = [:] }
            return state.waiting.values
        }
        for waiter in waiting { waiter.resume() }
    }

    /// Waits until it has happened, or the task is cancelled.
    func wait() async {
        let ticket = state.withLock { state in
            state.next += 1
            return state.next
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let goesOn = state.withLock { state -> Bool in
                    if state.isOpen || Task.isCancelled { return true }
                    state.waiting[ticket] = continuation
                    return false
                }
                if goesOn { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.waiting.removeValue(forKey: ticket) }?.resume()
        }
    }
}
