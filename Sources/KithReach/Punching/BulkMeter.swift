/// Notices that much is carried within a short time.
package struct BulkMeter: Sendable {
    /// The bytes that are much.
    package static let amount: UInt64 = 256 << 10
    /// The time within which they are.
    package static let period = Duration.seconds(5)

    private var counted: UInt64 = 0
    private var since: ContinuousClock.Instant?
    /// The time at which it was much last.
    package private(set) var last: ContinuousClock.Instant?

    /// Starts with nothing carried.
    package init() {}

    /// Indicates whether ``carried(_:at:)`` has anything to do for a total; costs nothing to ask.
    package func isDue(_ total: UInt64) -> Bool { total >= counted && total - counted >= Self.amount }

    /// Takes the total of all bytes so far; true when much has been carried since it was due last.
    package mutating func carried(_ total: UInt64, at now: ContinuousClock.Instant) -> Bool {
        guard isDue(total) else { return false }
        defer { (counted, since) = (total, now) }
        guard let since, now - since <= Self.period else { return false }
        last = now
        return true
    }
}
