/// When a device publishes its record: at once when it has changed, again each five minutes, sooner when it failed.
///
/// A pure value: tell it what happened and when, and publish once ``due`` has come.
public struct PublishingSchedule: Hashable, Sendable {
    /// The time between two.
    public static let interval = Duration.seconds(300)
    /// The least time between two, however often it changes.
    public static let spacing = Duration.seconds(2)
    /// The time after the first failure; it doubles with each.
    public static let firstRetry = Duration.seconds(2)
    /// The time after which the same record is signed anew: directories that count from its time must not forget it.
    public static let signatureLifetime = Duration.seconds(3_600)

    /// The time to publish at; `nil` when there is nothing to.
    public private(set) var due: ContinuousClock.Instant?
    private var last: ContinuousClock.Instant?
    private var failures = 0

    private let interval: Duration

    /// Begins with nothing to publish.
    public init() { interval = Self.interval }

    /// Begins with nothing to publish; what has not changed is repeated at that interval.
    package init(interval: Duration) { self.interval = interval }

    /// The record is another.
    public mutating func changed(at now: ContinuousClock.Instant) {
        failures = 0
        due = last.map { max(now, $0 + Self.spacing) } ?? now
    }

    /// It was published, or a try of it failed.
    public mutating func published(_ succeeded: Bool, at now: ContinuousClock.Instant) {
        last = now
        if succeeded {
            failures = 0
            due = now + interval
        } else {
            due = now + min(Self.firstRetry * (1 << min(failures, 20)), interval)
            failures += 1
        }
    }
}
