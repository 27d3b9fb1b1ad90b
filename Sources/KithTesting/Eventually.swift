import KithIO

/// Says that what ``eventually(within:_:)`` waits for did not come.
public struct NotInTime: Error, CustomStringConvertible {
    let limit: Duration
    /// A sentence for a person.
    public var description: String { "What a test waits for did not come within \(limit)." }
}

/// Waits until `condition` holds of something that tells nobody when it changes: a file, a process, a counter elsewhere.
///
/// It asks again and again. Where something can be waited for, wait for that instead. `limit` is there for what never
/// comes, not for what comes late: machines that run tests are slow.
///
/// - Throws: ``NotInTime``, what `condition` throws, and `CancellationError`.
public func eventually(within limit: Duration = .seconds(300), _ condition: () async throws -> Bool) async throws {
    let end = ContinuousClock.now + limit
    while try await !condition() {
        if ContinuousClock.now > end { throw NotInTime(limit: limit) }
        try await Task.sleep(for: .milliseconds(10))
    }
}

/// Waits until the task is cancelled.
///
/// - Throws: `CancellationError`.
public func untilCancelled() async throws {
    let never = Promise<Void>()
    try await never.valueUnlessCancelled()
}
