/// A point in time as the engine is told it: monotonic nanoseconds from an origin the driver chose.
///
/// The engine never reads a clock. Spans of time inside it are `Int64` nanoseconds rather than `Duration`, whose
/// 128-bit arithmetic is dear on the packet path; public configuration speaks `Duration`.
public struct Timestamp: Hashable, Comparable, Sendable {
    /// Nanoseconds since the driver's origin.
    public var nanoseconds: Int64

    /// Makes a timestamp of so many nanoseconds since the driver's origin.
    @inlinable
    public init(nanoseconds: Int64) {
        self.nanoseconds = nanoseconds
    }

    /// The driver's origin.
    public static var zero: Timestamp { Timestamp(nanoseconds: 0) }

    /// Later than anything that will happen.
    public static var distantFuture: Timestamp { Timestamp(nanoseconds: .max) }

    /// Returns whether `left` is the earlier one.
    @inlinable
    public static func < (left: Timestamp, right: Timestamp) -> Bool { left.nanoseconds < right.nanoseconds }

    /// The nanoseconds from `right` to `left`; negative when `left` is the earlier one.
    @inlinable
    public static func - (left: Timestamp, right: Timestamp) -> Int64 {
        let (difference, overflow) = left.nanoseconds.subtractingReportingOverflow(right.nanoseconds)
        return overflow ? (left.nanoseconds < right.nanoseconds ? .min : .max) : difference
    }

    /// The time so many nanoseconds later, at most ``distantFuture``.
    @inlinable
    public static func + (left: Timestamp, right: Int64) -> Timestamp { left.advanced(nanoseconds: right) }

    /// The time so many nanoseconds later, at most ``distantFuture``.
    @inlinable
    public func advanced(nanoseconds span: Int64) -> Timestamp {
        let (sum, overflow) = nanoseconds.addingReportingOverflow(span)
        return Timestamp(nanoseconds: overflow ? (span > 0 ? .max : .min) : sum)
    }

    /// The time so much later, at most ``distantFuture``.
    public func advanced(by duration: Duration) -> Timestamp { advanced(nanoseconds: duration.inNanoseconds) }
}

extension Duration {
    /// The whole nanoseconds of this duration, clamped to what `Int64` holds (about 292 years).
    package var inNanoseconds: Int64 {
        let (seconds, attoseconds) = components
        let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        guard !overflow else { return seconds < 0 ? .min : .max }
        let (sum, over) = whole.addingReportingOverflow(attoseconds / 1_000_000_000)
        return over ? (seconds < 0 ? .min : .max) : sum
    }
}

extension Int64 {
    /// So many microseconds, in nanoseconds.
    package static func microseconds(_ count: Int64) -> Int64 { count * 1_000 }
    /// So many milliseconds, in nanoseconds.
    package static func milliseconds(_ count: Int64) -> Int64 { count * 1_000_000 }
    /// So many seconds, in nanoseconds.
    package static func seconds(_ count: Int64) -> Int64 { count * 1_000_000_000 }
}
