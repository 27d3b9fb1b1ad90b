import KithIO
public import KithQUIC
import KithWire
import Synchronization

/// A clock that stands still until a test moves it, for code that sleeps and for engines that are told the time.
///
/// Sleepers wake in the order of their deadlines while ``advance(by:)`` passes them. A cancelled sleep throws at once.
public final class ManualClock: Clock, Sendable {
    /// Its instants are those of the real clock, so that code need not know the difference.
    public typealias Instant = ContinuousClock.Instant

    private struct Sleeper {
        var deadline: Instant
        var waiter: Waiter<Result<Void, CancellationError>>
    }

    private struct State {
        var now: Instant
        var nextID: UInt64 = 0
        var sleepers: [UInt64: Sleeper] = [:]
    }

    private let start: Instant
    private let state: Mutex<State>

    /// Makes a clock that stands at an arbitrary instant.
    public init() {
        start = ContinuousClock.now
        state = Mutex(State(now: start))
    }

    /// The time it stands at.
    public var now: Instant { state.withLock { $0.now } }

    /// The time it stands at as engines are told it: nanoseconds since the clock was made.
    public var timestamp: Timestamp { Timestamp(nanoseconds: 0).advanced(by: start.duration(to: now)) }

    /// One nanosecond.
    public var minimumResolution: Duration { .nanoseconds(1) }

    /// The number of tasks asleep on the clock.
    public var sleeperCount: Int { state.withLock { $0.sleepers.count } }

    /// Moves the time on and wakes whoever's deadline has come.
    public func advance(by duration: Duration) {
        let due = state.withLock { state in
            state.now = state.now.advanced(by: duration)
            let due = state.sleepers.filter { $0.value.deadline <= state.now }
            for id in due.keys { state.sleepers[id] = nil }
            return due.values.sorted { $0.deadline < $1.deadline }.map(\.waiter)
        }
        for waiter in due { waiter.resume(returning: .success(())) }
    }

    /// Moves the time to the next deadline anyone sleeps for; false when nobody does.
    @discardableResult
    public func advanceToNextDeadline() -> Bool {
        guard let next = state.withLock({ $0.sleepers.values.map(\.deadline).min() }) else { return false }
        advance(by: now.duration(to: next))
        return true
    }

    /// Moves the time on, step by step, until `body` is done.
    ///
    /// - Throws: ``NotInTime`` when no time is long enough, and what `body` throws.
    public func advance<Result: Sendable>(
        by step: Duration, until body: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        let isDone = Mutex(false)
        async let result = {
            defer { isDone.withLock { $0 = true } }
            return try await body()
        }()
        try await eventually {
            advance(by: step)
            return isDone.withLock { $0 }
        }
        return try await result
    }

    /// Waits until a test has moved the time to `deadline`.
    ///
    /// - Throws: `CancellationError` when the task is cancelled first.
    public func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        let id = state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
        try await suspend { waiter -> Result<Void, CancellationError>? in
            state.withLock { state in
                if Task.isCancelled { return .failure(CancellationError()) }
                if deadline <= state.now { return .success(()) }
                state.sleepers[id] = Sleeper(deadline: deadline, waiter: waiter)
                return nil
            }
        } onCancel: {
            let sleeper = state.withLock { $0.sleepers.removeValue(forKey: id) }
            sleeper?.waiter.resume(returning: .failure(CancellationError()))
        }.get()
    }
}

extension ManualClock: Ticker {}
