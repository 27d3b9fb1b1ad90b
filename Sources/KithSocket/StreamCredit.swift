import Synchronization

/// How many messages may still be sent on a stream.
final class StreamCredit: Sendable {
    private struct State {
        var left: Int?
        var waiter: CheckedContinuation<Void, Never>?
    }
    private let state: Mutex<State>

    /// `nil`: no limit.
    init(_ left: Int?) { state = Mutex(State(left: left)) }

    /// Allows `count` more.
    func add(_ count: Int) {
        let waiter = state.withLock { state in
            if let left = state.left { state.left = left.addingReportingOverflow(count).overflow ? .max : left + count }
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume()
    }

    /// Waits until one may be sent, and counts it.
    ///
    /// One task.
    func take() async throws {
        while true {
            try Task.checkCancellation()
            let isTaken = state.withLock { state in
                guard let left = state.left else { return true }
                guard left > 0 else { return false }
                state.left = left - 1
                return true
            }
            if isTaken { return }
            await withTaskCancellationHandler {
                await withCheckedContinuation { continuation in
                    let goesOn = state.withLock { state in
                        if Task.isCancelled || state.left != 0 { return true }
                        state.waiter = continuation
                        return false
                    }
                    if goesOn { continuation.resume() }
                }
            } onCancel: {
                let waiter = state.withLock { state in
                    defer { state.waiter = nil }
                    return state.waiter
                }
                waiter?.resume()
            }
        }
    }
}
