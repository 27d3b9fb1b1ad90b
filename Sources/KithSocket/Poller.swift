#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif
import KithWire
import Synchronization

/// Tells tasks when their sockets are ready: one thread in `poll(2)`, for a hundred sockets at most.
///
/// Bytes never pass through it: a task reads and writes its socket itself and comes here only when that would block.
/// The thread ends when the last reference goes.
final class Poller: Sendable {
    /// What to wait for.
    ///
    /// Every wait also ends when the other end is gone.
    enum Interest: Sendable {
        case read, write
        /// Only that the other end has closed, or given up, both directions.
        case hangUp
    }

    private let core: Core

    /// Starts the thread.
    init() throws(KithError) {
        core = try Core()
        let core = core
        try Platform.startThread { core.run() }
    }

    deinit { core.stop() }

    /// Runs tasks on the thread itself, so that what waits here goes on without another thread being woken.
    ///
    /// For work that never blocks and is never long: whatever else waits here waits for it.
    var executor: any TaskExecutor { core }

    /// Waits until `descriptor` is ready, or hung up.
    ///
    /// With `isCancellable`, cancelling the task ends the wait early; the caller finds out by asking its task.
    func wait(for interest: Interest, of descriptor: SocketDescriptor, isCancellable: Bool = true) async {
        let ticket = core.makeTicket()
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                core.add(
                    ticket, Waiter(descriptor: descriptor, interest: interest, continuation: continuation),
                    unlessCancelled: isCancellable)
            }
        } onCancel: {
            if isCancellable { core.cancel(ticket) }
        }
    }

    private struct Waiter {
        let descriptor: SocketDescriptor
        let interest: Interest
        let continuation: CheckedContinuation<Void, Never>
    }

    private final class Core: TaskExecutor {
        private struct State {
            var waiters: [UInt64: Waiter] = [:]
            var nextTicket: UInt64 = 0
            var jobs: [UnownedJob] = []
            /// Whether the thread will look at `waiters` and `jobs` again without being woken.
            var isAwake = true
            var isStopped = false
        }

        private let state = Mutex(State())
        /// A pipe to itself: a byte in it ends the thread's sleep.
        private let sleepEnd: Int32
        private let wakeEnd: Int32

        init() throws(KithError) {
            var ends: (Int32, Int32) = (-1, -1)
            let status = unsafe withUnsafeMutableBytes(of: &ends) {
                unsafe pipe($0.assumingMemoryBound(to: Int32.self).baseAddress)
            }
            guard status == 0 else {
                throw KithError(.exhausted, "Could not make a pipe: \(SocketDescriptor.text(errno)).")
            }
            (sleepEnd, wakeEnd) = ends
            for end in [sleepEnd, wakeEnd] {
                _ = fcntl(end, F_SETFL, O_NONBLOCK)
                _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            }
        }

        deinit {
            close(sleepEnd)
            close(wakeEnd)
        }

        func makeTicket() -> UInt64 {
            state.withLock { state in
                state.nextTicket += 1
                return state.nextTicket
            }
        }

        func add(_ ticket: UInt64, _ waiter: Waiter, unlessCancelled: Bool) {
            let (isAdded, wakes) = state.withLock { state -> (Bool, Bool) in
                // The cancellation handler may have run before there was anything to cancel.
                guard !state.isStopped, !(unlessCancelled && Task.isCancelled) else { return (false, false) }
                state.waiters[ticket] = waiter
                defer { state.isAwake = true }
                return (true, !state.isAwake)
            }
            if wakes { wake() }
            if !isAdded { waiter.continuation.resume() }
        }

        func cancel(_ ticket: UInt64) {
            state.withLock { $0.waiters.removeValue(forKey: ticket) }?.continuation.resume()
        }

        func stop() {
            let waiters = state.withLock { state in
                state.isStopped = true
                defer { state.waiters = [:] }
                return state.waiters.values
            }
            wake()
            for waiter in waiters { waiter.continuation.resume() }
        }

        func enqueue(_ job: consuming ExecutorJob) {
            let job = UnownedJob(job)
            let (isStopped, wakes) = state.withLock { state in
                if state.isStopped { return (true, false) }
                state.jobs.append(job)
                defer { state.isAwake = true }
                return (false, !state.isAwake)
            }
            if isStopped {
                // The thread is gone or going, but a task may still have its end to do.
                globalConcurrentExecutor.enqueue(job)
            } else if wakes {
                wake()
            }
        }

        /// Runs what is to be run, and what that brings.
        private func runJobs() {
            while true {
                let jobs = state.withLock { state in
                    defer { state.jobs.removeAll() }
                    return state.jobs
                }
                if jobs.isEmpty { return }
                for job in jobs { unsafe job.runSynchronously(on: asUnownedTaskExecutor()) }
            }
        }

        private func wake() {
            var byte: UInt8 = 0
            _ = unsafe write(wakeEnd, &byte, 1)  // a full pipe wakes as well
        }

        func run() {
            var polled: [pollfd] = []
            var tickets: [UInt64] = []
            // Keeps the sockets open while the system looks at their numbers.
            var descriptors: [SocketDescriptor] = []
            while true {
                runJobs()
                let (isStopped, isBusy) = state.withLock { state in
                    polled.removeAll(keepingCapacity: true)
                    tickets.removeAll(keepingCapacity: true)
                    descriptors.removeAll(keepingCapacity: true)
                    polled.append(pollfd(fd: sleepEnd, events: Int16(POLLIN), revents: 0))
                    for (ticket, waiter) in state.waiters {
                        let events: Int16 =
                            switch waiter.interest {
                            case .read: Int16(POLLIN)
                            case .write: Int16(POLLOUT)
                            case .hangUp: 0
                            }
                        polled.append(pollfd(fd: waiter.descriptor.number, events: events, revents: 0))
                        tickets.append(ticket)
                        descriptors.append(waiter.descriptor)
                    }
                    state.isAwake = !state.jobs.isEmpty
                    return (state.isStopped, state.isAwake)
                }
                if isBusy { continue }
                if isStopped { return }
                guard unsafe poll(&polled, nfds_t(polled.count), -1) >= 0 else { continue }  // EINTR: look again
                if polled[0].revents != 0 { drain() }
                let ready = state.withLock { state -> [CheckedContinuation<Void, Never>] in
                    state.isAwake = true
                    return zip(polled.dropFirst(), tickets).compactMap { entry, ticket in
                        guard entry.revents != 0 else { return nil }
                        return state.waiters.removeValue(forKey: ticket)?.continuation
                    }
                }
                for continuation in ready { continuation.resume() }
            }
        }

        private func drain() {
            var bytes: (UInt64, UInt64) = (0, 0)
            while unsafe read(sleepEnd, &bytes, 16) == 16 {}
        }
    }
}
