package import NIOCore
import NIOPosix
import Synchronization

/// The one thread an endpoint runs on, and the lock of what the endpoint has.
///
/// Everything of an endpoint and of its connections is touched only with the lock. The thread holds it for
/// everything it does here; a task that has a few bytes to send takes it when it is free, so that they are
/// sent without waking the thread. The thread waits for the lock, tasks never do.
///
/// Tasks that wait for the network can run on the thread, where they go on at once: it is a `TaskExecutor`. They have
/// not got the lock.
package final class EndpointLoop: TaskExecutor {
    /// The event loop that everything else of SwiftNIO's is made with.
    package let eventLoop: any EventLoop
    private let group: MultiThreadedEventLoopGroup
    private let lock = Mutex<Void>(())
    /// Indicates whether the thread has the lock.
    private let isThreadLocked = Atomic(false)

    /// Starts a thread, which ends with the last reference.
    package init() {
        group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        eventLoop = group.next()
    }

    deinit {
        // Nobody is left to hear how it went.
        group.shutdownGracefully { _ in }
    }

    /// Does `work` on the thread, with the lock.
    func execute(_ work: @escaping @Sendable () -> Void) {
        eventLoop.execute { self.withLock(work) }
    }

    /// Does `work` on the thread, with the lock, when the time has passed.
    @discardableResult
    func scheduleTask(in time: TimeAmount, _ work: @escaping @Sendable () -> Void) -> Scheduled<Void> {
        eventLoop.scheduleTask(in: time) { self.withLock(work) }
    }

    /// Does `work` on the thread, with the lock, again and again.
    func scheduleRepeatedTask(every time: TimeAmount, _ work: @escaping @Sendable () -> Void) -> RepeatedTask {
        eventLoop.scheduleRepeatedTask(initialDelay: time, delay: time) { _ in self.withLock(work) }
    }

    /// Does `work` with the lock; to be called on the thread, where SwiftNIO calls back.
    func withLock(_ work: () -> Void) {
        // Closing a channel calls back at once.
        guard !isThreadLocked.load(ordering: .relaxed) else { return work() }
        lock.withLock { _ in
            isThreadLocked.store(true, ordering: .relaxed)
            defer { isThreadLocked.store(false, ordering: .relaxed) }
            work()
        }
    }

    /// Does `work` with the lock, on the calling thread, unless it is held; returns what `work` does, or false.
    func tryLock(_ work: () -> Bool) -> Bool {
        lock.withLockIfAvailable { _ in
            guard eventLoop.inEventLoop else { return work() }
            isThreadLocked.store(true, ordering: .relaxed)
            defer { isThreadLocked.store(false, ordering: .relaxed) }
            return work()
        } ?? false
    }

    /// Runs a task's next part on the thread, without the lock.
    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        eventLoop.execute { unsafe job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
