#if DEBUG
/// The continuation of a suspended task; debug builds check that it is resumed, and only once.
@usableFromInline struct TaskContinuation<Answer: Sendable>: Sendable {
    @usableFromInline let checked: CheckedContinuation<Answer, Never>

    @inlinable init(_ checked: CheckedContinuation<Answer, Never>) { self.checked = checked }

    @inlinable func resume(returning answer: Answer) { checked.resume(returning: answer) }
}

/// Suspends the task once `body` has returned.
@inlinable func withTaskContinuation<Answer: Sendable>(_ body: (TaskContinuation<Answer>) -> Void) async -> Answer {
    await withCheckedContinuation { body(TaskContinuation($0)) }
}
#else
/// The continuation of a suspended task, which must be resumed exactly once.
///
/// The compiler knows no layout of a checked one: the runtime copies and destroys each waiter that holds it. Without that, and
/// with the reactor's ``SlotTable``, all threads together run for 192 instead of 209 µs for a key's way to another terminal
/// and back.
@safe @usableFromInline struct TaskContinuation<Answer: Sendable>: Sendable {
    @usableFromInline let unchecked: UnsafeContinuation<Answer, Never>

    @inlinable init(_ unchecked: UnsafeContinuation<Answer, Never>) { unsafe self.unchecked = unchecked }

    @inlinable func resume(returning answer: Answer) { unsafe unchecked.resume(returning: answer) }
}

/// Suspends the task once `body` has returned.
@inlinable func withTaskContinuation<Answer: Sendable>(_ body: (TaskContinuation<Answer>) -> Void) async -> Answer {
    unsafe await withUnsafeContinuation { body(unsafe TaskContinuation($0)) }
}
#endif
