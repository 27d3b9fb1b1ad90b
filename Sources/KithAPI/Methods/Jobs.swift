import KithIdentity
import KithWire

/// The jobs of a device: work that takes long, and goes on after a crash or a restart.
public enum Jobs {
    /// The state of a job.
    @nonexhaustive
    public enum State: String, Codable, Hashable, Sendable, CaseIterable {
        /// It waits until others have ended.
        case queued
        /// It runs.
        case running
        /// A person halted it; it goes on when a person says so.
        case paused
        /// A person ended it, for good.
        case cancelled
        /// It could not go on.
        case failed
        /// It has ended.
        case done

        /// True for a job that has ended.
        public var isFinal: Bool {
            switch self {
            case .queued, .running, .paused: false
            case .cancelled, .failed, .done: true
            }
        }
    }

    /// How far a job is.
    public struct Progress: Codable, Hashable, Sendable {
        /// What it is at: `read`, `copy`; empty before it has begun.
        public var phase: String
        /// The items done.
        public var completed: UInt64
        /// The items in all; absent where nobody knows.
        public var total: UInt64?
        /// The bytes done.
        public var bytes: UInt64
        /// The bytes in all; absent where nobody knows.
        public var totalBytes: UInt64?
        /// The item at hand, for a person.
        public var current: String?
        /// Items in a second; absent while it does not run.
        public var rate: Double?
        /// Bytes in a second; absent while it does not run.
        public var byteRate: Double?
        /// The seconds that are left; absent where nobody can tell.
        public var remaining: Double?

        /// Describes how far a job is.
        public init(
            phase: String = "", completed: UInt64 = 0, total: UInt64? = nil, bytes: UInt64 = 0,
            totalBytes: UInt64? = nil, current: String? = nil, rate: Double? = nil, byteRate: Double? = nil,
            remaining: Double? = nil
        ) {
            self.phase = phase
            self.completed = completed
            self.total = total
            self.bytes = bytes
            self.totalBytes = totalBytes
            self.current = current
            self.rate = rate
            self.byteRate = byteRate
            self.remaining = remaining
        }
    }

    /// A job.
    public struct Job: Codable, Hashable, Sendable {
        /// Its id, a UUID in small letters.
        public var id: String
        /// Its place in the order in which jobs were added.
        public var number: Int64
        /// The name of its kind: `identify`, `copy`.
        public var kind: String
        /// True unless this build does not know the kind, or this version of it: then it waits for one that does.
        public var isKnown: Bool
        /// A few words for a person.
        public var title: String
        /// Its state.
        public var state: State
        /// How far it is.
        public var progress: Progress
        /// When it was added, in seconds since 1970.
        public var created: Int64
        /// When it was begun first, in seconds since 1970.
        public var started: Int64?
        /// When it ended, in seconds since 1970.
        public var ended: Int64?
        /// The code of the error it failed with, as of `KithError`.
        public var code: String?
        /// Why it failed, for a person.
        public var error: String?

        /// Describes a job.
        public init(
            id: String, number: Int64, kind: String, isKnown: Bool = true, title: String, state: State,
            progress: Progress = Progress(), created: Int64, started: Int64? = nil, ended: Int64? = nil,
            code: String? = nil, error: String? = nil
        ) {
            self.id = id
            self.number = number
            self.kind = kind
            self.isKnown = isKnown
            self.title = title
            self.state = state
            self.progress = progress
            self.created = created
            self.started = started
            self.ended = ended
            self.code = code
            self.error = error
        }
    }

    /// Names a job.
    public struct Reference: Codable, Hashable, Sendable {
        /// Its id, or the beginning of it that no other job has.
        public var id: String

        /// Names a job.
        public init(id: String) { self.id = id }
    }

    /// Lists jobs, the newest first; of those that have ended, the last 200 of the last 30 days.
    public enum List: Method {
        /// The input: which part of the list.
        public struct Input: Codable, Hashable, Sendable {
            /// Only those in one of these states; absent: all.
            public var states: [State]?
            /// Only those whose number is less; absent: from the newest.
            public var before: Int64?
            /// The most jobs, 1…100; more count as that.
            public var limit: Int?

            /// Makes the input.
            public init(states: [State]? = nil, before: Int64? = nil, limit: Int? = nil) {
                self.states = states
                self.before = before
                self.limit = limit
            }
        }

        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// The jobs.
            public var jobs: [Job]
            /// What `before` is of the next part; absent at the end.
            public var next: Int64?

            /// Makes the answer.
            public init(jobs: [Job], next: Int64? = nil) {
                self.jobs = jobs
                self.next = next
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query("jobs.list", by: .owner, "Lists the jobs of this device.")
    }

    /// Describes one job, with its log.
    public enum Get: Method {
        /// The input: the job.
        public typealias Input = Reference
        /// The answer.
        public struct Output: Codable, Hashable, Sendable {
            /// The job.
            public var job: Job
            /// The last lines of its log, the oldest first; at most 1,000.
            public var log: [LogLine]

            /// Makes the answer.
            public init(job: Job, log: [LogLine]) {
                self.job = job
                self.log = log
            }
        }

        /// A line of a log.
        public struct LogLine: Codable, Hashable, Sendable {
            /// When it was written, in seconds since 1970.
            public var time: Int64
            /// At most 1,000 bytes.
            public var text: String

            /// Makes a line.
            public init(time: Int64, text: String) {
                self.time = time
                self.text = text
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.query("jobs.get", by: .owner, "Describes a job, with its log.")
    }

    /// Halts a job at its last checkpoint until it is resumed.
    public enum Pause: Method {
        /// The input: the job.
        public typealias Input = Reference
        /// The answer: the job as it is then.
        public typealias Output = Job
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "jobs.pause", by: .owner, isIdempotent: true, "Halts a job, over restarts too, until it is resumed.")
    }

    /// Lets a job go on that was paused, or has failed.
    public enum Resume: Method {
        /// The input: the job.
        public typealias Input = Reference
        /// The answer: the job as it is then.
        public typealias Output = Job
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "jobs.resume", by: .owner, isIdempotent: true, "Lets a job go on that was paused, or has failed.")
    }

    /// Ends a job for good.
    public enum Cancel: Method {
        /// The input: the job.
        public typealias Input = Reference
        /// The answer: the job as it is then.
        public typealias Output = Job
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "jobs.cancel", by: .owner, isIdempotent: true, "Ends a job for good.")
    }

    /// Tells of each job once, then of each that changes, until the caller leaves: the newest, at most ten times a second.
    public enum Follow: StreamMethod {
        /// The input.
        public struct Input: Codable, Hashable, Sendable {
            /// Only this job, by its id or the beginning of it; absent: all.
            public var id: String?
            /// Whether what waits is run, where this device does not do so by itself: it is not up.
            public var runs: Bool?

            /// Makes the input.
            public init(id: String? = nil, runs: Bool? = nil) {
                self.id = id
                self.runs = runs
            }
        }

        /// A change.
        public struct Change: StreamMessage, Hashable {
            /// A job as it is now.
            public var job: Job?
            /// The id of a job that is not kept any more.
            public var removed: String?
            /// True once each job has been told that was there at the beginning.
            public var isCurrent: Bool?

            /// Makes a change.
            public init(job: Job? = nil, removed: String? = nil, isCurrent: Bool? = nil) {
                self.job = job
                self.removed = removed
                self.isCurrent = isCurrent
            }
        }

        /// The answer: nothing.
        public typealias Output = Nothing
        /// Nothing.
        public typealias Upstream = Nothing
        /// The changes.
        public typealias Downstream = Change
        /// The stable name on every wire.
        public static let header = MethodHeader.stream(
            "jobs.follow", by: .owner, isIdempotent: true, "Tells of the jobs, and of each that changes.")
    }
}

extension Jobs.List.Input: OmissibleInput {
    /// The newest hundred.
    public static var usual: Self { Self() }
    /// None.
    public static var required: Set<String> { [] }
}

extension Jobs.Follow.Input: OmissibleInput {
    /// All of them.
    public static var usual: Self { Self() }
    /// None.
    public static var required: Set<String> { [] }
}
