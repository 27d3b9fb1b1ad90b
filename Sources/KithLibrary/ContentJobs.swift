import Foundation
import KithIO
package import KithIndex
import KithJobs
import KithWire
import Synchronization

/// The way from a job to the service whose library it is about.
final class LibraryReference: Sendable {
    private struct Weak { weak var service: LibraryService? }
    private let held = Mutex(Weak())

    var service: LibraryService? { held.withLock { $0.service } }

    func set(_ service: LibraryService) { held.withLock { $0.service = service } }

    /// The index of a library.
    ///
    /// - Throws: `.closed` when the device stops, `.notFound` when there is no such library.
    func index(_ library: String?) async throws(KithError) -> FileIndex {
        guard let service else { throw KithError(.closed, "This device stops.") }
        return try await service.ownKeeper(library).index()
    }
}

/// What a job that reads files has done until now.
package struct ContentReport: Codable, Hashable, Sendable {
    /// The most problems of one report.
    static let problemLimit = 1_000

    package var counts = ContentCounts()
    /// Some of the files with which something is wrong.
    package var problems: [ContentProblem] = []
    /// When it began, in seconds since 1970.
    package var began: Int64

    package init(began: Int64 = Int64(Date().timeIntervalSince1970)) { self.began = began }
}

/// The location that a job reads.
package struct ContentInput: Codable, Hashable, Sendable {
    package var library: String?
    package var location: Int64
    /// The name of the location, for a person.
    package var name: String
    package var depth: ContentDepth

    package init(library: String? = nil, location: Int64, name: String, depth: ContentDepth = .sampled) {
        self.library = library
        self.location = location
        self.name = name
        self.depth = depth
    }

    /// The topic of a job: one at a time for each location.
    var topic: String { "\(library ?? "") \(location)" }
}

/// Reads the files of a location whose content is not known.
struct IdentifyJob: JobKind {
    typealias Input = ContentInput
    typealias Cursor = ContentReport
    typealias Output = ContentReport

    static let name = "identify"
    private let owner: LibraryReference

    init(_ owner: LibraryReference) { self.owner = owner }

    func title(of input: ContentInput) -> String { "read what is in \(input.name)" }

    func run(_ job: JobRun<IdentifyJob>) async throws -> ContentReport {
        let index = try await owner.index(job.input.library)
        return try await report(job, "read") { before, steps in
            try await index.identify(job.input.location, depth: job.input.depth, counts: before.counts, steps: steps)
        }
    }
}

/// Reads the files of a location again, and compares.
struct VerifyJob: JobKind {
    typealias Input = ContentInput
    typealias Cursor = ContentReport
    typealias Output = ContentReport

    static let name = "verify"
    private let owner: LibraryReference

    init(_ owner: LibraryReference) { self.owner = owner }

    func title(of input: ContentInput) -> String { "verify \(input.name)" }

    func run(_ job: JobRun<VerifyJob>) async throws -> ContentReport {
        let index = try await owner.index(job.input.library)
        return try await report(job, "verify") { before, steps in
            try await index.verify(
                job.input.location, began: before.began, counts: before.counts, steps: steps)
        }
    }
}

/// Reads the files that may be duplicates and whose content is not known.
struct CandidatesJob: JobKind {
    struct Input: Codable, Hashable, Sendable {
        var library: String?
        var scope: DuplicateScope
    }
    typealias Cursor = ContentReport
    typealias Output = ContentReport

    static let name = "duplicates"
    private let owner: LibraryReference

    init(_ owner: LibraryReference) { self.owner = owner }

    func title(of input: Input) -> String {
        guard let folder = input.scope.folders.first else { return "look for duplicates" }
        let more = input.scope.folders.count > 1 ? " and \(input.scope.folders.count - 1) more" : ""
        return "look for duplicates in \(String(decoding: folder, as: UTF8.self))\(more)"
    }

    func run(_ job: JobRun<CandidatesJob>) async throws -> ContentReport {
        let index = try await owner.index(job.input.library)
        return try await report(job, "read") { before, steps in
            try await index.identifyCandidates(job.input.scope, counts: before.counts, steps: steps)
        }
    }
}

/// Runs what reads files, with checkpoints, progress and a log of what is wrong.
private func report<Kind: JobKind>(
    _ job: JobRun<Kind>, _ phase: String,
    _ work: (_ before: ContentReport, ContentSteps) async throws -> ContentCounts
) async throws -> ContentReport where Kind.Cursor == ContentReport {
    let before = job.cursor ?? ContentReport()
    let found = Problems(before.problems)
    let progress = { @Sendable (counts: ContentCounts, path: [UInt8]) in
        JobProgress(
            phase: phase, completed: counts.files, total: counts.total, bytes: counts.bytes,
            totalBytes: counts.totalBytes, current: path.isEmpty ? nil : String(decoding: path, as: UTF8.self))
    }
    let counts = try await work(
        before,
        ContentSteps(
            stored: { counts in
                var report = before
                (report.counts, report.problems) = (counts, found.all)
                try await job.checkpoint(report, progress(counts, []))
            }, progress: { job.report(progress($0, $1)) },
            problem: { problem in
                guard found.add(problem) else { return }
                let reason = problem.reason.isEmpty ? "" : ": \(problem.reason)"
                await job.log("\(problem.kind.rawValue): \(String(decoding: problem.path, as: UTF8.self))\(reason)")
            }))
    var report = before
    (report.counts, report.problems) = (counts, found.all)
    return report
}

/// The problems found, up to a limit.
private final class Problems: Sendable {
    private let held: Mutex<[ContentProblem]>

    init(_ before: [ContentProblem]) { held = Mutex(before) }

    var all: [ContentProblem] { held.withLock { $0 } }

    /// Adds one; false when there are enough.
    func add(_ problem: ContentProblem) -> Bool {
        held.withLock { problems in
            guard problems.count < ContentReport.problemLimit else { return false }
            problems.append(problem)
            return true
        }
    }
}
