import Synchronization

/// Lets one task through at a time, first come first served.
package final class Turnstile: Sendable {
    private struct State {
        var isBusy = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    /// Free for the first that comes.
    package init() {}

    /// Waits for its turn.
    ///
    /// Not cancellable: whoever is inside is on its way out soon when cancelled.
    package func enter() async {
        await withCheckedContinuation { continuation in
            let isFree = state.withLock { state in
                if state.isBusy {
                    state.waiting.append(continuation)
                    return false
                }
                state.isBusy = true
                return true
            }
            if isFree { continuation.resume() }
        }
    }

    /// Lets the next one in.
    package func leave() {
        let next = state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard !state.waiting.isEmpty else {
                state.isBusy = false
                return nil
            }
            return state.waiting.removeFirst()
        }
        next?.resume()
    }
}
