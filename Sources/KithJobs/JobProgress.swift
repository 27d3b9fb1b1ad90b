import Foundation

/// How far a job is.
package struct JobProgress: Codable, Hashable, Sendable {
    /// What it is at: `read`, `compare`.
    package var phase: String
    /// The items done.
    package var completed: UInt64
    /// The items in all, where known.
    package var total: UInt64?
    /// The bytes done.
    package var bytes: UInt64
    /// The bytes in all, where known.
    package var totalBytes: UInt64?
    /// The item at hand, for a person.
    package var current: String?

    package init(
        phase: String = "", completed: UInt64 = 0, total: UInt64? = nil, bytes: UInt64 = 0, totalBytes: UInt64? = nil,
        current: String? = nil
    ) {
        self.phase = phase
        self.completed = completed
        self.total = total
        self.bytes = bytes
        self.totalBytes = totalBytes
        self.current = current
    }

    /// The part that is done, 0…1; by bytes where their number is known.
    package var fraction: Double? {
        if let totalBytes, totalBytes > 0 { return min(Double(bytes) / Double(totalBytes), 1) }
        guard let total, total > 0 else { return nil }
        return min(Double(completed) / Double(total), 1)
    }
}

/// How fast a job is.
package struct JobPace: Hashable, Sendable {
    /// Items in a second.
    package var rate: Double
    /// Bytes in a second.
    package var byteRate: Double
    /// The time that is left, in seconds; `nil` where nobody can tell.
    package var remaining: Double?

    package init(rate: Double = 0, byteRate: Double = 0, remaining: Double? = nil) {
        self.rate = rate
        self.byteRate = byteRate
        self.remaining = remaining
    }
}

/// Measures how fast a job is, from what it reports: a value without a clock.
///
/// The rates are exponential moving averages with a time constant of ten seconds, corrected for their beginning, so that
/// the first second counts already; a job that reports nothing any more is slower and slower.
package struct JobSpeed: Sendable {
    private static let timeConstant = 10.0
    /// Reports that are closer to one another than this are one.
    private static let step = 0.1

    private var last: JobProgress?
    private var lastTime = 0.0
    private var newest: JobProgress?
    /// Sums of rate and weight, each reduced with time.
    private var items = 0.0
    private var bytes = 0.0
    private var weight = 0.0

    package init() {}

    /// Takes a report, at a time in seconds since any moment.
    package mutating func note(_ progress: JobProgress, at time: Double) {
        newest = progress
        guard let before = last, before.phase == progress.phase, progress.completed >= before.completed,
            progress.bytes >= before.bytes, time >= lastTime
        else {
            // Another phase, or anew from a checkpoint: what was before says nothing of it.
            (items, bytes, weight) = (0, 0, 0)
            (last, lastTime) = (progress, time)
            return
        }
        let elapsed = time - lastTime
        guard elapsed >= Self.step else { return }
        let decay = Self.decay(elapsed)
        let share = 1 - decay
        items = items * decay + share * Double(progress.completed - before.completed) / elapsed
        bytes = bytes * decay + share * Double(progress.bytes - before.bytes) / elapsed
        weight = weight * decay + share
        (last, lastTime) = (progress, time)
    }

    /// The pace at a time, not before that of the last report; `nil` before there are two.
    package func pace(at time: Double) -> JobPace? {
        guard weight > 0, let newest else { return nil }
        // What has not been told for some time counts as nothing done.
        let silent = max(time - lastTime - 1, 0)
        let decay = Self.decay(silent)
        let scale = decay / (weight * decay + 1 - decay)
        var pace = JobPace(rate: items * scale, byteRate: bytes * scale)
        if let total = newest.totalBytes, pace.byteRate > 0 {
            pace.remaining = Double(total - min(newest.bytes, total)) / pace.byteRate
        } else if newest.totalBytes == nil, let total = newest.total, pace.rate > 0 {
            pace.remaining = Double(total - min(newest.completed, total)) / pace.rate
        }
        return pace
    }

    private static func decay(_ seconds: Double) -> Double { exp(-seconds / timeConstant) }
}
