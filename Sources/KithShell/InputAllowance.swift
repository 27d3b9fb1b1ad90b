import KithAPI
import KithWire
import Synchronization

/// How much input may still be sent before the device says it took some.
final class InputAllowance: Sendable {
    private struct State {
        var left = ShellFrame.inputWindow
        var hasEnded = false
        var waiting: [CheckedContinuation<Void, Never>] = []

        mutating func takeWaiting() -> [CheckedContinuation<Void, Never>] {
            defer { waiting = [] }
            return waiting
        }
    }

    private let state = Mutex(State())

    func add(_ count: Int) {
        let waiting = state.withLock { state in
            state.left = min(state.left + count, ShellFrame.inputWindow)
            return state.takeWaiting()
        }
        for waiter in waiting { waiter.resume() }
    }

    /// Lets nobody wait any more.
    func end() {
        let waiting = state.withLock { state in
            state.hasEnded = true
            return state.takeWaiting()
        }
        for waiter in waiting { waiter.resume() }
    }

    /// Waits until something may be sent and takes at most `limit` of it; 0 after the end.
    func take(upTo limit: Int) async throws -> Int {
        while true {
            try Task.checkCancellation()
            let taken = state.withLock { state -> Int? in
                if state.hasEnded { return 0 }
                guard state.left > 0 else { return nil }
                let taken = min(limit, state.left)
                state.left -= taken
                return taken
            }
            if let taken { return taken }
            await wait()
        }
    }

    private func wait() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let mustWait = state.withLock { state in
                    guard state.left == 0, !state.hasEnded, !Task.isCancelled else { return false }
                    state.waiting.append(continuation)
                    return true
                }
                if !mustWait { continuation.resume() }
            }
        } onCancel: {
            // Whoever was not meant looks again and waits on.
            for waiter in state.withLock({ $0.takeWaiting() }) { waiter.resume() }
        }
    }
}
