package import KithWire

/// Runs `body`, cancels it when `timeout` has passed, and then throws `.timedOut`.
///
/// Returns only when `body` has: a body that ignores cancellation is waited for.
package func withDeadline<Result: Sendable>(
    _ timeout: Duration?, on clock: any Ticker = ContinuousClock(),
    _ body: @escaping @Sendable () async throws -> Result
) async throws -> Result {
    guard let timeout else { return try await body() }
    return try await withDeadline(clock.now.advanced(by: timeout), on: clock, body)
}

/// Runs `body`, cancels it at `deadline`, and then throws `.timedOut`.
package func withDeadline<Result: Sendable>(
    _ deadline: ContinuousClock.Instant?, on clock: any Ticker = ContinuousClock(),
    _ body: @escaping @Sendable () async throws -> Result
) async throws -> Result {
    guard let deadline else { return try await body() }
    let timedOut = KithError(.timedOut, "It was not done in time.")
    return try await withThrowingTaskGroup(of: Result?.self) { group in
        group.addTask { try await body() }
        group.addTask {
            try await clock.sleep(until: deadline, tolerance: nil)
            return nil
        }
        defer { group.cancelAll() }
        // The sleeper ends first with nil at the deadline; the body first with its result or its error.
        if let result = try await group.next() ?? nil { return result }
        group.cancelAll()
        // A body that finished all the same has done its work; only one that was cut off timed out.
        do {
            guard let result = try await group.next() ?? nil else { throw timedOut }
            return result
        } catch {
            throw timedOut
        }
    }
}
