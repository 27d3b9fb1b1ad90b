import Foundation
import KithTesting
import KithWire
import Logging
import Testing

@testable import KithJobs

/// A process is killed at each place at which a queue stores something, and the next one goes on.
@Suite struct JobKillTests {
    @Test func `killed at any place, a job ends as if nothing had happened`() async throws {
        let whole = try TemporaryFolder()
        let places = try await JobKills.run(path: whole.path + "/jobs.sqlite", kinds: [Counting()]) { queue in
            _ = try await queue.add(Counting(), .init(path: whole.path + "/numbers", count: 3))
        }
        #expect(places == 8)
        for place in 1...places {
            let folder = try TemporaryFolder()
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [path = folder.path as String, place = place as Int] in
                try await JobKills.run(path: path + "/jobs.sqlite", kinds: [Counting()], killAt: place) { queue in
                    _ = try await queue.add(Counting(), .init(path: path + "/numbers", count: 3))
                }
            }
            try await JobKills.run(path: folder.path + "/jobs.sqlite", kinds: [Counting()]) { queue in
                await queue.untilIdle()
                let job = try #require(try await queue.list().first)
                #expect(job.state == .done && job.progress.completed == 3, "killed at \(place)")
                #expect(try await queue.output(of: job.id, Counting.self) == 3)
            }
            #expect(try folder.bytes("numbers") == whole.bytes("numbers"), "killed at \(place)")
        }
    }

    @Test func `killed while a cancelled job puts away its leftovers, the next process does`() async throws {
        for place in 1...2 {
            let folder = try TemporaryFolder()
            try await JobKills.run(path: folder.path + "/jobs.sqlite", kinds: [Counting()]) { queue in
                let id = try await queue.add(Counting(), .init(path: folder.path + "/numbers", count: 3, failsAt: 1))
                await #expect(throws: KithError.self) { try await queue.result(of: id, Counting.self) }
            }
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [path = folder.path as String, place = place as Int] in
                try await JobKills.run(path: path + "/jobs.sqlite", kinds: [Counting()], killAt: place) { queue in
                    for job in try await queue.list() { try await queue.cancel(job.id) }
                }
            }
            try await JobKills.run(path: folder.path + "/jobs.sqlite", kinds: [Counting()]) { queue in
                await queue.untilIdle()
                let states = try await queue.list().map(\.state)
                #expect(states == [.cancelled])
            }
            #expect(try folder.files() == ["jobs.sqlite"])
        }
    }

    @Test func `a job that kills the process three times at one place has failed, and can be tried again`() async throws
    {
        let folder = try TemporaryFolder()
        let path = folder.path
        for _ in 0..<3 {
            await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String] in
                try await JobKills.run(path: path + "/jobs.sqlite", kinds: [Counting()]) { queue in
                    _ = try await queue.add(
                        Counting(), .init(path: path + "/numbers", count: 3, killsAt: 1), topic: "x")
                }
            }
        }
        try await JobKills.run(path: path + "/jobs.sqlite", kinds: [Counting()]) { queue in
            let job = try #require(try await queue.list().first)
            #expect(job.state == .failed && job.failure?.message.contains("3 times") == true)
            #expect(job.progress.completed == 1, "what it had done is kept")
            #expect(try await queue.log(of: job.id).count == 4)
        }
        await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String] in
            try await JobKills.run(path: path + "/jobs.sqlite", kinds: [Counting()]) { queue in
                for job in try await queue.list() { try await queue.resume(job.id) }
            }
        }
    }

    @Test func `a person's pause survives a kill`() async throws {
        let folder = try TemporaryFolder()
        await #expect(processExitsWith: .signal(SIGKILL)) { [path = folder.path as String] in
            let gate = Gate()
            let queue = try JobQueue(
                path: path + "/jobs.sqlite", kinds: [Counting(gate: gate)], logger: Logger(label: "test"))
            try await queue.start()
            let id = try await queue.add(Counting(), .init(path: path + "/numbers", count: 3))
            gate.open()
            try await eventually { try await queue.job(id).progress.completed == 1 }
            try await queue.pause(id)
            kill(getpid(), SIGKILL)
        }
        try await JobKills.run(path: folder.path + "/jobs.sqlite", kinds: [Counting()]) { queue in
            await queue.untilIdle()
            let paused = try await queue.list()
            #expect(paused.map(\.state) == [.paused])
            for job in paused { try await queue.resume(job.id) }
            await queue.untilIdle()
            let ended = try await queue.list()
            #expect(ended.map(\.state) == [.done])
        }
    }
}
