import Foundation
import KithAPI
import KithIndex
package import KithJobs
package import KithNode
import KithWire

/// Operations on this device's files with a plan, a job and a way back, and its trash; for its own person.
package final class OperationsService: Service {
    private let engine: OperationEngine
    private let board: JobBoard
    private let runsJobs: Bool

    /// Makes the service.
    ///
    /// - Parameters:
    ///   - directory: The folder of the journal.
    ///   - protection: The files that nothing is done with.
    ///   - board: The device's jobs.
    ///   - runsJobs: Whether operations that were interrupted go on when the service starts.
    package init(directory: String, protecting protection: ProtectedFiles?, board: JobBoard, runsJobs: Bool) {
        engine = OperationEngine(directory: directory, protecting: protection)
        self.board = board
        self.runsJobs = runsJobs
        board.register(engine.jobKinds)
    }

    /// The methods it serves.
    package var handlers: [Handler] {
        [
            .call(Operations.Plan.self) { input, context in
                try await self.engine.plan(input, by: Self.owner(context))
            }.limited(to: 2),
            .call(Operations.Undo.self) { input, context in
                try await self.settle()
                return try await self.engine.planUndoing(
                    input.operation, conflicts: input.conflicts, by: Self.owner(context))
            }.limited(to: 2),
            .call(Operations.Confirm.self) { input, context in try await self.confirm(input, context) },
            .call(Operations.Results.self) { input, _ in try await self.engine.results(input) },
            .call(Operations.List.self) { input, _ in
                try await self.settle()
                return Operations.List.Output(operations: try await self.engine.operations(limit: input.limit))
            },
            .stream(Operations.Follow.self) { input, _, pending in try await self.follow(input, pending) }
                .endingAtShutdown(),
            .call(Trash.List.self) { input, _ in try await self.engine.trashed(input) }.limited(to: 4),
            .call(Trash.Restore.self) { input, context in
                try await self.engine.plan(
                    Operations.Plan.Input(kind: .restore, paths: input.paths, conflicts: input.conflicts),
                    by: Self.owner(context))
            }.limited(to: 2),
            .call(Trash.Empty.self) { input, context in
                try await self.engine.planEmptying(olderThan: input.olderThan, by: Self.owner(context))
            }.limited(to: 2),
        ]
    }

    /// Goes on with what was interrupted.
    package func start(_ context: StartContext) async throws {
        await board.reopen()
        if runsJobs, await board.isThere { try await board.start() }
    }

    /// Interrupts what goes on, and closes the journal.
    package func stop() async {
        await board.stop()
        engine.close()
    }

    /// Ends what will not be gone on with.
    private func settle() async throws {
        guard await board.isThere else { return }
        try await engine.settle(try await board.queue().list())
    }

    /// Whoever a plan belongs to.
    private static func owner(_ context: CallContext) -> String {
        switch context.caller {
        case .owner: "owner"
        case .device(let id, _, _): "\(id)"
        }
    }

    private func confirm(
        _ input: Operations.Confirm.Input, _ context: CallContext
    ) async throws -> Operations.Confirm.Output {
        let queue = try await board.start()
        let confirmed = try await engine.confirm(input, by: Self.owner(context))
        let job = try await engine.start(confirmed, in: queue)
        return Operations.Confirm.Output(operation: confirmed.id, job: job.uuidString.lowercased())
    }

    private func follow(
        _ input: Operations.Follow.Input, _ pending: PendingStream<Operations.Follow>
    ) async throws {
        guard let job = UUID(uuidString: try engine.job(of: input.operation)) else {
            throw KithError(.corrupt, "The job of the operation cannot be read.")
        }
        let queue = try await board.queue()
        // Its last state stays with it; one that is not kept any more has ended.
        let isKnown = try await queue.list().contains { $0.id == job }
        let stream = try await pending.accept()
        guard isKnown else {
            try await stream.send(Operations.Follow.Update(completed: 0, total: 0, isLast: true))
            return try await stream.finish()
        }
        for await case .changed(let record) in await queue.follow() where record.id == job {
            if record.state == .failed, let failure = record.failure { throw failure.error }
            if record.state == .cancelled { throw KithError(.cancelled, "The operation was cancelled.") }
            try await stream.send(Self.update(record))
            if record.state.isFinal { return try await stream.finish() }
        }
        try Task.checkCancellation()
        throw KithError(.closed, "This device stops. The operation goes on when it starts again.")
    }

    private static func update(_ record: JobRecord) -> Operations.Follow.Update {
        let progress = record.progress
        return Operations.Follow.Update(
            completed: Int(clamping: progress.completed), total: Int(clamping: progress.total ?? 0),
            bytes: progress.bytes, totalBytes: progress.totalBytes,
            byteRate: record.pace.flatMap { $0.byteRate > 0 ? UInt64(min($0.byteRate, 1e18)) : nil },
            remaining: record.pace?.remaining, current: progress.current,
            isWaiting: record.state == .queued || record.state == .paused, isLast: record.state.isFinal)
    }
}
