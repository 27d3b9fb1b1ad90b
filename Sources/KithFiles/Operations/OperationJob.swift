import Foundation
package import KithAPI
package import KithJobs

/// The kinds of operation that are jobs of kinds of their own.
package protocol OperationName: Sendable {
    /// The kind.
    static var kind: Operations.Kind { get }
}

/// A job that does an operation on files.
///
/// How far it is stands in the journal of operations, step by step: the job itself keeps no more than a number.
package struct OperationJob<Name: OperationName>: JobKind {
    /// What was asked: the operation, and what a person reads of it.
    package struct Input: Codable, Sendable {
        /// The name of the operation in the journal.
        var operation: String
        var title: String
    }

    /// How far it is.
    package struct Cursor: Codable, Sendable {
        /// The number of steps that are behind it.
        var completed: Int
    }

    /// What came of it.
    package struct Output: Codable, Sendable {
        /// The numbers of steps.
        package var done: Int
        package var skipped: Int
        package var failed: Int
    }

    package static var name: String { Name.kind.rawValue }

    private let engine: OperationEngine

    init(_ engine: OperationEngine) { self.engine = engine }

    package func title(of input: Input) -> String { input.title }

    package func run(_ job: JobRun<Self>) async throws -> Output {
        func described(_ progress: OperationProgress) -> JobProgress {
            JobProgress(
                phase: Self.name, completed: UInt64(progress.completed), total: UInt64(progress.total),
                bytes: progress.bytes, totalBytes: progress.totalBytes == 0 ? nil : progress.totalBytes,
                current: progress.current?.shown)
        }
        let outcome = try await engine.run(
            job.input.operation,
            report: { progress in
                job.report(described(progress))
                if job.isInterrupted { throw CancellationError() }
            },
            checkpoint: { progress in
                try await job.checkpoint(Cursor(completed: progress.completed), described(progress))
            })
        if outcome.skipped + outcome.failed > 0 {
            await job.log("\(outcome.skipped) steps were left out, and \(outcome.failed) failed.")
        }
        return Output(done: outcome.done, skipped: outcome.skipped, failed: outcome.failed)
    }

    package func cleanUp(after job: JobRun<Self>) async throws { try engine.abandon(job.input.operation) }
}

/// The operations that are jobs.
enum OperationNames {
    enum Copy: OperationName { static let kind = Operations.Kind.copy }
    enum Move: OperationName { static let kind = Operations.Kind.move }
    enum Rename: OperationName { static let kind = Operations.Kind.rename }
    enum Delete: OperationName { static let kind = Operations.Kind.delete }
    enum Trash: OperationName { static let kind = Operations.Kind.trash }
    enum Restore: OperationName { static let kind = Operations.Kind.restore }
    enum MakeFolder: OperationName { static let kind = Operations.Kind.makeFolder }
    enum EmptyTrash: OperationName { static let kind = Operations.Kind.emptyTrash }
    enum Undo: OperationName { static let kind = Operations.Kind.undo }
}

extension OperationEngine {
    /// The kinds of job that do operations.
    package var jobKinds: [any JobKind] {
        [
            OperationJob<OperationNames.Copy>(self), OperationJob<OperationNames.Move>(self),
            OperationJob<OperationNames.Rename>(self), OperationJob<OperationNames.Delete>(self),
            OperationJob<OperationNames.Trash>(self), OperationJob<OperationNames.Restore>(self),
            OperationJob<OperationNames.MakeFolder>(self), OperationJob<OperationNames.EmptyTrash>(self),
            OperationJob<OperationNames.Undo>(self),
        ]
    }

    /// Adds the job that does an operation which was confirmed.
    package func start(_ confirmed: ConfirmedOperation, in queue: JobQueue) async throws -> JobID {
        func add<Name: OperationName>(_ name: Name.Type) async throws -> JobID {
            let totals = confirmed.operation.summary.totals
            let count = totals.files + totals.folders
            return try await queue.add(
                OperationJob<Name>(self),
                OperationJob<Name>.Input(
                    operation: confirmed.id,
                    title: "\(Name.kind.rawValue) \(count) \(count == 1 ? "thing" : "things")"),
                topic: confirmed.id)
        }
        do {
            let job =
                switch confirmed.operation.kind {
                case .copy: try await add(OperationNames.Copy.self)
                case .move: try await add(OperationNames.Move.self)
                case .rename: try await add(OperationNames.Rename.self)
                case .delete: try await add(OperationNames.Delete.self)
                case .trash: try await add(OperationNames.Trash.self)
                case .restore: try await add(OperationNames.Restore.self)
                case .makeFolder: try await add(OperationNames.MakeFolder.self)
                case .emptyTrash: try await add(OperationNames.EmptyTrash.self)
                case .undo: try await add(OperationNames.Undo.self)
                }
            try note(job.uuidString.lowercased(), for: confirmed)
            return job
        } catch {
            unconfirm(confirmed)
            throw error
        }
    }
}
