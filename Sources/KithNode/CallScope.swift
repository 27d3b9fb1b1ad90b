import KithAPI
import KithIO
import KithWire
import Synchronization

/// One running call: ends its task, and its stream, for the first of several reasons.
final class CallScope: Sendable {
    private struct State {
        var reason: KithError?
        var cancel: (@Sendable () -> Void)?
        var stream: (any ByteStream)?
    }
    private let state = Mutex(State())
    private let timers: TimerQueue
    /// The reason given when the task that serves the call is cancelled.
    private let cancellation: KithError

    init(
        timers: TimerQueue, whenCancelled cancellation: KithError = KithError(.cancelled, "The call was cancelled.")
    ) {
        self.timers = timers
        self.cancellation = cancellation
    }

    /// The reason it was called off; `nil` while it runs.
    var reason: KithError? { state.withLock { $0.reason } }

    /// Calls it off: cancels the task and abandons the stream with the reason.
    ///
    /// Only the first reason counts.
    func cancel(_ reason: KithError) {
        let (cancel, stream) = state.withLock { state -> ((@Sendable () -> Void)?, (any ByteStream)?) in
            guard state.reason == nil else { return (nil, nil) }
            state.reason = reason
            return (state.cancel, state.stream)
        }
        // First: work that is cancelled abandons its stream as well, and knows no reason.
        stream?.fail(reason)
        cancel?()
    }

    /// Calls it off at `deadline`, unless the ticket is cancelled before.
    func expire(at deadline: ContinuousClock.Instant, _ reason: KithError) -> TimerQueue.Ticket {
        timers.schedule(at: deadline) { self.cancel(reason) }
    }

    /// The stream to abandon when the call is called off.
    func attach(_ stream: any ByteStream) throws {
        let reason = state.withLock { state in
            state.stream = stream
            return state.reason
        }
        if let reason {
            stream.fail(reason)
            throw reason
        }
    }

    /// Runs the work in the caller's own task, until it ends or is called off.
    ///
    /// Whatever the work waits for is a stream that it attaches, or is ``awaited(_:)``: nothing else of it ends when it
    /// is called off. That saves a task, and a thread that is woken when that one ends.
    ///
    /// - Throws: the reason, when it was called off; else what the work throws.
    func runHere<Result>(
        until deadline: ContinuousClock.Instant?, _ work: () async throws -> Result
    ) async throws -> Result {
        let timer = deadline.map { expire(at: $0, Self.tooLate) }
        defer {
            if let timer { timers.cancel(timer) }
        }
        do {
            let result = try await withTaskCancellationHandler(operation: work) { cancel(cancellation) }
            // Whoever gets it must not have it taken away.
            let reason = state.withLock { state in
                state.stream = nil
                return state.reason
            }
            if let reason { throw reason }
            return result
        } catch {
            throw reason ?? error
        }
    }

    /// Does a part of the work that waits for something else than a stream.
    func awaited<Result: Sendable>(_ work: @escaping @Sendable () async throws -> Result) async throws -> Result {
        let isAwaited = state.withLock { $0.cancel != nil }
        return isAwaited ? try await work() : try await run("kith wait", until: nil, work)
    }

    private static let tooLate = KithError(.timedOut, "It was not done in time.")

    /// Runs the work in a task of its own, until it ends or is called off.
    ///
    /// With `isImmediate` the task begins on the caller's thread, where that may wait for it: no other has to be woken for
    /// what is done at once.
    ///
    /// - Throws: the reason, when it was called off; else what the work throws.
    func run<Result: Sendable>(
        _ name: String, until deadline: ContinuousClock.Instant?, isImmediate: Bool = false,
        _ work: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        let task: Task<Result, any Error>
        if isImmediate, #available(macOS 26, iOS 26, *) {
            task = Task.immediate(name: name) { try await work() }
        } else {
            task = Task(name: name) { try await work() }
        }
        let isCancelled = state.withLock { state in
            state.cancel = { task.cancel() }
            return state.reason != nil
        }
        if isCancelled { task.cancel() }
        let timer = deadline.map { expire(at: $0, Self.tooLate) }
        defer {
            if let timer { timers.cancel(timer) }
            state.withLock { state in
                state.cancel = nil
                state.stream = nil
            }
        }
        do {
            return try await withTaskCancellationHandler {
                try await task.value
            } onCancel: {
                cancel(cancellation)
            }
        } catch {
            throw reason ?? error
        }
    }
}
