import CKithSystem
import Foundation
package import KithWire
import Synchronization

/// Tells tasks when file descriptors can be read or written: one thread waits for all of them.
///
/// The thread ends with the last reference.
package final class Readiness: Sendable {
    /// The event a task waits for.
    package enum Direction: Sendable {
        case reading, writing
    }

    private let loop: Loop

    /// Starts the thread.
    ///
    /// - Throws: `.exhausted` when no descriptor is free.
    package init() throws(KithError) {
        loop = try Loop()
        let thread = Thread { [loop] in loop.run() }
        thread.name = "kith-shell"
        thread.start()
    }

    deinit { loop.stop() }

    /// Waits until one of the descriptors is ready, at its end, or broken; a regular file always is.
    ///
    /// Never waited for by two tasks at once: a descriptor (a terminal's two directions are two descriptors).
    ///
    /// - Throws: `CancellationError`, unless `ignoringCancellation`.
    package func wait(
        anyOf descriptors: [Int32], _ direction: Direction, ignoringCancellation: Bool = false
    ) async throws {
        let token = loop.makeToken()
        if ignoringCancellation {
            return try await loop.wait(descriptors, direction, token, isCancelled: { false })
        }
        try await withTaskCancellationHandler {
            try await loop.wait(descriptors, direction, token, isCancelled: { Task.isCancelled })
        } onCancel: {
            loop.resume(token, with: .failure(CancellationError()))
        }
    }

    /// Runs tasks on the thread itself, so that what waits here goes on without another thread being woken.
    ///
    /// For work that never blocks and is never long: whatever else waits here waits for it.
    package var executor: any TaskExecutor { loop }

    /// Must come before a descriptor that was waited for is closed.
    package func forget(_ descriptor: Int32) { kith_poller_forget(loop.poller, descriptor) }
}

/// The state that the thread and the tasks share.
private final class Loop: TaskExecutor {
    private struct State {
        /// 0 is the token of what wakes the thread.
        var lastToken: UInt64 = 0
        var waiting: [UInt64: CheckedContinuation<Void, any Error>] = [:]
        var jobs: [UnownedJob] = []
        /// True when the thread will look at the jobs again without being woken.
        var isAwake = true
        var isStopping = false
    }

    let poller: Int32
    private let wakeable: Int32
    private let state = Mutex(State())

    init() throws(KithError) {
        poller = kith_poller_open()
        guard poller >= 0 else { throw KithError(.exhausted, "No file descriptor is free for another shell.") }
        wakeable = kith_poller_wakeable(poller)
        guard wakeable >= 0 else {
            close(poller)
            throw KithError(.exhausted, "No file descriptor is free for another shell.")
        }
    }

    deinit {
        close(poller)
        kith_poller_wakeable_close(wakeable)
    }

    func stop() {
        state.withLock { $0.isStopping = true }
        kith_poller_wake(poller, wakeable)
    }

    func run() {
        var tokens = [UInt64](repeating: 0, count: 64)
        while runJobs() {
            let count = unsafe kith_poller_wait(poller, &tokens, 64)
            state.withLock { $0.isAwake = true }
            guard count > 0 else { continue }
            for token in tokens[..<Int(count)] where token != 0 { resume(token, with: .success(())) }
        }
    }

    /// Runs what is to be run; returns whether the thread goes on.
    private func runJobs() -> Bool {
        while true {
            let (jobs, isStopping) = state.withLock { state -> ([UnownedJob], Bool) in
                defer { state.jobs.removeAll() }
                if state.jobs.isEmpty { state.isAwake = false }
                return (state.jobs, state.isStopping)
            }
            for job in jobs { unsafe job.runSynchronously(on: asUnownedTaskExecutor()) }
            if jobs.isEmpty { return !isStopping }
        }
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let (isStopping, wakes) = state.withLock { state in
            if state.isStopping { return (true, false) }
            state.jobs.append(job)
            defer { state.isAwake = true }
            return (false, !state.isAwake)
        }
        if isStopping {
            // Nobody waits here any more, but a task may still have its end to do.
            globalConcurrentExecutor.enqueue(job)
        } else if wakes {
            kith_poller_wake(poller, wakeable)
        }
    }

    func makeToken() -> UInt64 {
        state.withLock { state in
            state.lastToken += 1
            return state.lastToken
        }
    }

    func wait(
        _ descriptors: [Int32], _ direction: Readiness.Direction, _ token: UInt64, isCancelled: () -> Bool
    ) async throws {
        try await withCheckedThrowingContinuation { continuation in
            state.withLock { $0.waiting[token] = continuation }
            // The cancellation handler may have run before there was anything to resume.
            if isCancelled() { return resume(token, with: .failure(CancellationError())) }
            for descriptor in descriptors {
                let result = kith_poller_arm(poller, descriptor, direction == .writing ? 1 : 0, token)
                // What cannot be waited for (a regular file) does not make anybody wait; an error shows when used.
                if result < 0 { resume(token, with: .success(())) }
            }
        }
    }

    func resume(_ token: UInt64, with result: Result<Void, any Error>) {
        state.withLock { $0.waiting.removeValue(forKey: token) }?.resume(with: result)
    }
}
