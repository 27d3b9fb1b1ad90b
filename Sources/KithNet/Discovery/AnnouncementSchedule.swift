/// The times at which a device announces itself.
///
/// A few times in quick succession at the start and after every change of its addresses, because datagrams get lost;
/// then at an interval, a little shorter or longer each time, so that devices that were started together do not go on
/// together.
///
///     at 0, 0.25, 1 and 4 s, then every interval × (0.8…1.2)
struct AnnouncementSchedule {
    /// The pauses between the first ones.
    private static let pauses: [Duration] = [.milliseconds(250), .milliseconds(750), .seconds(3)]
    /// The least time between two, whatever happens.
    static let least = Duration.milliseconds(100)

    private let interval: Duration
    private var due: ContinuousClock.Instant
    private var last: ContinuousClock.Instant?
    /// What the interval is multiplied by.
    var stretch = 1
    /// The number of quick ones that were sent.
    private var quick = 0

    init(interval: Duration, at now: ContinuousClock.Instant) {
        self.interval = max(interval, .seconds(1))
        due = now
    }

    /// The next time.
    var deadline: ContinuousClock.Instant { due }

    /// Begins anew, `delay` from now: several changes at once are one.
    mutating func restart(after delay: Duration, at now: ContinuousClock.Instant) {
        quick = 0
        hasten(to: now + delay)
    }

    /// Sends the next one at `time` at the latest.
    mutating func hasten(to time: ContinuousClock.Instant) {
        let earliest = last.map { $0 + Self.least } ?? time
        due = min(due, max(time, earliest))
    }

    /// Takes the next one, when its time has come; `jitter` is from 0 to 1.
    mutating func take(at now: ContinuousClock.Instant, jitter: Double) -> Bool {
        guard now >= due else { return false }
        last = now
        if quick < Self.pauses.count {
            due = now + Self.pauses[quick]
            quick += 1
        } else {
            due = now + interval * stretch * (0.8 + 0.4 * min(max(jitter, 0), 1))
        }
        return true
    }
}
