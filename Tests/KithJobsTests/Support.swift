import Foundation
import KithIO
import KithJobs
import KithTesting
import KithWire
import Logging
import Synchronization

/// Appends numbers to a file, each once however often it is interrupted, with a checkpoint after each.
struct Counting: JobKind {
    struct Input: Codable, Sendable {
        var path: String
        var count: Int
        /// Where it throws, the first time in a process.
        var failsAt: Int?
        /// Where it kills the process, each time.
        var killsAt: Int?
    }

    typealias Cursor = Int

    static let name = "counting"
    /// Let one number through each; without it nothing waits.
    var gate: Gate?

    func title(of input: Input) -> String { "count to \(input.count)" }

    func run(_ job: JobRun<Counting>) async throws -> Int {
        let file = URL(fileURLWithPath: job.input.path)
        if job.cursor == nil { await job.log("begins") }
        for number in (job.cursor ?? 0)..<job.input.count {
            try await gate?.pass()
            if job.input.killsAt == number { kill(getpid(), SIGKILL) }
            if job.input.failsAt == number, job.cursor == nil { throw KithError(.denied, "No \(number).") }
            // What was written before it could be stored is written again.
            var lines = (0..<number).map { "\($0)" }
            lines.append("\(number)")
            try Data((lines.joined(separator: "\n") + "\n").utf8).write(to: file, options: .atomic)
            try await job.checkpoint(
                number + 1, JobProgress(phase: "count", completed: UInt64(number + 1), total: UInt64(job.input.count)))
        }
        return job.input.count
    }

    func cleanUp(after job: JobRun<Counting>) async throws {
        if FileManager.default.fileExists(atPath: job.input.path) {
            try FileManager.default.removeItem(atPath: job.input.path)
        }
    }
}

/// The same under another name, of a later version.
struct LaterCounting: JobKind {
    static let name = "counting"
    static let versions = 2...2

    func run(_ job: JobRun<LaterCounting>) async throws -> String {
        try await job.checkpoint(true, JobProgress())
        return job.input
    }

    typealias Input = String
    typealias Cursor = Bool
}

/// Work that waits for a test.
final class Gate: Sendable {
    private let semaphore = AsyncSemaphore(0)

    func open(_ times: Int = 1) { semaphore.add(times) }

    func pass() async throws { _ = try await semaphore.take() }
}

/// A time that a test moves.
final class ManualTime: Sendable {
    private let value = Mutex<Double>(1_000_000)
    var seconds: Double { value.withLock { $0 } }
    func advance(by seconds: Double) { value.withLock { $0 += seconds } }
}
