/// The round-trip time of a path, smoothed (RFC 9002 §5).
package struct RTTEstimator: Hashable, Sendable {
    /// The granularity of the timers that act on these numbers.
    package static let granularity: Int64 = .milliseconds(1)

    /// The newest sample.
    package private(set) var latest: Int64 = 0
    /// The newest sample less the time the peer waited with its acknowledgement.
    package private(set) var adjusted: Int64 = 0
    /// The exponentially weighted mean.
    package private(set) var smoothed: Int64
    /// The mean deviation.
    package private(set) var variance: Int64
    /// The smallest sample of this path, without the peer's delay taken off.
    package private(set) var minimum: Int64 = 0
    /// Indicates whether there has been any sample.
    package private(set) var hasSample = false

    /// Starts from a guess, used until the first sample.
    package init(initial: Int64) {
        smoothed = initial
        variance = initial / 2
    }

    /// Takes a sample in.
    ///
    /// - Parameters:
    ///   - sample: from sending the largest newly acknowledged packet to its acknowledgement.
    ///   - acknowledgementDelay: what the peer says it waited, already limited to its promised maximum.
    package mutating func update(sample: Int64, acknowledgementDelay: Int64) {
        let sample = max(sample, 1)
        latest = sample
        adjusted = sample
        guard hasSample else {
            hasSample = true
            minimum = sample
            smoothed = sample
            variance = sample / 2
            return
        }
        minimum = min(minimum, sample)
        // The delay is only believed when taking it off leaves a possible round trip.
        adjusted = sample >= minimum + acknowledgementDelay ? sample - acknowledgementDelay : sample
        variance = (3 * variance + abs(smoothed - adjusted)) / 4
        smoothed = (7 * smoothed + adjusted) / 8
    }

    /// Believes the newest sample alone: the path was gone for a while and may be another now (RFC 9002 §5.2).
    package mutating func forgetMinimum() {
        minimum = latest
    }

    /// A probe time-out without the peer's acknowledgement delay and without backoff (RFC 9002 §6.2.1).
    package var probeTimeout: Int64 { smoothed + max(4 * variance, Self.granularity) }
}
