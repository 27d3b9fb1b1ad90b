#if Screen && os(Linux) && canImport(CXCB)
import CKithSystem
import Glibc
import KithIO
import Synchronization

/// The one thread that speaks to an X server: the executor of the actor that owns the connection.
///
/// A request may wait there for the server's answer; the threads that tasks share never do.
final class X11Thread: SerialExecutor {
    private struct State {
        var jobs: [UnownedJob] = []
        /// True while the thread will look at the jobs again without being woken.
        var isAwake = true
        var isStopping = false
        /// Takes in what the server has sent.
        var receive: (@Sendable () -> Void)?
        var identity: pthread_t?
    }

    private let reactor: Int32
    private let wakeable: Int32
    private let state = Mutex(State())

    /// Starts the thread; it runs until ``stop()``.
    ///
    /// - Throws: when the system gives no descriptor, or no thread.
    init() throws(SystemError) {
        let reactor = kith_reactor_open()
        guard reactor >= 0 else { throw SystemError(-reactor) }
        let wakeable = kith_reactor_wakeable(reactor)
        self.reactor = reactor
        self.wakeable = wakeable
        // The descriptor is closed by the end of this object.
        guard wakeable >= 0 else { throw SystemError(-wakeable) }
        let body = unsafe Unmanaged.passRetained(self)
        let status = unsafe kith_thread_start(
            "kith-x11",
            { argument in
                if let argument = unsafe argument {
                    unsafe Unmanaged<X11Thread>.fromOpaque(argument).takeRetainedValue().run()
                }
            }, body.toOpaque())
        guard status == 0 else {
            unsafe body.release()
            throw SystemError(status)
        }
    }

    deinit {
        if wakeable >= 0 { kith_reactor_wakeable_close(wakeable) }
        kith_reactor_close(reactor)
    }

    /// Calls `receive` on the thread whenever `descriptor` has something to read, and after every run of tasks: an answer
    /// that was waited for may have brought events with it.
    ///
    /// - Throws: when the system watches no more descriptors.
    func watch(_ descriptor: Int32, receive: @escaping @Sendable () -> Void) throws(SystemError) {
        state.withLock { $0.receive = receive }
        let status = kith_reactor_add(reactor, descriptor, 1, 1)
        guard status >= 0 else { throw SystemError(-status) }
    }

    /// Ends what ``watch(_:receive:)`` began; comes before the descriptor is closed.
    func unwatch(_ descriptor: Int32) {
        kith_reactor_remove(reactor, descriptor)
        state.withLock { $0.receive = nil }
    }

    /// Has the thread end once nothing is left to do: the last call of the actor that it runs.
    func stop() {
        state.withLock { $0.isStopping = true }
        kith_reactor_wake(reactor, wakeable)
    }

    // MARK: - As an executor

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let wakes = state.withLock { state in
            state.jobs.append(job)
            defer { state.isAwake = true }
            return !state.isAwake
        }
        if wakes { kith_reactor_wake(reactor, wakeable) }
    }

    func isIsolatingCurrentContext() -> Bool? {
        state.withLock { state in state.identity.map { pthread_equal($0, pthread_self()) != 0 } ?? false }
    }

    func checkIsolated() {
        precondition(isIsolatingCurrentContext() == true, "what belongs to the thread of X11 was used elsewhere")
    }

    private func run() {
        // XCB writes in a way that raises SIGPIPE when the server is gone; blocked, the write fails instead.
        var signals = sigset_t()
        unsafe sigemptyset(&signals)
        unsafe sigaddset(&signals, SIGPIPE)
        unsafe pthread_sigmask(SIG_BLOCK, &signals, nil)
        state.withLock { $0.identity = pthread_self() }

        var tokens = [UInt64](repeating: 0, count: 2)
        var ready = [UInt8](repeating: 0, count: 2)
        var jobs: [UnownedJob] = []
        while true {
            let receive = state.withLock { state in
                swap(&state.jobs, &jobs)
                return state.receive
            }
            for job in jobs { unsafe job.runSynchronously(on: asUnownedSerialExecutor()) }
            jobs.removeAll(keepingCapacity: true)
            receive?()
            let (isIdle, isStopping) = state.withLock { state in
                state.isAwake = !state.jobs.isEmpty
                return (state.jobs.isEmpty, state.isStopping)
            }
            guard isIdle else { continue }
            if isStopping { return }
            _ = unsafe kith_reactor_wait(reactor, &tokens, &ready, 2, 1)
            state.withLock { $0.isAwake = true }
        }
    }
}
#endif
