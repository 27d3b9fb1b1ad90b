import Foundation
import KithIO
package import KithWire
package import Logging
import Synchronization

/// Jobs that outlive the process: they wait, run some at a time, and go on from their last checkpoint after a crash.
///
/// They lie in a database of their own, which one process has open at a time. Nothing runs before ``start()``.
package actor JobQueue {
    /// The attempts at one place after which a job that ends the process each time has failed.
    package static let attemptLimit = 3

    /// A job that runs.
    private struct Run {
        let number: Int64
        let kind: String
        let link: JobLink
        let task: Task<Void, Never>
    }

    private let store: JobStore
    private let kinds: JobKinds
    private let limit: Int
    private let logger: Logger
    private let now: @Sendable () -> Int64
    private let elapsed: @Sendable () -> Double
    private let hooks: JobHooks
    private let executor = JobExecutor()
    /// For the work of the jobs.
    private let disk = DiskExecutor()
    private let followers = JobFollowers()
    private var running: [JobID: Run] = [:]
    /// The jobs whose leftovers are being put away.
    private var cleaning: [JobID: Task<Void, Never>] = [:]
    private var isStarted = false
    private var waiting: [Promise<Void>] = []

    /// The thread of the queue itself: its database blocks.
    package nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe executor.asUnownedSerialExecutor() }

    /// Opens a queue, making it when it is not there.
    ///
    /// - Parameters:
    ///   - path: Where its database is.
    ///   - kinds: The kinds of job it can run; those of other kinds stay where they are.
    ///   - limit: The most jobs at a time.
    ///   - logger: Told what a person is not.
    ///   - now: The time in seconds since 1970.
    ///   - elapsed: The seconds since any moment, for rates.
    ///   - hooks: Called at the places at which a test may want to kill the process.
    /// - Throws: `.conflict` when another process has it open, `.corrupt` when it is damaged or was written by a later
    ///   version; what the disk says.
    package init(
        path: String, kinds: [any JobKind], limit: Int = 2, logger: Logger,
        now: @escaping @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970) },
        elapsed: (@Sendable () -> Double)? = nil, hooks: JobHooks = JobHooks()
    ) throws(KithError) {
        let known = JobKinds()
        known.add(kinds)
        try self.init(
            path: path, sharing: known, limit: limit, logger: logger, now: now, elapsed: elapsed, hooks: hooks)
    }

    /// Opens a queue that knows the kinds added to `kinds` by then.
    init(
        path: String, sharing kinds: JobKinds, limit: Int = 2, logger: Logger,
        now: @escaping @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970) },
        elapsed: (@Sendable () -> Double)? = nil, hooks: JobHooks = JobHooks()
    ) throws(KithError) {
        store = try JobStore(path: path)
        self.kinds = kinds
        self.limit = max(limit, 1)
        self.logger = logger
        self.now = now
        self.hooks = hooks
        let origin = ContinuousClock.now
        self.elapsed = elapsed ?? { (ContinuousClock.now - origin) / .seconds(1) }
    }

    // MARK: - Life

    /// Begins to run what waits, and what was running when the process ended; what a person paused stays so.
    package func start() throws(KithError) {
        guard !isStarted else { return }
        for job in try store.all() where job.state == .running {
            if job.attempts >= Self.attemptLimit {
                try fail(
                    job,
                    KithError(
                        .internal,
                        "It was running \(job.attempts) times when this program was killed, at the same place each time. `kith jobs resume` tries it again."
                    ))
            } else {
                try store.log(
                    "The program was killed; the job goes on from where it was stored last.", of: job.id, now: now())
                try store.set(.queued, of: job.number, keepsAttempts: true)
            }
            followers.note(job.id)
        }
        isStarted = true
        for job in try store.all() where job.isCleaning { try clean(job) }
        try prune()
        schedule()
    }

    /// Ends what runs at its last checkpoint, to go on with the next ``start()``, and closes the database.
    ///
    /// A job that waits for a disk which does not answer is left after `patience`; what it still does changes nothing here.
    package func stop(within patience: Duration = .seconds(5)) async {
        isStarted = false
        followers.close()
        let tasks = running.values.map(\.task) + cleaning.values
        for run in running.values { run.link.interrupt() }
        for task in tasks { task.cancel() }
        if await !Self.areDone(tasks, within: patience) {
            logger.error("A job does not end: it waits for a disk that does not answer. It goes on from its last step.")
        }
        for promise in waiting { promise.fulfil(()) }
        waiting = []
        do { try store.close() } catch {
            logger.error("The jobs' database could not be closed.", metadata: ["error": "\(error)"])
        }
    }

    /// Waits for tasks to end, and no longer than that; false when one goes on.
    private static func areDone(_ tasks: [Task<Void, Never>], within patience: Duration) async -> Bool {
        let promise = Promise<Bool>()
        // Not a part of this task: one of them may never end.
        let waiting = Task(name: "kith jobs end") {
            for task in tasks { await task.value }
            promise.fulfil(true)
        }
        let timer = Task {
            try await Task.sleep(for: patience)
            promise.fulfil(false)
        }
        defer {
            waiting.cancel()
            timer.cancel()
        }
        return await promise.value()
    }

    /// Waits until no job runs, and none is left that could.
    package func untilIdle() async {
        guard !isIdle else { return }
        let promise = Promise<Void>()
        waiting.append(promise)
        await promise.value()
    }

    private var isIdle: Bool {
        guard running.isEmpty, cleaning.isEmpty else { return false }
        guard isStarted else { return true }
        do throws(KithError) { return try !store.queued().contains(where: isKnown) } catch {
            logger.error("The jobs cannot be read.", metadata: ["error": "\(error)"])
            return true
        }
    }

    // MARK: - Jobs

    /// Adds a job, which runs when its turn comes.
    ///
    /// As long as one of the same kind and `topic` has not ended, no other is added.
    ///
    /// - Returns: the job, or that which is there already.
    /// - Throws: `.exhausted` when 1,000 wait already, or the input has more than 8 MiB.
    package func add<Kind: JobKind>(
        _ kind: Kind, _ input: Kind.Input, priority: JobPriority = .normal, topic: String? = nil
    ) throws(KithError) -> JobID {
        precondition(kinds[Kind.name] != nil, "a job of the kind \(Kind.name), which this queue does not know")
        let data = try JobCoding.encode(input, "the input")
        let added = try store.add(
            kind: Kind.name, version: Kind.versions.upperBound, title: kind.title(of: input), topic: topic,
            priority: priority, input: data, now: now())
        if added.isNew {
            followers.note(added.id)
            schedule()
        }
        return added.id
    }

    /// The jobs in the order in which they were added; of those that have ended, the last 200 of the last 30 days.
    package func list() throws(KithError) -> [JobRecord] { try store.all().map(record) }

    /// One of them.
    ///
    /// - Throws: `.notFound`.
    package func job(_ id: JobID) throws(KithError) -> JobRecord { record(try store.job(id)) }

    /// True when a job of a kind and topic has not ended.
    package func hasOpenJob<Kind: JobKind>(_ kind: Kind.Type, topic: String) throws(KithError) -> Bool {
        try store.hasOpenJob(Kind.name, topic)
    }

    /// The last 1,000 lines of its log.
    ///
    /// - Throws: `.notFound`.
    package func log(of id: JobID) throws(KithError) -> [JobLogLine] { try store.log(of: try store.job(id).number) }

    /// The result of a job that has ended.
    ///
    /// - Throws: `.notFound`; `.conflict` when it has not ended, `.cancelled`, or why it failed; `.invalid` for a job of
    ///   another kind.
    package func output<Kind: JobKind>(of id: JobID, _ kind: Kind.Type) throws(KithError) -> Kind.Output {
        let job = try store.job(id)
        guard job.kind == Kind.name else { throw KithError(.invalid, "Job \(shortName(id)) is of another kind.") }
        switch job.state {
        case .done: break
        case .failed: throw job.failure?.error ?? KithError(.internal, "Job \(shortName(id)) failed.")
        case .cancelled: throw KithError(.cancelled, "Job \(shortName(id)) was cancelled.")
        case .queued, .running, .paused:
            throw KithError(.conflict, "Job \(shortName(id)) has not ended: it is \(job.state.rawValue).")
        }
        guard let data = try store.output(of: job.number) else {
            throw KithError(.corrupt, "The result of job \(shortName(id)) is not there.")
        }
        return try JobCoding.decode(Kind.Output.self, data)
    }

    /// Waits until a job has ended, and returns its result.
    ///
    /// - Throws: as ``output(of:_:)``, and `.conflict` when it was paused, `.closed` when the queue stops.
    package func result<Kind: JobKind>(of id: JobID, _ kind: Kind.Type) async throws -> Kind.Output {
        let changes = follow()
        for await event in changes {
            switch event {
            case .changed(let job) where job.id == id && (job.state.isFinal || job.state == .paused):
                return try output(of: id, kind)
            case .removed(id): throw KithError(.notFound, "There is no job \(shortName(id)).")
            default: break
            }
        }
        try Task.checkCancellation()
        throw KithError(.closed, "This device stops; job \(shortName(id)) goes on when it starts again.")
    }

    /// Halts a job at its last checkpoint until it is resumed, over restarts, too.
    ///
    /// - Throws: `.notFound`; `.conflict` when it has ended.
    package func pause(_ id: JobID) throws(KithError) {
        let job = try store.job(id)
        switch job.state {
        case .paused: return
        case .queued, .running:
            try store.set(.paused, of: job.number)
            interrupt(id)
            changed(id)
        case .cancelled, .failed, .done: throw ended(job, "paused")
        }
    }

    /// Lets a job that was paused, or has failed, go on from its last checkpoint.
    ///
    /// - Throws: `.notFound`; `.conflict` when it is done or was cancelled.
    package func resume(_ id: JobID) throws(KithError) {
        let job = try store.job(id)
        switch job.state {
        case .queued, .running: return
        case .paused, .failed:
            try store.set(.queued, of: job.number)
            changed(id)
            schedule()
        case .cancelled, .done: throw ended(job, "resumed")
        }
    }

    /// Ends a job for good.
    ///
    /// - Throws: `.notFound`; `.conflict` when it has ended otherwise.
    package func cancel(_ id: JobID) throws(KithError) {
        let job = try store.job(id)
        switch job.state {
        case .cancelled: return
        case .queued, .running, .paused, .failed:
            try store.end(
                job.number, as: .cancelled, isCleaning: job.started != nil, progress: running[id]?.link.live.progress,
                now: now())
            interrupt(id)
            changed(id)
            if running[id] == nil {
                if job.started != nil { try clean(try store.job(id)) }
                try prune()
            }
            wakeIdle()
        case .done: throw ended(job, "cancelled")
        }
    }

    /// Has a job get its turn before others, or after them.
    ///
    /// - Throws: `.notFound`; `.conflict` when it has ended.
    package func setPriority(_ priority: JobPriority, of id: JobID) throws(KithError) {
        let job = try store.job(id)
        guard !job.state.isFinal else { throw ended(job, "moved") }
        try store.setPriority(priority, of: job.number)
        changed(id)
    }

    private func ended(_ job: JobStore.Stored, _ what: String) -> KithError {
        KithError(.conflict, "Job \(shortName(job.id)) cannot be \(what): it is \(job.state.rawValue).")
    }

    private func shortName(_ id: JobID) -> String { String(id.uuidString.lowercased().prefix(8)) }

    // MARK: - Following

    /// Each job once, then each that changes: the newest of it, however often it changed meanwhile.
    ///
    /// What changes within `interval` of what was told last comes together.
    package func follow(every interval: Duration = .zero) -> AsyncStream<JobEvent> {
        let (number, signals) = followers.add()
        do throws(KithError) { for job in try store.all() { followers.note(job.id) } } catch {
            logger.error("The jobs cannot be read.", metadata: ["error": "\(error)"])
            followers.remove(number)
        }
        let reader = JobReader(signals: signals, number: number, queue: self, interval: interval)
        return AsyncStream {
            await reader.next()
        } onCancel: { [followers] in
            followers.remove(number)
        }
    }

    /// What changed for a follower.
    fileprivate func take(_ number: Int) -> [JobEvent] {
        followers.take(number).compactMap { id in
            do throws(KithError) { return .changed(record(try store.job(id))) } catch {
                return error.code == .notFound ? .removed(id) : nil
            }
        }
    }

    nonisolated fileprivate func leave(_ number: Int) { followers.remove(number) }

    private func record(_ job: JobStore.Stored) -> JobRecord {
        let live = running[job.id]?.link.live
        return JobRecord(
            id: job.id, number: job.number, kind: job.kind, isKnown: isKnown(job), title: job.title, state: job.state,
            priority: job.priority, attempts: job.attempts, progress: live?.progress ?? job.progress,
            pace: job.state == .running ? live?.pace : nil, created: job.created, started: job.started,
            ended: job.ended,
            failure: job.failure)
    }

    private func isKnown(_ job: JobStore.Stored) -> Bool {
        kinds[job.kind].map { $0.versions.contains(job.version) } ?? false
    }

    private func changed(_ id: JobID) { followers.note(id) }

    // MARK: - Running

    private func interrupt(_ id: JobID) {
        running[id]?.link.interrupt()
        running[id]?.task.cancel()
    }

    /// Begins what may run now.
    private func schedule() {
        guard isStarted else { return }
        do throws(KithError) {
            for job in try store.queued() {
                guard running.count < limit else { break }
                guard running[job.id] == nil, isKnown(job), let kind = kinds[job.kind],
                    running.values.count(where: { $0.kind == job.kind }) < kind.limit
                else { continue }
                try begin(job, kind)
            }
        } catch {
            logger.error("Jobs cannot be begun.", metadata: ["error": "\(error)"])
        }
        wakeIdle()
    }

    private func wakeIdle() {
        guard !waiting.isEmpty, isIdle else { return }
        for promise in waiting { promise.fulfil(()) }
        waiting = []
    }

    private func begin(_ job: JobStore.Stored, _ kind: AnyJobKind) throws(KithError) {
        let (input, cursor) = try store.work(of: job.number)
        try store.begin(job.number, now: now())
        let link = link(of: job)
        let task = Task.detached(executorPreference: disk) { [weak self] in
            let result: Result<Data, any Error>
            do { result = .success(try await kind.run(input, cursor, link)) } catch { result = .failure(error) }
            await self?.ended(link, job.number, result)
        }
        running[job.id] = Run(number: job.number, kind: job.kind, link: link, task: task)
        changed(job.id)
    }

    private func link(of job: JobStore.Stored) -> JobLink {
        JobLink(id: job.id, progress: job.progress, queue: self, followers: followers, elapsed: elapsed)
    }

    /// Stores a checkpoint of a job that runs.
    func store(_ cursor: Data, _ progress: JobProgress, of id: JobID) throws(KithError) {
        hooks.reach(.beforeCheckpoint)
        try store.checkpoint(cursor, progress, of: id)
        hooks.reach(.afterCheckpoint)
    }

    /// Adds a line to the log of a job.
    func log(_ line: String, of id: JobID) {
        do throws(KithError) { try store.log(line, of: id, now: now()) } catch {
            logger.error("A job's log cannot be written.", metadata: ["error": "\(error)"])
        }
    }

    private func ended(_ link: JobLink, _ number: Int64, _ result: Result<Data, any Error>) {
        let id = link.id
        defer {
            running[id] = nil
            changed(id)
            schedule()
        }
        do throws(KithError) {
            let job = try store.job(id)
            guard job.state != .cancelled else {
                running[id] = nil
                return try clean(job)
            }
            switch result {
            case .success(let output):
                hooks.reach(.beforeEnd)
                try store.end(number, as: .done, output: output, progress: link.live.progress, now: now())
                hooks.reach(.afterEnd)
                try prune()
            case .failure where link.isInterrupted:
                // Paused, or resumed since: as it is stored. Else the process ends in peace.
                if job.state == .running { try store.set(.queued, of: number) }
            case .failure(let error):
                logger.notice("A job failed.", metadata: ["job": "\(job.title)", "error": "\(error)"])
                try fail(
                    job, error as? KithError ?? KithError(.internal, "It failed: \(error)", cause: error),
                    link.live.progress)
            }
        } catch {
            logger.error("The end of a job cannot be stored.", metadata: ["error": "\(error)"])
        }
    }

    private func fail(
        _ job: JobStore.Stored, _ error: KithError, _ progress: JobProgress? = nil
    ) throws(KithError) {
        try store.log(error.message, of: job.id, now: now())
        try store.end(
            job.number, as: .failed, failure: JobFailure(code: error.code, message: error.message), progress: progress,
            now: now())
        changed(job.id)
        try prune()
    }

    private func prune() throws(KithError) { for id in try store.prune(now: now()) { changed(id) } }

    /// Has a job that was cancelled put away what it left behind.
    private func clean(_ job: JobStore.Stored) throws(KithError) {
        guard isStarted, job.isCleaning, cleaning[job.id] == nil, isKnown(job), let kind = kinds[job.kind] else {
            return
        }
        guard job.attempts < Self.attemptLimit else {
            try store.log(
                "What is left of it could not be put away: each time the program was killed.", of: job.id, now: now())
            return try store.clean(job.number, isDone: true)
        }
        let (input, cursor) = try store.work(of: job.number)
        try store.clean(job.number, isDone: false)
        let link = link(of: job)
        cleaning[job.id] = Task.detached(executorPreference: disk) { [weak self] in
            var failure: (any Error)?
            do { try await kind.cleanUp(input, cursor, link) } catch { failure = error }
            await self?.cleaned(job, failure)
        }
    }

    private func cleaned(_ job: JobStore.Stored, _ failure: (any Error)?) {
        cleaning[job.id] = nil
        // Whoever stops it meanwhile has it done again.
        if isStarted || failure == nil {
            do throws(KithError) {
                if let failure {
                    try store.log("What is left of it could not be put away: \(failure)", of: job.id, now: now())
                }
                hooks.reach(.beforeEnd)
                try store.clean(job.number, isDone: true)
                hooks.reach(.afterEnd)
            } catch {
                logger.error("The end of a job cannot be stored.", metadata: ["error": "\(error)"])
            }
        }
        wakeIdle()
    }
}

/// Reads the changes of a queue for one follower.
private actor JobReader {
    private var signals: AsyncStream<Void>.Iterator
    private let number: Int
    private let queue: JobQueue
    private let interval: Duration
    private var last: ContinuousClock.Instant?
    private var events: ArraySlice<JobEvent> = []

    init(signals: AsyncStream<Void>, number: Int, queue: JobQueue, interval: Duration) {
        self.interval = interval
        self.signals = signals.makeAsyncIterator()
        self.number = number
        self.queue = queue
    }

    func next() async -> JobEvent? {
        while events.isEmpty {
            var iterator = signals
            guard await iterator.next(isolation: self) != nil else { return nil }
            signals = iterator
            if let last, interval > .zero {
                // Cancelled, the signals end, too.
                do { try await Task.sleep(until: last + interval, clock: .continuous) } catch { return nil }
            }
            last = .now
            events = await queue.take(number)[...]
        }
        return events.popFirst()
    }
}

/// The places at which a process may be killed, for tests.
package struct JobHooks: Sendable {
    /// A place.
    package enum Place: Hashable, Sendable {
        /// The work is done, and not yet stored as done.
        case beforeCheckpoint
        /// It is stored.
        case afterCheckpoint
        /// The last of the work is done, and not yet stored as done.
        case beforeEnd
        /// The result is stored.
        case afterEnd
    }

    let reach: @Sendable (Place) -> Void

    package init(reach: @escaping @Sendable (Place) -> Void = { _ in }) { self.reach = reach }
}

/// One thread at a time, which may block.
private final class JobExecutor: SerialExecutor {
    private let queue = DispatchQueue(label: "kith.jobs", qos: .userInitiated)

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { unsafe job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }
}

/// The kinds of jobs that a queue knows; more may be added while it is open.
final class JobKinds: Sendable {
    private let kinds = Mutex<[String: AnyJobKind]>([:])

    func add(_ more: [any JobKind]) {
        kinds.withLock { kinds in
            for kind in more { kinds[type(of: kind).name] = AnyJobKind(kind) }
        }
    }

    subscript(name: String) -> AnyJobKind? { kinds.withLock { $0[name] } }
}
