import Synchronization

/// A value that comes once, for any number of tasks to wait for.
///
/// For an operation that may fail the value is a `Result`.
package final class Promise<Value: Sendable>: Sendable {
    private struct State: Sendable {
        var value: Value?
        var waiting = WaitList<Void, Result<Value, CancellationError>>()
    }

    private let state = Mutex(State())

    /// Makes a promise nobody has fulfilled.
    package init() {}

    /// True once the value has come.
    package var isFulfilled: Bool { state.withLock { $0.value != nil } }

    /// Gives the value to all who wait, and to all who will; only the first counts.
    ///
    /// - Returns: whether this was it.
    @discardableResult package func fulfil(_ value: Value) -> Bool {
        let waiting = state.withLock { state -> [WaitList<Void, Result<Value, CancellationError>>.Entry]? in
            guard state.value == nil else { return nil }
            state.value = value
            return state.waiting.removeAll()
        }
        guard let waiting else { return false }
        for entry in waiting { entry.waiter.resume(returning: .success(value)) }
        return true
    }

    /// Waits for the value, even when the task is cancelled: whoever promised always fulfils.
    package func value() async -> Value {
        switch await state.wait(
            in: { $1(&$0.waiting) }, asking: (), cancelled: nil, unless: { $0.value.map { .success($0) } })
        {
        case .success(let value): return value
        case .failure: preconditionFailure("a wait that cannot be cancelled was")
        }
    }

    /// Waits for the value, or until the task is cancelled.
    ///
    /// A value that is there is returned even then.
    package func valueUnlessCancelled() async throws(CancellationError) -> Value {
        try await state.wait(
            in: { $1(&$0.waiting) }, asking: (), cancelled: .failure(CancellationError()),
            unless: { $0.value.map { .success($0) } }
        ).get()
    }
}
