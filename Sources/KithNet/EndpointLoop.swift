import NIOCore
import NIOPosix
import Synchronization

/// The one thread an endpoint runs on, and the turn to touch what the endpoint has.
///
/// Everything of an endpoint and of its connections is touched by whoever has the turn. That is the thread, for
/// everything it does here; and a task that has a few bytes to send takes the turn when nobody has it, so that they are
/// on their way without the thread being woken. The thread waits for the turn, tasks never do.
///
/// Tasks that wait for the network can run on the thread, where they go on at once: it is a `TaskExecutor`. They have
/// not got the turn.
final class EndpointLoop: TaskExecutor {
    /// What everything else of SwiftNIO's is made with.
    let eventLoop: any EventLoop
    private let group: MultiThreadedEventLoopGroup
    private let turn = Mutex<Void>(())
    /// Whether the thread has the turn.
    private let isThreadsTurn = Atomic(false)

    init() {
        group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        eventLoop = group.next()
    }

    deinit {
        // Nobody is left to hear how it went.
        group.shutdownGracefully { _ in }
    }

    /// Does `work` on the thread, with the turn.
    func execute(_ work: @escaping @Sendable () -> Void) {
        eventLoop.execute { self.take(work) }
    }

    /// Does `work` on the thread, with the turn, when the time has passed.
    @discardableResult
    func scheduleTask(in time: TimeAmount, _ work: @escaping @Sendable () -> Void) -> Scheduled<Void> {
        eventLoop.scheduleTask(in: time) { self.take(work) }
    }

    /// Does `work` on the thread, with the turn, again and again.
    func scheduleRepeatedTask(every time: TimeAmount, _ work: @escaping @Sendable () -> Void) -> RepeatedTask {
        eventLoop.scheduleRepeatedTask(initialDelay: time, delay: time) { _ in self.take(work) }
    }

    /// Does `work` with the turn; to be called on the thread, where SwiftNIO calls back.
    func take(_ work: () -> Void) {
        // Closing a channel calls back at once.
        guard !isThreadsTurn.load(ordering: .relaxed) else { return work() }
        turn.withLock { _ in
            isThreadsTurn.store(true, ordering: .relaxed)
            defer { isThreadsTurn.store(false, ordering: .relaxed) }
            work()
        }
    }

    /// Does `work` with the turn, on the calling thread, unless somebody has it; returns what `work` does, or false.
    func takeIfFree(_ work: () -> Bool) -> Bool {
        turn.withLockIfAvailable { _ in
            guard eventLoop.inEventLoop else { return work() }
            isThreadsTurn.store(true, ordering: .relaxed)
            defer { isThreadsTurn.store(false, ordering: .relaxed) }
            return work()
        } ?? false
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        eventLoop.execute { unsafe job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
