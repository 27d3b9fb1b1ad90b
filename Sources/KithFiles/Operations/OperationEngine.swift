import CKithSystem
import Foundation
package import KithAPI
import KithIO
package import KithIndex
package import KithJobs
package import KithNode
import KithWire
import Synchronization

/// Plans operations on files, confirms them, and takes them back; what is confirmed is done by an ``OperationJob``.
///
/// A plan belongs to whoever made it. Everything is done on threads for disks.
package final class OperationEngine: Sendable {
    /// The most steps that a plan lists.
    static let maximumListed = 10_000
    /// The most bytes of paths in one answer, which has to fit a message of 1 MiB with all around them.
    private static let answerLimit = 300 << 10

    let journal: OperationJournal
    private let protection: ProtectedFiles?
    private let trashHome: [UInt8]
    private let trashLayout: any TrashLayout
    private let mounts: @Sendable () -> MountTable
    private let disk = DiskExecutor()
    /// One plan is confirmed at a time: what is noted of its steps must not meet their being done.
    private let confirming = Mutex(())

    /// Makes an engine.
    ///
    /// - Parameters:
    ///   - directory: The folder of the journal, made when it is needed.
    ///   - protection: The files that nothing is done with.
    ///   - trashHome: The path of the home trash; `nil`: as the environment says.
    ///   - mounts: The file systems that are mounted.
    ///   - now: The time in seconds since 1970.
    package convenience init(
        directory: String, protecting protection: ProtectedFiles?, trashHome: [UInt8]? = nil,
        mounts: @escaping @Sendable () -> MountTable = { MountTable.current() },
        now: @escaping @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970) }
    ) {
        self.init(
            directory: directory, protecting: protection, trashHome: trashHome, trashLayout: TrashCan.systemLayout,
            mounts: mounts, now: now)
    }

    /// The same with trash folders where `trashLayout` has them.
    init(
        directory: String, protecting protection: ProtectedFiles?, trashHome: [UInt8]?, trashLayout: any TrashLayout,
        mounts: @escaping @Sendable () -> MountTable = { MountTable.current() },
        now: @escaping @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970) }
    ) {
        journal = OperationJournal(path: directory + "/operations.sqlite", now: now)
        self.protection = protection
        self.trashLayout = trashLayout
        self.trashHome = trashHome ?? trashLayout.homePath(ProcessInfo.processInfo.environment)
        self.mounts = mounts
    }

    /// Closes the journal.
    package func close() { journal.close() }

    private func tools() throws(KithError) -> (OperationFiles, TrashCan) {
        let files = try OperationFiles(protecting: protection, mounts: mounts())
        return (files, TrashCan(files: files, home: trashHome, layout: trashLayout))
    }

    // MARK: - Plans

    /// Plans what was asked for, and changes nothing.
    package func plan(_ input: Operations.Plan.Input, by owner: String) async throws -> Operations.Planned {
        try await plan(input.kind, by: owner, conflicts: input.conflicts) { try $0.plan(input) }
    }

    /// Plans to delete for good what is in the trash, or what was put there before some seconds.
    package func planEmptying(olderThan seconds: Int64?, by owner: String) async throws -> Operations.Planned {
        guard seconds.map({ $0 >= 0 }) ?? true else {
            throw KithError(.invalid, "An age is 0 seconds or more.")
        }
        let before = seconds.map { journal.now().subtractingReportingOverflow($0).partialValue }
        return try await plan(.emptyTrash, by: owner, conflicts: .skip) { try $0.planEmptying(before: before) }
    }

    /// Plans to take back an operation, or the latest that can be taken back.
    package func planUndoing(
        _ id: String?, conflicts: Operations.Choice, by owner: String
    ) async throws -> Operations.Planned {
        let undone: OperationJournal.Operation
        if let id {
            undone = try journal.operation(id)
        } else {
            // Taking back what was taken back is asked for by name.
            let latest = try journal.operations(limit: OperationJournal.maximumOperations).first {
                $0.0.kind != .undo && Self.isUndoable($0.0, $0.counts)
            }
            guard let latest else { throw KithError(.notFound, "There is no operation that could be taken back.") }
            undone = latest.0
        }
        guard undone.state == .ended else {
            throw KithError(
                .conflict,
                undone.state == .planned
                    ? "That is a plan: nothing of it was done."
                    : "That operation goes on. Let it end, or cancel its job.")
        }
        guard undone.undoneBy == nil else { throw KithError(.conflict, "That operation was taken back already.") }
        return try await plan(.undo, by: owner, conflicts: conflicts, undoes: undone.id) {
            try $0.planUndoing(undone)
        }
    }

    private func plan(
        _ kind: Operations.Kind, by owner: String, conflicts: Operations.Choice, undoes: String? = nil,
        _ body: @escaping @Sendable (OperationPlanner) throws -> Void
    ) async throws -> Operations.Planned {
        try await disk.run {
            let (files, trash) = try self.tools()
            let operation = try self.journal.begin(kind, owner: owner, undoes: undoes)
            do {
                let planner = OperationPlanner(
                    operation, in: self.journal, files: files, trash: trash, conflicts: conflicts)
                try body(planner)
                let summary = try planner.finish()
                return try self.planned(operation, summary)
            } catch {
                self.journal.remove(operation)
                throw (error as? Errno)?.failure("plan", "the operation") ?? error
            }
        }
    }

    private func planned(
        _ operation: OperationJournal.Operation, _ summary: OperationJournal.Summary
    ) throws -> Operations.Planned {
        let (steps, hasMore) = try page(of: operation, after: .min, limit: Self.maximumListed, state: nil)
        return Operations.Planned(
            id: operation.id, kind: operation.kind, expires: operation.made + OperationJournal.planLifetime,
            steps: steps, hasMore: hasMore, totals: summary.totals, room: summary.room,
            crossesFileSystems: summary.crossesFileSystems, isUndoable: summary.notUndoable == nil,
            notUndoable: summary.notUndoable)
    }

    /// A part of the steps, as many as fit an answer.
    private func page(
        of operation: OperationJournal.Operation, after: Int64, limit: Int, state: Operations.State?
    ) throws -> (steps: [Operations.Step], hasMore: Bool) {
        let states = state.map { state -> [OperationStep.State] in
            switch state {
            case .pending: [.pending]
            case .running: [.begun, .placing]
            case .done: [.done]
            case .skipped: [.skipped]
            case .failed: [.failed]
            }
        }
        var steps: [Operations.Step] = []
        var bytes = 0
        for step in try journal.steps(of: operation, after: after, limit: limit + 1, states: states) {
            bytes += 200 + (step.source?.count ?? 0) + (step.destination?.count ?? 0) + (step.message?.utf8.count ?? 0)
            if steps.count == limit || bytes > Self.answerLimit, !steps.isEmpty { return (steps, true) }
            steps.append(Self.described(step))
        }
        return (steps, false)
    }

    private static func described(_ step: OperationStep) -> Operations.Step {
        let state: Operations.State =
            switch step.state {
            case .pending: .pending
            case .begun, .placing: .running
            case .done: .done
            case .skipped: .skipped
            case .failed: .failed
            }
        return Operations.Step(
            number: step.number, action: step.action, source: step.source.map { Files.Path(bytes: $0) },
            destination: step.destination.map { Files.Path(bytes: $0) }, kind: step.identity?.kind ?? .folder,
            bytes: step.bytes,
            conflict: step.there.map {
                Operations.Conflict(
                    kind: $0.kind, size: $0.size, modified: $0.modified / 1_000_000_000, choices: step.choices)
            },
            choice: step.choice, state: state, message: step.message)
    }

    // MARK: - Confirming

    /// Takes the choices in, and notes that a plan is to be done; the job begins after that.
    ///
    /// - Throws: `.denied` for somebody else's plan; `.conflict` when a choice is missing; `.exhausted` when there is too
    ///   little room.
    package func confirm(_ input: Operations.Confirm.Input, by owner: String) async throws -> ConfirmedOperation {
        guard input.choices.count <= 10_000 else {
            throw KithError(.invalid, "At most 10,000 choices at a time; `otherwise` is for all others.")
        }
        return try await disk.run { try self.confirming.withLock { _ in try self.confirmed(input, by: owner) } }
    }

    private func confirmed(_ input: Operations.Confirm.Input, by owner: String) throws -> ConfirmedOperation {
        let operation = try journal.operation(input.plan)
        guard operation.owner == owner else {
            throw KithError(.denied, "Somebody else made that plan. Plan it again to confirm it.")
        }
        guard operation.state == .planned else { throw KithError(.conflict, "The plan was confirmed already.") }
        if let kinds = input.kinds, !kinds.contains(operation.kind) {
            throw KithError(
                .invalid,
                "That plan is to \(operation.kind.rawValue), which is not what this confirms. Nothing was changed.")
        }
        let (files, trash) = try tools()
        try journal.removeWays(of: operation)
        var chosen: [Int64: Operations.Choice] = [:]
        for choice in input.choices { chosen[choice.number] = choice.choice }
        var last = Int64.min
        var skipped: UInt64 = 0
        while true {
            let steps = try journal.steps(of: operation, after: last, limit: 1_000, states: [.pending])
            guard let end = steps.last else { break }
            last = end.number
            var changed: [OperationStep] = []
            for var step in steps where step.there != nil {
                // Nothing may be replaced that was not asked about.
                let wanted =
                    chosen[step.number] ?? (step.choice == .ask ? input.otherwise ?? .ask : step.choice ?? .ask)
                guard wanted != .ask else {
                    throw KithError(
                        .conflict,
                        "\(step.destination?.shown ?? "A name") is taken: say whether to skip, overwrite or keep both, in `choices` or `otherwise`."
                    )
                }
                if let named = chosen[step.number], !step.choices.contains(named) {
                    throw KithError(
                        .invalid,
                        "`\(named.rawValue)` is not possible for \(step.destination?.shown ?? "a step"); there is \(step.choices.map(\.rawValue).joined(separator: ", "))."
                    )
                }
                let choice = step.choices.contains(wanted) ? wanted : .skip
                step.choice = choice
                if choice == .skip { skipped = skipped.addingReportingOverflow(step.bytes).partialValue }
                step.after = nil
                if choice == .overwrite { changed.append(try makeWay(for: &step, trash)) }
                changed.append(step)
            }
            try journal.put(changed, of: operation)
        }
        for room in operation.summary.room {
            let free = try attempt("measure", room.path) { () throws(Errno) in try files.room(room.path.bytes).free }
            let needed = room.needed > skipped ? room.needed - skipped : 0
            guard needed <= free else {
                throw KithError(
                    .exhausted,
                    "\(room.path) has \(free) bytes free, and \(needed) are needed. Make room, or choose another destination."
                )
            }
        }
        try journal.confirm(operation)
        return ConfirmedOperation(operation: operation)
    }

    /// The step before another that takes what has its name away: into the trash where there is one.
    private func makeWay(for step: inout OperationStep, _ trash: TrashCan) throws -> OperationStep {
        var way = OperationStep(
            number: step.number - 1, action: .delete, source: step.destination, identity: step.there)
        if let place = step.destination, let folder = try? trash.folder(for: place) {
            way.action = .trash
            way.destination = folder.files.appendingName(place.splitAtName.name)
        }
        step.after = way.number
        return way
    }

    /// Gives a plan back whose job could not be added.
    package func unconfirm(_ confirmed: ConfirmedOperation) {
        // What fails here has failed before, and was said.
        try? journal.unconfirm(confirmed.operation)
    }

    /// Notes the job that does an operation.
    package func note(_ job: String, for confirmed: ConfirmedOperation) throws {
        try journal.setJob(job, of: confirmed.operation)
    }

    // MARK: - Looking

    /// A part of the steps of a plan or an operation.
    package func results(_ input: Operations.Results.Input) async throws -> Operations.Results.Output {
        guard input.limit > 0 else { throw KithError(.invalid, "`limit` must be 1 or more; at most 1,000 steps come.") }
        return try await disk.run {
            let operation = try self.journal.operation(input.operation)
            let (steps, hasMore) = try self.page(
                of: operation, after: input.after ?? .min, limit: min(input.limit, 1_000), state: input.state)
            return Operations.Results.Output(steps: steps, hasMore: hasMore)
        }
    }

    /// The job of an operation that was confirmed.
    ///
    /// - Throws: `.notFound`; `.conflict` for a plan.
    package func job(of id: String) throws -> String {
        guard let job = try journal.operation(id).job else {
            throw KithError(.conflict, "That is a plan: `operations.confirm` starts it.")
        }
        return job
    }

    /// The operations that were confirmed, the latest first.
    package func operations(limit: Int) async throws -> [Operations.Entry] {
        guard limit > 0 else { throw KithError(.invalid, "`limit` must be 1 or more; at most 1,000 operations come.") }
        return try await disk.run {
            try self.journal.operations(limit: min(limit, OperationJournal.maximumOperations)).map {
                operation, counts, first in
                Operations.Entry(
                    id: operation.id, kind: operation.kind, first: first.map { Files.Path(bytes: $0) },
                    confirmed: operation.made, ended: operation.ended, job: operation.job, done: counts[.done] ?? 0,
                    skipped: counts[.skipped] ?? 0, failed: counts[.failed] ?? 0, undoes: operation.undoes,
                    undoneBy: operation.undoneBy, isUndoable: Self.isUndoable(operation, counts))
            }
        }
    }

    private static func isUndoable(
        _ operation: OperationJournal.Operation, _ counts: [OperationStep.State: Int]
    ) -> Bool {
        operation.state == .ended && operation.undoneBy == nil && operation.summary.notUndoable == nil
            && (counts[.done] ?? 0) > 0
    }

    /// What is in the trash, the latest first.
    package func trashed(_ input: Trash.List.Input) async throws -> Trash.List.Output {
        guard input.limit > 0, input.after >= 0 else {
            throw KithError(.invalid, "`limit` must be 1 or more, and `after` 0 or more; at most 1,000 items come.")
        }
        return try await disk.run {
            let items = try self.tools().1.items()
            var shown: [Trash.Item] = []
            var bytes = 0
            for item in items.dropFirst(input.after).prefix(min(input.limit, 1_000)) {
                bytes += 200 + item.path.count + (item.original?.count ?? 0)
                if bytes > Self.answerLimit { break }
                shown.append(
                    Trash.Item(
                        path: Files.Path(bytes: item.path), original: item.original.map { Files.Path(bytes: $0) },
                        kind: item.identity?.kind ?? .special, size: item.size, deleted: item.deleted))
            }
            return Trash.List.Output(items: shown, total: items.count)
        }
    }

    // MARK: - Doing

    /// Does the steps of an operation, from wherever it stopped.
    func run(
        _ id: String, moment: @escaping (String) -> Void = { _ in },
        report: @escaping (OperationProgress) throws -> Void,
        checkpoint: (OperationProgress) async throws -> Void
    ) async throws -> OperationOutcome {
        let (files, trash) = try tools()
        return try await OperationRun(
            try journal.operation(id), in: journal, files: files, trash: trash, moment: moment, report: report
        ).run(checkpoint: checkpoint)
    }

    /// Ends the operations whose jobs will not be run any more: cancelled before they began, or never added.
    package func settle(_ jobs: [JobRecord]) async throws {
        try await disk.run {
            for operation in try self.journal.openOperations() {
                let job = jobs.first { $0.id.uuidString.lowercased() == operation.job }
                // One that was confirmed just now may be about to get its job; one that was begun ends by itself.
                let isLost = job == nil && self.journal.now() - operation.made > 60
                let isCancelled = job.map { $0.state == .cancelled && $0.started == nil } ?? false
                guard isLost || isCancelled else { continue }
                try self.abandon(operation.id)
            }
        }
    }

    /// Ends an operation that was cancelled.
    func abandon(_ id: String) throws {
        let (files, trash) = try tools()
        try OperationRun(try journal.operation(id), in: journal, files: files, trash: trash) { _ in }.abandon()
    }
}

/// An operation that is to be done.
package struct ConfirmedOperation: Sendable {
    let operation: OperationJournal.Operation
    /// The name of the plan.
    package var id: String { operation.id }
}
