/// Arithmetic that stops at a type's bounds: for numbers from elsewhere that are shown and decide nothing.
///
/// For a number that decides something, a sum beyond the bounds is an error instead (`addingReportingOverflow`).
extension FixedWidthInteger {
    /// The sum, or the bound that it is beyond.
    @inlinable package func saturatingAdding(_ other: Self) -> Self {
        let (sum, isOver) = addingReportingOverflow(other)
        return isOver ? (other < 0 ? .min : .max) : sum
    }

    /// The difference, or the bound that it is beyond.
    @inlinable package func saturatingSubtracting(_ other: Self) -> Self {
        let (difference, isOver) = subtractingReportingOverflow(other)
        return isOver ? (other < 0 ? .max : .min) : difference
    }

    /// Adds, no further than to the bound.
    @inlinable package mutating func saturatingAdd(_ other: Self) { self = saturatingAdding(other) }
}

extension UInt64 {
    /// The sum of sizes that a peer announced.
    ///
    /// - Throws: ``KithError/Code/invalid`` when the sum is beyond any sizes of files.
    package func adding(announced size: UInt64) throws(KithError) -> UInt64 {
        let (sum, isOver) = addingReportingOverflow(size)
        guard !isOver else { throw KithError(.invalid, "The other end announced more bytes than there can be.") }
        return sum
    }
}
