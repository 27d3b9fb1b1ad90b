import Foundation
package import KithWire

/// The states of a job.
package enum JobState: String, Codable, Hashable, Sendable, CaseIterable {
    /// It waits for its turn.
    case queued
    /// It runs; stored, it means that the process was killed, or runs it.
    case running
    /// A person halted it, and it goes on when a person says so.
    case paused
    /// A person ended it, for good.
    case cancelled
    /// It could not go on.
    case failed
    /// It has ended, and its result is there.
    case done

    /// True for a job that has ended.
    package var isFinal: Bool {
        switch self {
        case .queued, .running, .paused: false
        case .cancelled, .failed, .done: true
        }
    }
}

/// The order in which jobs get their turn; within one priority they go by age.
package enum JobPriority: Int, Codable, Hashable, Sendable, CaseIterable, Comparable {
    /// Work in the background that nobody waits for.
    case low = 0
    case normal = 1
    case high = 2

    package static func < (left: JobPriority, right: JobPriority) -> Bool { left.rawValue < right.rawValue }
}

/// A job as its queue knows it.
package struct JobRecord: Hashable, Sendable, Identifiable {
    package var id: JobID
    /// Its place in the order in which jobs were added.
    package var number: Int64
    /// The name of its kind.
    package var kind: String
    /// False for a kind, or a version of it, that this build does not know: it stays in the queue.
    package var isKnown: Bool
    /// A few words for a person.
    package var title: String
    package var state: JobState
    package var priority: JobPriority
    /// How often it was begun since its last checkpoint.
    package var attempts: Int
    package var progress: JobProgress
    /// How fast it is, while it runs.
    package var pace: JobPace?
    /// Seconds since 1970.
    package var created: Int64
    /// When it was begun first, in seconds since 1970.
    package var started: Int64?
    /// When it ended, in seconds since 1970.
    package var ended: Int64?
    /// Why it failed.
    package var failure: JobFailure?
}

/// Why a job failed.
package struct JobFailure: Hashable, Sendable {
    package var code: KithError.Code
    package var message: String

    package var error: KithError { KithError(code, message) }
}

/// A line of a job's log.
package struct JobLogLine: Hashable, Sendable {
    /// Seconds since 1970.
    package var time: Int64
    package var text: String
}

/// A change of a job.
package enum JobEvent: Hashable, Sendable {
    /// It is new, or not as it was.
    case changed(JobRecord)
    /// It is not kept any more.
    case removed(JobID)
}
