import Synchronization

/// A count of what may be had: tasks take from it, and wait when there is nothing left, first come first served.
///
/// Credit on a stream, for one: the sender takes, and what the receiver grants is added.
package final class AsyncSemaphore: Sendable {
    private struct State: Sendable {
        /// Zero while anybody waits.
        var count: Int
        var end: Result<Int, any Error>?
        /// Tasks, with how much each takes at the most.
        var waiting = WaitList<Int, Result<Int, any Error>>()
    }

    private let limit: Int
    private let state: Mutex<State>

    /// Makes a semaphore with `count` to be had; it never counts beyond `limit`.
    package init(_ count: Int, limit: Int = .max) {
        precondition(0 <= count && count <= limit, "a semaphore counts from 0 to its limit")
        self.limit = limit
        state = Mutex(State(count: count))
    }

    /// The amount there is for whoever comes next.
    package var count: Int { state.withLock { $0.count } }

    /// Adds to the count, up to the limit, and serves those who wait.
    package func add(_ count: Int) {
        precondition(count >= 0, "a count is not negative")
        let served = state.withLock { state in
            let (sum, isTooLarge) = state.count.addingReportingOverflow(count)
            state.count = isTooLarge ? limit : min(sum, limit)
            var served: [(Waiter<Result<Int, any Error>>, Int)] = []
            while state.count > 0, let next = state.waiting.popFirst() {
                let taken = min(next.request, state.count)
                state.count -= taken
                served.append((next.waiter, taken))
            }
            return served
        }
        for (waiter, taken) in served { waiter.resume(returning: .success(taken)) }
    }

    /// Waits until there is something, and takes at most `limit` of it, one or more; 0 after ``finish(throwing:)``.
    ///
    /// - Throws: what it was finished with, or `CancellationError` when the task is cancelled; then nothing is taken.
    package func take(upTo limit: Int = 1) async throws -> Int {
        precondition(limit > 0, "taking nothing needs no waiting")
        try Task.checkCancellation()
        return try await state.wait(in: { $1(&$0.waiting) }, asking: limit, cancelled: .failure(CancellationError())) {
            state in
            if let end = state.end { return end }
            guard state.count > 0 else { return nil }
            let taken = min(limit, state.count)
            state.count -= taken
            return .success(taken)
        }.get()
    }

    /// Lets nobody wait any more: from now on taking gives 0, or throws `error`.
    ///
    /// Only the first end counts.
    package func finish(throwing error: (any Error)? = nil) {
        let end: Result<Int, any Error> = error.map { .failure($0) } ?? .success(0)
        let waiting = state.withLock { state -> [WaitList<Int, Result<Int, any Error>>.Entry] in
            guard state.end == nil else { return [] }
            state.end = end
            return state.waiting.removeAll()
        }
        for entry in waiting { entry.waiter.resume(returning: end) }
    }
}
