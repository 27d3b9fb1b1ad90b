import Foundation
import KithAPI
import KithJobs
import KithNode
import KithWire
import Logging

/// The jobs of the device: the methods that list them and say what becomes of them.
extension LibraryService {
    var jobsHandlers: [Handler] {
        [
            .call(Jobs.List.self) { input, _ in try await self.listJobs(input) },
            .call(Jobs.Get.self) { input, _ in
                let queue = try await self.jobs.queue()
                let id = try await Self.job(input.id, in: queue)
                return Jobs.Get.Output(
                    job: Self.described(try await queue.job(id)), log: Self.log(try await queue.log(of: id)))
            },
            .call(Jobs.Pause.self) { input, _ in try await self.change(input) { try await $0.pause($1) } },
            .call(Jobs.Resume.self) { input, _ in try await self.change(input) { try await $0.resume($1) } },
            .call(Jobs.Cancel.self) { input, _ in try await self.change(input) { try await $0.cancel($1) } },
            .stream(Jobs.Follow.self) { input, _, pending in try await self.follow(input, pending) }.endingAtShutdown(),
        ]
    }

    /// Goes on with what was to be done, where this device is up; nothing when there was no job yet.
    func startJobs() async {
        guard keepsUp, await jobs.isThere else { return }
        do { try await jobs.start() } catch {
            logger.error("The jobs do not run.", metadata: ["error": "\(error)"])
        }
    }

    /// The job with an id, or its beginning.
    ///
    /// - Throws: `.invalid`, `.notFound`; `.conflict` when several begin so.
    static func job(_ text: String, in queue: JobQueue) async throws(KithError) -> JobID {
        if text.utf8.count == 36, let id = JobID(uuidString: text) { return try await queue.job(id).id }
        let beginning = text.lowercased()
        guard (1...36).contains(beginning.utf8.count), beginning.allSatisfy({ $0.isHexDigit || $0 == "-" }) else {
            throw KithError(.invalid, "\(text.prefix(bytes: 60)) is not the id of a job, nor its beginning.")
        }
        let found = try await queue.list().map(\.id).filter { $0.uuidString.lowercased().hasPrefix(beginning) }
        guard let id = found.first else {
            throw KithError(.notFound, "There is no job \(beginning). `kith jobs` lists them.")
        }
        guard found.count == 1 else {
            throw KithError(.conflict, "\(found.count) jobs have ids that begin with \(beginning). Say more of it.")
        }
        return id
    }

    static func described(_ job: JobRecord) -> Jobs.Job {
        let progress = job.progress
        return Jobs.Job(
            id: job.id.uuidString.lowercased(), number: job.number, kind: job.kind, isKnown: job.isKnown,
            title: job.title, state: Jobs.State(job.state),
            progress: Jobs.Progress(
                phase: progress.phase, completed: progress.completed, total: progress.total, bytes: progress.bytes,
                totalBytes: progress.totalBytes, current: progress.current, rate: job.pace?.rate,
                byteRate: job.pace?.byteRate, remaining: job.pace?.remaining), created: job.created,
            started: job.started, ended: job.ended, code: job.failure?.code.rawValue, error: job.failure?.message)
    }

    /// The last lines that fit an answer.
    private static func log(_ lines: [JobLogLine]) -> [Jobs.Get.LogLine] {
        var (kept, bytes) = ([Jobs.Get.LogLine](), 0)
        for line in lines.reversed() {
            bytes += line.text.utf8.count + 40
            if bytes > answerLimit { break }
            kept.append(Jobs.Get.LogLine(time: line.time, text: line.text))
        }
        return kept.reversed()
    }

    private func listJobs(_ input: Jobs.List.Input) async throws -> Jobs.List.Output {
        let limit = input.limit ?? 100
        guard limit > 0 else { throw KithError(.invalid, "`limit` must be 1 or more; at most 100 jobs come.") }
        let states = input.states.map(Set.init)
        let all = try await jobs.queue().list().reversed().map(Self.described).filter { job in
            (states?.contains(job.state) ?? true) && input.before.map { job.number < $0 } ?? true
        }
        let page = Array(all.prefix(min(limit, 100)))
        return Jobs.List.Output(jobs: page, next: all.count > page.count ? page.last?.number : nil)
    }

    private func change(
        _ input: Jobs.Reference, _ body: (JobQueue, JobID) async throws -> Void
    ) async throws -> Jobs.Job {
        let queue = try await jobs.queue()
        let id = try await Self.job(input.id, in: queue)
        try await body(queue, id)
        return Self.described(try await queue.job(id))
    }

    private func follow(_ input: Jobs.Follow.Input, _ pending: PendingStream<Jobs.Follow>) async throws {
        let queue = try await input.runs == true ? jobs.start() : jobs.queue()
        var only: JobID?
        if let id = input.id { only = try await Self.job(id, in: queue) }
        let events = await queue.follow(every: .milliseconds(100))
        var left = Set(try await queue.list().map(\.id))
        let stream = try await pending.accept()
        if left.isEmpty { try await stream.send(Jobs.Follow.Change(isCurrent: true)) }
        for await event in events {
            let id: JobID
            switch event {
            case .changed(let job):
                id = job.id
                if only == nil || only == id {
                    try await stream.send(Jobs.Follow.Change(job: Self.described(job)))
                }
            case .removed(let removed):
                id = removed
                if only == nil || only == id {
                    try await stream.send(Jobs.Follow.Change(removed: id.uuidString.lowercased()))
                }
            }
            if left.remove(id) != nil, left.isEmpty { try await stream.send(Jobs.Follow.Change(isCurrent: true)) }
        }
        try await stream.finish()
    }
}

extension Jobs.State {
    init(_ state: JobState) {
        self =
            switch state {
            case .queued: .queued
            case .running: .running
            case .paused: .paused
            case .cancelled: .cancelled
            case .failed: .failed
            case .done: .done
            }
    }
}
