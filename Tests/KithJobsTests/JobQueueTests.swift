import Foundation
import KithTesting
import KithWire
import Logging
import Testing

@testable import KithJobs

@Suite struct JobQueueTests {
    let folder: TemporaryFolder
    var path: String { folder.path + "/jobs.sqlite" }
    var file: String { folder.path + "/numbers" }
    let time = ManualTime()

    init() throws { folder = try TemporaryFolder() }

    func queue(_ kinds: [any JobKind] = [Counting()], limit: Int = 2) throws -> JobQueue {
        try JobQueue(
            path: path, kinds: kinds, limit: limit, logger: Logger(label: "test"),
            now: { [time] in Int64(time.seconds) }, elapsed: { [time] in time.seconds })
    }

    private func numbers() throws -> Int {
        try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n").count
    }

    @Test func `a job runs to its end, and says what it did`() async throws {
        let queue = try queue()
        let id = try await queue.add(Counting(), .init(path: file, count: 3))
        #expect(try await queue.job(id).state == .queued, "nothing runs before the start")
        try await queue.start()
        #expect(try await queue.result(of: id, Counting.self) == 3)
        let job = try await queue.job(id)
        #expect(job.state == .done && job.progress.completed == 3 && job.progress.fraction == 1)
        #expect(job.title == "count to 3" && job.started == 1_000_000 && job.ended == 1_000_000)
        #expect(try await queue.log(of: id).map(\.text) == ["begins"])
        #expect(try numbers() == 3)
        #expect(try folder.mode(of: "jobs.sqlite") == 0o600)
        await #expect(throws: KithError(.conflict, "")) { try await queue.cancel(id) }
        await #expect(throws: KithError(.notFound, "")) { try await queue.pause(JobID()) }
        await queue.stop()
    }

    @Test func `a service that comes after the queue was opened has its jobs run, too`() async throws {
        let board = JobBoard(path: path, logger: Logger(label: "test"))
        // Another service's job, before this one tells its kinds.
        _ = try await board.queue().list()
        board.register([Counting()])
        let queue = try await board.start()
        let id = try await queue.add(Counting(), .init(path: file, count: 2))
        #expect(try await queue.result(of: id, Counting.self) == 2)
        await board.stop()
    }

    @Test func `the higher priority goes first, and one kind runs one job at a time`() async throws {
        let gate = Gate()
        let queue = try queue([Counting(gate: gate)], limit: 4)
        let kind = Counting(gate: gate)
        let low = try await queue.add(kind, .init(path: file + "1", count: 1), priority: .low)
        let normal = try await queue.add(kind, .init(path: file + "2", count: 1))
        let high = try await queue.add(kind, .init(path: file + "3", count: 1), priority: .high)
        try await queue.start()
        for (running, waiting) in [(high, [normal, low]), (normal, [low]), (low, [])] {
            #expect(try await queue.job(running).state == .running)
            for id in waiting { #expect(try await queue.job(id).state == .queued) }
            gate.open()
            _ = try await queue.result(of: running, Counting.self)
        }
        await queue.stop()
    }

    @Test func `a pause survives a restart, and the job goes on from its last checkpoint`() async throws {
        let gate = Gate()
        let first = try queue([Counting(gate: gate)])
        try await first.start()
        let id = try await first.add(Counting(), .init(path: file, count: 3))
        gate.open()
        try await eventually { try await first.job(id).progress.completed == 1 }
        try await first.pause(id)
        await first.untilIdle()
        #expect(try await first.job(id).state == .paused)
        await first.stop()
        let second = try queue()
        try await second.start()
        await second.untilIdle()
        #expect(try await second.job(id).state == .paused)
        #expect(try numbers() == 1)
        try await second.resume(id)
        #expect(try await second.result(of: id, Counting.self) == 3)
        #expect(try await second.log(of: id).map(\.text) == ["begins"], "it began once")
        await second.stop()
    }

    @Test func `what runs when the queue stops goes on with the next one`() async throws {
        let gate = Gate()
        let first = try queue([Counting(gate: gate)])
        try await first.start()
        let id = try await first.add(Counting(), .init(path: file, count: 3))
        gate.open(2)
        try await eventually { try await first.job(id).progress.completed == 2 }
        await first.stop()
        let second = try queue()
        #expect(try await second.job(id).state == .queued)
        #expect(try await second.job(id).progress.completed == 2)
        #expect(try await second.job(id).attempts == 0, "a stop in peace is no failed attempt")
        try await second.start()
        await second.untilIdle()
        #expect(try await second.output(of: id, Counting.self) == 3)
        await second.stop()
    }

    @Test func `a resume while the pause takes effect ends well`() async throws {
        let gate = Gate()
        let queue = try queue([Counting(gate: gate)])
        try await queue.start()
        let id = try await queue.add(Counting(), .init(path: file, count: 2))
        gate.open()
        try await eventually { try await queue.job(id).progress.completed == 1 }
        for _ in 0..<20 {
            try await queue.pause(id)
            try await queue.resume(id)
        }
        gate.open(5)
        await queue.untilIdle()
        #expect(try await queue.output(of: id, Counting.self) == 2)
        await queue.stop()
    }

    @Test func `cancelled is for good, and what was left behind is put away`() async throws {
        let gate = Gate()
        let queue = try queue([Counting(gate: gate)])
        try await queue.start()
        let id = try await queue.add(Counting(), .init(path: file, count: 3))
        let waiting = try await queue.add(Counting(), .init(path: file + "2", count: 3))
        gate.open()
        try await eventually { try await queue.job(id).progress.completed == 1 }
        #expect(FileManager.default.fileExists(atPath: file))
        try await queue.cancel(waiting)
        try await queue.cancel(id)
        try await queue.cancel(id)
        await queue.untilIdle()
        #expect(!FileManager.default.fileExists(atPath: file))
        for id in [id, waiting] {
            #expect(try await queue.job(id).state == .cancelled)
            await #expect(throws: KithError(.conflict, "")) { try await queue.resume(id) }
            await #expect(throws: KithError(.cancelled, "")) { try await queue.output(of: id, Counting.self) }
        }
        await queue.stop()
    }

    @Test func `a failure is said, and can be tried again`() async throws {
        let queue = try queue()
        try await queue.start()
        let id = try await queue.add(Counting(), .init(path: file, count: 3, failsAt: 2))
        await #expect(throws: KithError(.denied, "")) { try await queue.result(of: id, Counting.self) }
        let job = try await queue.job(id)
        #expect(job.state == .failed && job.failure == JobFailure(code: .denied, message: "No 2."))
        #expect(try await queue.log(of: id).map(\.text) == ["begins", "No 2."])
        try await queue.resume(id)
        #expect(try await queue.result(of: id, Counting.self) == 3)
        #expect(try await queue.job(id).failure == nil)
        await queue.stop()
    }

    @Test func `one topic has one job that has not ended`() async throws {
        let queue = try queue()
        let input = Counting.Input(path: file, count: 1)
        let id = try await queue.add(Counting(), input, topic: "a")
        #expect(try await queue.add(Counting(), input, topic: "a") == id)
        #expect(try await queue.add(Counting(), input, topic: "b") != id)
        #expect(try await queue.add(Counting(), input) != id)
        try await queue.start()
        await queue.untilIdle()
        #expect(try await queue.add(Counting(), input, topic: "a") != id)
        await queue.stop()
    }

    @Test func `a job of another version stays, and is named as such`() async throws {
        let later = try queue([LaterCounting()])
        let id = try await later.add(LaterCounting(), "x")
        await later.stop()
        let queue = try queue()
        try await queue.start()
        await queue.untilIdle()
        let job = try await queue.job(id)
        #expect(job.state == .queued && !job.isKnown)
        await queue.stop()
        let again = try self.queue([LaterCounting()])
        try await again.start()
        #expect(try await again.result(of: id, LaterCounting.self) == "x")
        await again.stop()
    }

    @Test func `two processes do not run the same jobs`() async throws {
        let queue = try queue()
        #expect(throws: KithError(.conflict, "")) { _ = try self.queue() }
        await queue.stop()
        await (try self.queue()).stop()
    }

    @Test func `history, logs, what waits and values are bounded`() async throws {
        let queue = try queue()
        try await queue.start()
        let old = try await queue.add(Counting(), .init(path: file, count: 0))
        _ = try await queue.result(of: old, Counting.self)
        for _ in 0..<1_500 { await queue.log(String(repeating: "ä", count: 900), of: old) }
        let lines = try await queue.log(of: old)
        #expect(lines.count == 1_000 && lines.allSatisfy { $0.text.utf8.count == 1_000 })
        time.advance(by: 31 * 86_400)
        for _ in 0..<250 { _ = try await queue.add(Counting(), .init(path: file, count: 0)) }
        await queue.untilIdle()
        #expect(try await queue.list().count == 200)
        await #expect(throws: KithError(.notFound, "")) { try await queue.job(old) }
        await #expect(throws: KithError(.exhausted, "")) {
            try await queue.add(Counting(), .init(path: String(repeating: "x", count: 9 << 20), count: 0))
        }
        await queue.stop()
        let idle = try self.queue()
        for _ in 0..<1_000 { _ = try await idle.add(Counting(), .init(path: file, count: 0)) }
        await #expect(throws: KithError(.exhausted, "")) {
            try await idle.add(Counting(), .init(path: file, count: 0))
        }
        await idle.stop()
    }

    @Test func `who follows slowly sees the newest only`() async throws {
        let queue = try queue()
        let events = await queue.follow()
        let id = try await queue.add(Counting(), .init(path: file, count: 100))
        try await queue.start()
        await queue.untilIdle()
        var iterator = events.makeAsyncIterator()
        guard case .changed(let job)? = await iterator.next() else {
            Issue.record("no event")
            return
        }
        #expect(job.id == id && job.state == .done && job.progress.completed == 100)
        await queue.stop()
        #expect(await iterator.next() == nil)
    }
}

@Suite struct JobSpeedTests {
    @Test func `a steady job has its rate at once, and keeps it`() throws {
        var speed = JobSpeed()
        #expect(speed.pace(at: 0) == nil)
        for second in 0...60 {
            speed.note(
                JobProgress(completed: UInt64(second * 10), total: 1_000, bytes: UInt64(second) << 20),
                at: Double(second))
            guard second > 0 else { continue }
            let pace = try #require(speed.pace(at: Double(second)))
            #expect(abs(pace.rate - 10) < 0.001 && abs(pace.byteRate - Double(1 << 20)) < 1)
            #expect(abs(try #require(pace.remaining) - Double(1_000 - second * 10) / 10) < 0.01)
        }
    }

    @Test func `many reports at once count as one`() throws {
        var speed = JobSpeed()
        for step in 0...10_000 { speed.note(JobProgress(completed: UInt64(step)), at: Double(step) / 1_000) }
        #expect(abs(try #require(speed.pace(at: 10)).rate - 1_000) < 1)
    }

    @Test func `a change of speed shows within half a minute, a stall as well`() throws {
        var speed = JobSpeed()
        var done: UInt64 = 0
        for second in 0...60 {
            speed.note(JobProgress(bytes: done, totalBytes: 100_000), at: Double(second))
            done += second < 30 ? 1_000 : 100
        }
        #expect(abs(try #require(speed.pace(at: 60)).byteRate - 145) < 10)
        let stalled = try #require(speed.pace(at: 120))
        let remaining = try #require(stalled.remaining)
        #expect(stalled.byteRate < 1 && remaining > 10_000)
    }

    @Test func `a new phase, or a step back, begins anew`() throws {
        var speed = JobSpeed()
        speed.note(JobProgress(phase: "a", completed: 0), at: 0)
        speed.note(JobProgress(phase: "a", completed: 1_000), at: 1)
        speed.note(JobProgress(phase: "b", completed: 0), at: 1)
        #expect(speed.pace(at: 1) == nil)
        speed.note(JobProgress(phase: "b", completed: 5), at: 2)
        #expect(abs(try #require(speed.pace(at: 2)).rate - 5) < 0.01)
        speed.note(JobProgress(phase: "b", completed: 4), at: 3)
        #expect(speed.pace(at: 3) == nil)
    }

    @Test func `the greatest numbers are no trap`() throws {
        var speed = JobSpeed()
        let most = UInt64.max
        speed.note(JobProgress(), at: 0)
        speed.note(JobProgress(completed: most, total: 1, bytes: most, totalBytes: 1), at: 1)
        #expect(try #require(speed.pace(at: 1)).remaining == 0)
        #expect(JobProgress(completed: most, total: 1).fraction == 1)
    }
}
