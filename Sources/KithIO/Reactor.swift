import CKithSystem
import Synchronization

/// Tells tasks when file descriptors are ready: one thread waits for all of them.
///
/// Bytes never pass through it: a task reads and writes its descriptor itself, without blocking, and comes here when that
/// finds nothing to do. A descriptor is added to the system's list once (``watch(_:reads:keeping:)``) and reported at every
/// change, so that a task that waits for the next key makes no system call to do so.
///
/// The thread also runs tasks that prefer its ``executor``: what waits here then goes on without another thread being woken.
/// It ends with the last reference, those of the watches among them.
package final class Reactor: Sendable {
    /// The condition a task waits for.
    package enum Interest: Hashable, Sendable {
        case reading, writing
        /// The other end closed, or gave up, the direction in which it writes, or both; only of what is watched for reading.
        case end
        /// The other end closed, or gave up, both directions.
        case hangUp
    }

    fileprivate let core: Core

    /// Starts the thread.
    ///
    /// - Throws: when the system gives no descriptor, or no thread.
    package init(name: String) throws(SystemError) {
        core = try Core()
        let body = unsafe Unmanaged.passRetained(core)
        let status = unsafe kith_thread_start(
            name,
            { argument in
                if let argument = unsafe argument {
                    unsafe Unmanaged<Core>.fromOpaque(argument).takeRetainedValue().run()
                }
            }, body.toOpaque())
        guard status == 0 else {
            unsafe body.release()
            throw SystemError(status)
        }
    }

    deinit { core.stop() }

    /// Runs tasks on the thread itself.
    ///
    /// For work that never blocks and is never long: whatever else waits here waits for it.
    package var executor: any TaskExecutor { core }

    /// The number of descriptors watched.
    package var count: Int { core.counts.watched }

    /// The number of tasks that wait.
    package var waitingCount: Int { core.counts.waiting }

    /// Begins to watch a descriptor.
    ///
    /// It must stay open as long as the watch does. A regular file is always ready.
    ///
    /// - Parameters:
    ///   - descriptor: Its number.
    ///   - reads: Whether anybody will wait to read from it.
    ///   - owner: Kept until the watch has ended: what closes the descriptor when it goes.
    /// - Returns: what tasks wait at; it ends with the last reference.
    /// - Throws: when the system watches no more.
    package func watch(
        _ descriptor: Int32, reads: Bool = true, keeping owner: (any AnyObject & Sendable)? = nil
    ) throws(SystemError) -> Watch {
        let token = try core.add(descriptor, reads: reads)
        return Watch(self, descriptor, token, owner)
    }

    /// Waits for one of several descriptors of this reactor, as ``Watch/wait(for:isCancellable:)`` does for one.
    package func wait(for interest: Interest, ofAny watches: [Watch]) async {
        await core.wait(watches.flatMap(\.tokens), interest, isCancellable: true)
    }
}

/// A descriptor that a reactor watches.
///
/// Who waits first tries, and comes here when the system says that it would have to wait; or has waited, and was given less
/// than it asked for. After a wait it tries again: there may be nothing after all. Then no change is missed.
package final class Watch: Sendable {
    private let reactor: Reactor
    private let descriptor: Int32
    /// The system's name for it, on its own as that is what is waited for.
    fileprivate let tokens: [UInt64]
    /// Let go of after the watch has ended.
    private let owner: (any AnyObject & Sendable)?

    fileprivate init(
        _ reactor: Reactor, _ descriptor: Int32, _ token: UInt64, _ owner: (any AnyObject & Sendable)?
    ) {
        self.reactor = reactor
        self.descriptor = descriptor
        tokens = [token]
        self.owner = owner
    }

    deinit { close() }

    /// The executor on which tasks that wait here go on without another thread being woken: ``Reactor/executor``.
    package var executor: any TaskExecutor { reactor.executor }

    /// Waits until there is reason to try again, or to look at the task: it may have been cancelled.
    ///
    /// Any number of tasks may wait. With `isCancellable` false cancelling the task does not end the wait.
    package func wait(for interest: Reactor.Interest, isCancellable: Bool = true) async {
        await reactor.core.wait(tokens, interest, isCancellable: isCancellable)
    }

    /// Ends the watch and wakes everybody who waits, now and later; again does nothing.
    package func close() { for token in tokens { reactor.core.remove(token, descriptor) } }
}

/// The state the thread and the tasks share.
private final class Core: TaskExecutor {
    /// A watched descriptor.
    private struct Entry {
        let descriptor: Int32
        let reads: Bool
        /// Never reported, as it is always ready.
        var isAlwaysReady = false
        /// So many waits to read end at once: it became ready when nobody waited.
        var readable = 0
        /// The next wait to write ends at once.
        var isWritable = false
        /// For good, as the next.
        var hasEnded = false
        var isHungUp = false
        /// The system reports that it can be written.
        var reportsWriting = false
        /// Tickets of those who wait.
        var readers: [UInt64] = []
        var writers: [UInt64] = []
        var ends: [UInt64] = []
        var hangUps: [UInt64] = []

        /// Forgets that it is ready; returns whether it was.
        mutating func takeReadiness(_ interest: Reactor.Interest) -> Bool {
            if isAlwaysReady { return interest == .reading || interest == .writing }
            switch interest {
            case .reading:
                defer { readable = max(readable - 1, 0) }
                return readable > 0
            case .writing:
                defer { isWritable = false }
                return isWritable
            case .end: return hasEnded
            case .hangUp: return isHungUp
            }
        }

        mutating func append(_ ticket: UInt64, _ interest: Reactor.Interest) {
            switch interest {
            case .reading: readers.append(ticket)
            case .writing: writers.append(ticket)
            case .end: ends.append(ticket)
            case .hangUp: hangUps.append(ticket)
            }
        }

        func first(_ interest: Reactor.Interest) -> UInt64? {
            switch interest {
            case .reading: readers.first
            case .writing: writers.first
            case .end: ends.first
            case .hangUp: hangUps.first
            }
        }

        mutating func remove(_ ticket: UInt64, _ interest: Reactor.Interest) {
            switch interest {
            case .reading: readers.removeAll { $0 == ticket }
            case .writing: writers.removeAll { $0 == ticket }
            case .end: ends.removeAll { $0 == ticket }
            case .hangUp: hangUps.removeAll { $0 == ticket }
            }
        }
    }

    /// A task that waits for one of some descriptors.
    private struct Wait {
        let tokens: [UInt64]
        let interest: Reactor.Interest
        let waiter: Waiter<Void>
    }

    private struct State {
        /// By their tokens; 0 is that of what wakes the thread.
        var entries = SlotTable<Entry>()
        /// By their tickets.
        var waits = SlotTable<Wait>()
        var jobs: [UnownedJob] = []
        /// True while the thread will look at the jobs again without being woken.
        var isAwake = true
        var isStopping = false

        /// Takes out a task that waits, wherever it does.
        mutating func take(_ ticket: UInt64) -> Waiter<Void>? {
            guard let wait = waits.remove(ticket) else { return nil }
            for token in wait.tokens { entries.update(token) { $0.remove(ticket, wait.interest) } }
            return wait.waiter
        }

        /// Takes out those that wait at a descriptor, to be resumed with others.
        mutating func take(_ interest: Reactor.Interest, at token: UInt64, _ woken: inout [Waiter<Void>]) {
            while let ticket = entries.update(token, { $0.first(interest) }) ?? nil {
                guard let waiter = take(ticket) else { preconditionFailure("a ticket was left where nobody waits") }
                woken.append(waiter)
            }
        }
    }

    private let reactor: Int32
    private let wakeable: Int32
    private let state = Mutex(State())
    /// So many tasks run between two looks at the descriptors.
    private static let jobLimit = 256

    init() throws(SystemError) {
        let reactor = kith_reactor_open()
        guard reactor >= 0 else { throw SystemError(-reactor) }
        let wakeable = kith_reactor_wakeable(reactor)
        self.reactor = reactor
        self.wakeable = wakeable
        // The descriptor is closed by the end of this object.
        guard wakeable >= 0 else { throw SystemError(-wakeable) }
    }

    deinit {
        if wakeable >= 0 { kith_reactor_wakeable_close(wakeable) }
        kith_reactor_close(reactor)
    }

    var counts: (watched: Int, waiting: Int) { state.withLock { ($0.entries.count, $0.waits.count) } }

    // MARK: - Descriptors

    func add(_ descriptor: Int32, reads: Bool) throws(SystemError) -> UInt64 {
        // In one piece: a report may come before the system has answered.
        let status = state.withLock { state -> (Int32, UInt64) in
            let token = state.entries.insert(Entry(descriptor: descriptor, reads: reads))
            let status = kith_reactor_add(reactor, descriptor, token, reads ? 1 : 0)
            if status >= 0 {
                state.entries.update(token) { $0.isAlwaysReady = status == 1 }
            } else {
                _ = state.entries.remove(token)
            }
            return (status, token)
        }
        guard status.0 >= 0 else { throw SystemError(-status.0) }
        return status.1
    }

    func remove(_ token: UInt64, _ descriptor: Int32) {
        let waiters = state.withLock { state -> [Waiter<Void>] in
            guard let entry = state.entries.remove(token) else { return [] }
            if !entry.isAlwaysReady { kith_reactor_remove(reactor, descriptor) }
            return (entry.readers + entry.writers + entry.ends + entry.hangUps).compactMap { state.take($0) }
        }
        for waiter in waiters { waiter.resume() }
    }

    // MARK: - Waiting

    func wait(_ tokens: [UInt64], _ interest: Reactor.Interest, isCancellable: Bool) async {
        // Where the waiter is found by whoever cancels; 0 before there is anything to find.
        let ticket = Atomic<UInt64>(0)
        await suspend { waiter in
            state.withLock { state -> Void? in
                if state.isStopping { return () }
                var isReady = false
                for token in tokens
                where state.entries.update(token, { $0.takeReadiness(interest) }) ?? true {
                    isReady = true
                }
                if isReady { return () }
                // The cancellation handler may have run before there was anything to cancel.
                if isCancellable, Task.isCancelled { return () }
                if interest == .writing {
                    for token in tokens where !reportWriting(token, &state) { return () }
                }
                let number = state.waits.insert(Wait(tokens: tokens, interest: interest, waiter: waiter))
                ticket.store(number, ordering: .relaxed)
                for token in tokens { state.entries.update(token) { $0.append(number, interest) } }
                return nil
            }
        } onCancel: {
            guard isCancellable else { return }
            state.withLock { $0.take(ticket.load(ordering: .relaxed)) }?.resume()
        }
    }

    /// Has the system report that a descriptor can be written; false when it does not, and trying shows why.
    private func reportWriting(_ token: UInt64, _ state: inout State) -> Bool {
        state.entries.update(token) { entry in
            if entry.reportsWriting { return true }
            let status = kith_reactor_watch_writing(reactor, entry.descriptor, token, entry.reads ? 1 : 0, 1)
            if status >= 0 { entry.reportsWriting = true }
            return status >= 0
        } ?? true
    }

    /// Takes a report of the system's; adds those to be resumed.
    private func received(_ ready: UInt8, of token: UInt64, _ state: inout State, _ woken: inout [Waiter<Void>]) {
        // A token of a watch that has ended meanwhile is nobody's.
        let isKnown: Void? = state.entries.update(token) { entry in
            if ready & UInt8(KITH_READY_TO_READ) != 0 {
                // The end may come together with the last bytes, and is not reported again: whoever waits, takes those,
                // and waits again is to find it.
                let times = (entry.readers.isEmpty ? 1 : 0) + (ready & UInt8(KITH_READY_ENDED) != 0 ? 1 : 0)
                entry.readable = max(entry.readable, times)
            }
            if ready & UInt8(KITH_READY_TO_WRITE) != 0 {
                entry.isWritable = entry.writers.isEmpty
                if entry.writers.isEmpty, entry.reportsWriting {
                    // When the system refuses, it goes on reporting: no harm.
                    let status = kith_reactor_watch_writing(reactor, entry.descriptor, token, entry.reads ? 1 : 0, 0)
                    entry.reportsWriting = status < 0
                }
            }
            if ready & UInt8(KITH_READY_ENDED) != 0 { entry.hasEnded = true }
            if ready & UInt8(KITH_READY_HUNG_UP) != 0 { entry.isHungUp = true }
        }
        guard isKnown != nil else { return }
        if ready & UInt8(KITH_READY_TO_READ) != 0 { state.take(.reading, at: token, &woken) }
        if ready & UInt8(KITH_READY_TO_WRITE) != 0 { state.take(.writing, at: token, &woken) }
        if ready & UInt8(KITH_READY_ENDED) != 0 { state.take(.end, at: token, &woken) }
        if ready & UInt8(KITH_READY_HUNG_UP) != 0 { state.take(.hangUp, at: token, &woken) }
    }

    // MARK: - The thread

    func stop() {
        let waiters = state.withLock { state in
            state.isStopping = true
            return state.waits.numbers.compactMap { state.take($0) }
        }
        kith_reactor_wake(reactor, wakeable)
        for waiter in waiters { waiter.resume() }
    }

    func run() {
        var tokens = [UInt64](repeating: 0, count: 128)
        var ready = [UInt8](repeating: 0, count: 128)
        var jobs: [UnownedJob] = []
        var woken: [Waiter<Void>] = []
        while let next = runJobs(&jobs) {
            let count = unsafe kith_reactor_wait(reactor, &tokens, &ready, 128, next == .sleep ? 1 : 0)
            state.withLock { state in
                state.isAwake = true
                for index in 0..<Int(max(count, 0)) where tokens[index] != 0 {
                    received(ready[index], of: tokens[index], &state, &woken)
                }
            }
            for waiter in woken { waiter.resume() }
            woken.removeAll(keepingCapacity: true)
        }
    }

    private enum Next {
        case sleep, look
    }

    /// Runs what is to be run, and what that brings; returns how to look at the descriptors then, `nil` at the end.
    private func runJobs(_ jobs: inout [UnownedJob]) -> Next? {
        var count = 0
        while count < Self.jobLimit {
            let isStopping = state.withLock { state in
                swap(&state.jobs, &jobs)
                if jobs.isEmpty { state.isAwake = false }
                return state.isStopping
            }
            if jobs.isEmpty { return isStopping ? nil : .sleep }
            for job in jobs { unsafe job.runSynchronously(on: asUnownedTaskExecutor()) }
            count += jobs.count
            jobs.removeAll(keepingCapacity: true)
        }
        return .look
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
            kith_reactor_wake(reactor, wakeable)
        }
    }
}
