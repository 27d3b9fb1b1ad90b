/// A suspended task, to be resumed exactly once.
///
/// Kept in the locked state of whatever the task waits for, and resumed outside the lock: the task goes on at its own
/// executor, no thread in between.
@usableFromInline package struct Waiter<Answer: Sendable>: Sendable {
    @usableFromInline let continuation: TaskContinuation<Answer>

    @inlinable init(_ continuation: TaskContinuation<Answer>) { self.continuation = continuation }

    /// Lets the task go on with an answer.
    @inlinable package func resume(returning answer: Answer) { continuation.resume(returning: answer) }
}

extension Waiter where Answer == Void {
    /// Lets the task go on.
    @inlinable package func resume() { resume(returning: ()) }
}

/// Suspends the task until its waiter is resumed.
///
/// This is the one place where tasks are suspended by hand. What waits for a value, a lock, room or an event uses the types
/// beside it; this is for a reactor that keeps its own table of waiters.
///
/// - Parameters:
///   - register: Called once, before the task is suspended. Either keeps the waiter where somebody finds and resumes it, or
///     returns an answer, and then the task goes on at once and the waiter is dropped. It must ask `Task.isCancelled`
///     under the lock that `cancel` takes, too: the task's flag is set before `cancel` runs, so one of the two always
///     sees the other.
///   - cancel: Called when the task is cancelled, from any thread, perhaps before `register`. Resumes the waiter, if it is
///     still kept; doing nothing makes a wait that cannot be cancelled.
/// - Returns: the answer the waiter was resumed with, or that of `register`.
@inlinable package func suspend<Answer: Sendable>(
    _ register: (Waiter<Answer>) -> Answer?, onCancel cancel: @Sendable () -> Void
) async -> Answer {
    await withTaskCancellationHandler {
        await withTaskContinuation { continuation in
            if let answer = register(Waiter(continuation)) { continuation.resume(returning: answer) }
        }
    } onCancel: {
        cancel()
    }
}
