import KithWire
import Synchronization

/// Cancels work by hand, before it has begun, too, and alone among what runs in its task.
final class Cancellation: Sendable {
    private let state = Mutex<(isCancelled: Bool, cancel: (@Sendable () -> Void)?)>((false, nil))

    func cancel() {
        state.withLock { state in
            state.isCancelled = true
            return state.cancel
        }?()
    }

    /// Does the work in a task of its own, which begins on this thread.
    func run<Result: Sendable>(_ name: String, _ work: @escaping @Sendable () async -> Result) async -> Result {
        let task: Task<Result, Never>
        if #available(macOS 26, iOS 26, *) {
            task = Task.immediate(name: name) { await work() }
        } else {
            task = Task(name: name) { await work() }
        }
        let isCancelled = state.withLock { state in
            state.cancel = { task.cancel() }
            return state.isCancelled
        }
        if isCancelled { task.cancel() }
        return await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            task.cancel()
        }
    }
}
