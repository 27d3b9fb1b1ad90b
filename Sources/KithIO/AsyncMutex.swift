import Synchronization

/// Lets one task through at a time, first come first served; held across suspensions.
package final class AsyncMutex: Sendable {
    private struct State: Sendable {
        var isLocked = false
        /// Told whether they hold the lock now, or were cancelled.
        var waiting = WaitList<Void, Bool>()

        mutating func tryLock() -> Bool {
            defer { isLocked = true }
            return !isLocked
        }
    }

    private let state = Mutex(State())

    /// Makes a lock nobody holds.
    package init() {}

    /// Takes the lock if nobody holds it.
    package func tryLock() -> Bool { state.withLock { $0.tryLock() } }

    /// Waits for the lock, even when the task is cancelled: for what must not be left half done.
    package func lock() async {
        _ = await state.wait(in: { $1(&$0.waiting) }, asking: (), cancelled: nil) { $0.tryLock() ? true : nil }
    }

    /// Waits for the lock, or until the task is cancelled; then it does not hold the lock.
    package func lockUnlessCancelled() async throws(CancellationError) {
        let isHeld = await state.wait(in: { $1(&$0.waiting) }, asking: (), cancelled: false) {
            $0.tryLock() ? true : nil
        }
        if !isHeld { throw CancellationError() }
    }

    /// Gives the lock to the task that has waited longest.
    package func unlock() {
        let next = state.withLock { state -> WaitList<Void, Bool>.Entry? in
            precondition(state.isLocked, "a lock was released that nobody held")
            let next = state.waiting.popFirst()
            if next == nil { state.isLocked = false }
            return next
        }
        next?.waiter.resume(returning: true)
    }

    /// Runs `body` with the lock held; waits for it even when the task is cancelled.
    package func withLock<Result, Failure: Error>(
        _ body: () async throws(Failure) -> Result
    ) async throws(Failure) -> Result {
        await lock()
        defer { unlock() }
        return try await body()
    }
}
