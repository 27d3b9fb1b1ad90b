/// Operations on this device's files: planned, looked at, confirmed, and taken back where that is possible.
///
/// ``Plan`` finds out what an operation would do, and changes nothing; ``Confirm`` starts it as a job. Whatever has changed
/// between the two is left alone, and said.
public enum Operations {
    /// What is to be done with files.
    @nonexhaustive
    public enum Kind: String, Codable, Hashable, Sendable, CaseIterable {
        /// Copy into a folder, or to a name.
        case copy
        /// Move into a folder, or to a name.
        case move
        /// Give other names in the same folder.
        case rename
        /// Delete for good.
        case delete
        /// Put into the trash.
        case trash
        /// Put back from the trash.
        case restore
        /// Make a folder.
        case makeFolder
        /// Delete for good what is in the trash.
        case emptyTrash
        /// Take back an operation.
        case undo
    }

    /// What happens where something has the name already.
    @nonexhaustive
    public enum Choice: String, Codable, Hashable, Sendable, CaseIterable {
        /// The person is to say; an operation with such a step is not begun.
        case ask
        /// What is there stays, and so does what was to come.
        case skip
        /// What is there goes into the trash; where there is none, it is replaced for good.
        case overwrite
        /// Both stay: the new one gets a number, as in `report (2).txt`.
        case keepBoth
    }

    /// What one step does.
    @nonexhaustive
    public enum Action: String, Codable, Hashable, Sendable, CaseIterable {
        /// Makes a folder.
        case makeFolder
        /// Copies a file or a link.
        case copy
        /// Gives a folder the times and permissions of the one it was copied from.
        case finishFolder
        /// Gives a file, or a folder with all in it, another name in its file system, at once.
        case rename
        /// Exchanges two names.
        case exchange
        /// Deletes a file or a link.
        case delete
        /// Deletes an empty folder.
        case deleteFolder
        /// Puts something into the trash.
        case trash
        /// Puts something back from the trash.
        case restore
        /// Deletes something that is in the trash, for good.
        case purge
    }

    /// Something that has the name already.
    public struct Conflict: Codable, Hashable, Sendable {
        /// What it is.
        public var kind: Files.Kind
        /// Bytes.
        public var size: UInt64
        /// When it was changed last, in seconds since 1970.
        public var modified: Int64
        /// What can be done; always ``Choice/skip``.
        public var choices: [Choice]

        /// Describes a conflict.
        public init(kind: Files.Kind, size: UInt64, modified: Int64, choices: [Choice]) {
            self.kind = kind
            self.size = size
            self.modified = modified
            self.choices = choices
        }
    }

    /// How far a step is.
    @nonexhaustive
    public enum State: String, Codable, Hashable, Sendable, CaseIterable {
        /// It was not begun.
        case pending
        /// It was begun.
        case running
        /// It is done.
        case done
        /// It was left out: something has changed, or a person said so.
        case skipped
        /// It could not be done.
        case failed
    }

    /// One step of an operation.
    public struct Step: Codable, Hashable, Sendable {
        /// Its number; they grow, with gaps.
        public var number: Int64
        /// What it does.
        public var action: Action
        /// With what; absent for what comes from nothing.
        public var source: Files.Path?
        /// Where it goes; absent for what goes nowhere.
        public var destination: Files.Path?
        /// What it is.
        public var kind: Files.Kind
        /// The bytes that are copied.
        public var bytes: UInt64
        /// What is in the way.
        public var conflict: Conflict?
        /// What is done about it.
        public var choice: Choice?
        /// How far it is.
        public var state: State
        /// Why it was left out, or could not be done; of a plan, why it cannot.
        public var message: String?

        /// Describes a step.
        public init(
            number: Int64, action: Action, source: Files.Path? = nil, destination: Files.Path? = nil,
            kind: Files.Kind = .file, bytes: UInt64 = 0, conflict: Conflict? = nil, choice: Choice? = nil,
            state: State = .pending, message: String? = nil
        ) {
            self.number = number
            self.action = action
            self.source = source
            self.destination = destination
            self.kind = kind
            self.bytes = bytes
            self.conflict = conflict
            self.choice = choice
            self.state = state
            self.message = message
        }
    }

    /// The room that an operation needs in one file system.
    public struct Room: Codable, Hashable, Sendable {
        /// Where it is mounted.
        public var path: Files.Path
        /// The bytes that come there.
        public var needed: UInt64
        /// The bytes that are free.
        public var free: UInt64
        /// Whether that suffices.
        public var suffices: Bool { needed <= free }

        /// Describes the room.
        public init(path: Files.Path, needed: UInt64, free: UInt64) {
            self.path = path
            self.needed = needed
            self.free = free
        }
    }

    /// What all steps together are.
    public struct Totals: Codable, Hashable, Sendable {
        /// The number of steps.
        public var steps: Int
        /// The files and links among what is copied, renamed, deleted or put into the trash.
        public var files: Int
        /// The folders among it; what is in a folder that goes as a whole is not counted.
        public var folders: Int
        /// The bytes that are copied.
        public var bytes: UInt64
        /// The steps whose name is taken.
        public var conflicts: Int
        /// Those of them for which somebody has to choose.
        public var unresolved: Int
        /// The steps that cannot be done.
        public var problems: Int

        /// Describes totals.
        public init(
            steps: Int = 0, files: Int = 0, folders: Int = 0, bytes: UInt64 = 0, conflicts: Int = 0,
            unresolved: Int = 0, problems: Int = 0
        ) {
            self.steps = steps
            self.files = files
            self.folders = folders
            self.bytes = bytes
            self.conflicts = conflicts
            self.unresolved = unresolved
            self.problems = problems
        }
    }

    /// What an operation would do; nothing has been changed.
    public struct Planned: Codable, Hashable, Sendable {
        /// The name of the plan, and of the operation when it is confirmed.
        public var id: String
        /// What it is to do.
        public var kind: Kind
        /// When it ends if it is not confirmed, in seconds since 1970.
        public var expires: Int64
        /// The first steps; ``Operations/Results`` lists all.
        public var steps: [Step]
        /// Whether there are more.
        public var hasMore: Bool
        /// All of them counted.
        public var totals: Totals
        /// What is needed and free, for each file system that is copied to.
        public var room: [Room]
        /// Whether something goes from one file system to another: it is copied, and deleted when that is done.
        public var crossesFileSystems: Bool
        /// Whether it can be taken back.
        public var isUndoable: Bool
        /// Why not.
        public var notUndoable: String?

        /// Describes a plan.
        public init(
            id: String, kind: Kind, expires: Int64, steps: [Step], hasMore: Bool, totals: Totals, room: [Room] = [],
            crossesFileSystems: Bool = false, isUndoable: Bool = true, notUndoable: String? = nil
        ) {
            self.id = id
            self.kind = kind
            self.expires = expires
            self.steps = steps
            self.hasMore = hasMore
            self.totals = totals
            self.room = room
            self.crossesFileSystems = crossesFileSystems
            self.isUndoable = isUndoable
            self.notUndoable = notUndoable
        }
    }

    /// An operation that was confirmed.
    public struct Entry: Codable, Hashable, Sendable {
        /// Its name.
        public var id: String
        /// What it does.
        public var kind: Kind
        /// What it is done with: the first path.
        public var first: Files.Path?
        /// When it was confirmed, in seconds since 1970.
        public var confirmed: Int64
        /// When it ended; absent while it goes on, or waits.
        public var ended: Int64?
        /// The job that does it.
        public var job: String?
        /// The number of steps that are done.
        public var done: Int
        /// The number of steps that were left out.
        public var skipped: Int
        /// The number of steps that could not be done.
        public var failed: Int
        /// The operation that this one took back.
        public var undoes: String?
        /// The operation that took this one back.
        public var undoneBy: String?
        /// Whether it can be taken back.
        public var isUndoable: Bool

        /// Describes an operation.
        public init(
            id: String, kind: Kind, first: Files.Path? = nil, confirmed: Int64, ended: Int64? = nil,
            job: String? = nil, done: Int = 0, skipped: Int = 0, failed: Int = 0, undoes: String? = nil,
            undoneBy: String? = nil, isUndoable: Bool = false
        ) {
            self.id = id
            self.kind = kind
            self.first = first
            self.confirmed = confirmed
            self.ended = ended
            self.job = job
            self.done = done
            self.skipped = skipped
            self.failed = failed
            self.undoes = undoes
            self.undoneBy = undoneBy
            self.isUndoable = isUndoable
        }
    }

    /// Finds out what an operation would do, and changes nothing.
    public enum Plan: Method {
        /// The input: the operation.
        public struct Input: Codable, Hashable, Sendable {
            /// What is to be done: ``Kind/copy``, ``Kind/move``, ``Kind/rename``, ``Kind/delete``, ``Kind/trash``,
            /// ``Kind/restore`` or ``Kind/makeFolder``.
            public var kind: Kind
            /// The paths it is done with, from the top of the file system or from `~`; at most 10,000.
            ///
            /// To restore, where things were or where they are in the trash; to make a folder, its path.
            public var paths: [Files.Path]
            /// Where copies and moves go.
            public var destination: Files.Path?
            /// The new names, one for each path, of a rename.
            public var names: [Files.Path]?
            /// The new names of a rename as a pattern instead: `{name}`, `{ext}`, `{n}`, `{n:3}`, `{date}`.
            public var pattern: String?
            /// What happens where a name is taken, unless that is said for a step.
            public var conflicts: Choice

            /// Makes the input.
            public init(
                kind: Kind, paths: [Files.Path], destination: Files.Path? = nil, names: [Files.Path]? = nil,
                pattern: String? = nil, conflicts: Choice = .ask
            ) {
                self.kind = kind
                self.paths = paths
                self.destination = destination
                self.names = names
                self.pattern = pattern
                self.conflicts = conflicts
            }
        }

        /// The answer: the plan, good for ten minutes.
        public typealias Output = Planned
        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "operations.plan", by: .owner, "Finds out what an operation on files would do, and changes nothing.")
    }

    /// Starts what was planned, as a job.
    public enum Confirm: Method {
        /// What happens at one step.
        public struct Chosen: Codable, Hashable, Sendable {
            /// The step.
            public var number: Int64
            /// What happens there.
            public var choice: Choice

            /// Makes a choice.
            public init(number: Int64, choice: Choice) {
                self.number = number
                self.choice = choice
            }
        }

        /// The input: the plan, and choices.
        public struct Input: Codable, Hashable, Sendable {
            /// The plan.
            public var plan: String
            /// What happens at single steps; at most 10,000.
            public var choices: [Chosen]
            /// What happens at all others for which the plan asks; absent: none may be left.
            public var otherwise: Choice?
            /// The kinds of which the plan has to be one; absent: any.
            public var kinds: [Kind]?

            /// Makes the input.
            public init(plan: String, choices: [Chosen] = [], otherwise: Choice? = nil, kinds: [Kind]? = nil) {
                self.plan = plan
                self.choices = choices
                self.otherwise = otherwise
                self.kinds = kinds
            }
        }

        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// The operation: the name of the plan.
            public var operation: String
            /// The job that does it.
            public var job: String

            /// Makes the answer.
            public init(operation: String, job: String) {
                self.operation = operation
                self.job = job
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "operations.confirm", by: .owner, "Starts an operation on files that was planned, as a job.")
    }

    /// Lists the steps of a plan, or of an operation, and what came of them.
    public enum Results: Method {
        /// The input: the operation.
        public struct Input: Codable, Hashable, Sendable {
            /// The plan or operation.
            public var operation: String
            /// The number of the step behind which the answer begins; absent: at the first.
            public var after: Int64?
            /// The most steps, 1…1,000; more count as that.
            public var limit: Int
            /// Only those in this state; absent: all.
            public var state: State?

            /// Makes the input.
            public init(operation: String, after: Int64? = nil, limit: Int = 500, state: State? = nil) {
                self.operation = operation
                self.after = after
                self.limit = limit
                self.state = state
            }
        }

        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// The steps, in their order.
            public var steps: [Step]
            /// Whether more follow.
            public var hasMore: Bool

            /// Makes the answer.
            public init(steps: [Step], hasMore: Bool) {
                self.steps = steps
                self.hasMore = hasMore
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "operations.results", by: .owner, "Lists the steps of an operation on files, and what came of them.")
    }

    /// Lists the operations that were confirmed, the latest first.
    public enum List: Method {
        /// The input: how many.
        public struct Input: Codable, Hashable, Sendable {
            /// The most operations, 1…1,000; more count as that.
            public var limit: Int

            /// Makes the input.
            public init(limit: Int = 50) { self.limit = limit }
        }

        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// The operations.
            public var operations: [Entry]

            /// Makes the answer.
            public init(operations: [Entry]) { self.operations = operations }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "operations.list", by: .owner, "Lists the operations on files, the latest first.")
    }

    /// Plans to take back an operation; the answer is confirmed as any other plan.
    public enum Undo: Method {
        /// The input: the operation.
        public struct Input: Codable, Hashable, Sendable {
            /// The operation; absent: the latest that can be taken back.
            public var operation: String?
            /// What happens where a name is taken by now.
            public var conflicts: Choice

            /// Makes the input.
            public init(operation: String? = nil, conflicts: Choice = .ask) {
                self.operation = operation
                self.conflicts = conflicts
            }
        }

        /// The answer: the plan.
        public typealias Output = Planned
        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "operations.undo", by: .owner, "Plans to take back an operation on files, and changes nothing.")
    }
}

extension Operations {
    /// Follows an operation to its end; it goes on when nobody follows it any more.
    public enum Follow: StreamMethod {
        /// The input: the operation.
        public struct Input: Codable, Hashable, Sendable {
            /// The operation: the name of its plan.
            public var operation: String

            /// Makes the input.
            public init(operation: String) { self.operation = operation }
        }

        /// How far an operation is.
        public struct Update: StreamMessage, Hashable {
            /// The steps that are behind it.
            public var completed: Int
            /// The steps in all.
            public var total: Int
            /// The bytes that were copied, since the job was begun last.
            public var bytes: UInt64
            /// The bytes in all; absent when nothing is copied.
            public var totalBytes: UInt64?
            /// Bytes a second; absent while nothing is copied.
            public var byteRate: UInt64?
            /// The seconds that are left; absent where nobody can tell.
            public var remaining: Double?
            /// What is being done.
            public var current: String?
            /// True while the job waits for others, or for a person to resume it.
            public var isWaiting: Bool
            /// True for the last message.
            public var isLast: Bool

            /// Describes how far an operation is.
            public init(
                completed: Int, total: Int, bytes: UInt64 = 0, totalBytes: UInt64? = nil, byteRate: UInt64? = nil,
                remaining: Double? = nil, current: String? = nil, isWaiting: Bool = false, isLast: Bool = false
            ) {
                self.completed = completed
                self.total = total
                self.bytes = bytes
                self.totalBytes = totalBytes
                self.byteRate = byteRate
                self.remaining = remaining
                self.current = current
                self.isWaiting = isWaiting
                self.isLast = isLast
            }
        }

        /// The answer: nothing.
        public typealias Output = Nothing
        /// Nothing.
        public typealias Upstream = Nothing
        /// How far it is, from time to time, and at the end.
        public typealias Downstream = Update
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "operations.follow", by: .owner, isIdempotent: true, "Follows an operation on files to its end.")
    }
}

extension Operations.Plan.Input: OmissibleInput {
    /// Nothing but the question where a name is taken.
    public static var usual: Self { Self(kind: .copy, paths: []) }
    /// What is to be done, and with what.
    public static var required: Set<String> { ["kind", "paths"] }
}

extension Operations.Confirm.Input: OmissibleInput {
    /// No choices.
    public static var usual: Self { Self(plan: "") }
    /// The plan.
    public static var required: Set<String> { ["plan"] }
}

extension Operations.Results.Input: OmissibleInput {
    /// The first five hundred.
    public static var usual: Self { Self(operation: "") }
    /// The operation.
    public static var required: Set<String> { ["operation"] }
}

extension Operations.List.Input: OmissibleInput {
    /// The latest fifty.
    public static var usual: Self { Self() }
    /// None.
    public static var required: Set<String> { [] }
}

extension Operations.Undo.Input: OmissibleInput {
    /// The latest.
    public static var usual: Self { Self() }
    /// None.
    public static var required: Set<String> { [] }
}
