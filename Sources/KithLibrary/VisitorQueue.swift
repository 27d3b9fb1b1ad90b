import KithWire

/// Decides which calls of other devices may use what the device's own person needs as well, and which wait or are refused.
///
/// A value without tasks or time: say what happened, do what is answered.
///
///     enter ──▶ run ───────────────────────▶ leave
///       │                                      │ the next that may
///       ├─────▶ wait ──(its turn)──▶ run       ▼
///       │         └──(it has gone)──▶ leave   run
///       └─────▶ refuse
///
/// Of those that wait, the first whose device has room goes on: a device with a long line keeps nobody else waiting.
struct VisitorQueue<Visitor: Hashable & Sendable> {
    /// How many may be where.
    struct Limits: Hashable, Sendable {
        /// The calls of one device that run at once, and in all.
        var runningEach: Int
        var runningInAll: Int
        /// The calls of one device that wait, and in all.
        var waitingEach: Int
        var waitingInAll: Int
    }

    /// The name of a call that waits.
    struct Ticket: Hashable, Sendable {
        fileprivate let number: UInt64
    }

    /// What a new call is to do.
    enum Admission: Hashable, Sendable {
        case run
        /// It waits until ``leave(_:)`` names its ticket, or ``abandon(_:)``.
        case wait(Ticket)
        /// Its device has as many that wait as it may.
        case refuseDevice
        /// All together have.
        case refuseAll
    }

    private let limits: Limits
    private var running: [Visitor: Int] = [:]
    /// In the order in which they came.
    private var waiting: [(visitor: Visitor, ticket: Ticket)] = []
    private var last: UInt64 = 0

    /// Makes a queue; each limit is 1 or more.
    init(_ limits: Limits) {
        precondition(
            min(limits.runningEach, limits.runningInAll, limits.waitingEach, limits.waitingInAll) > 0,
            "a queue that lets nobody through is none")
        self.limits = limits
    }

    /// The calls that run, and those that wait.
    var counts: (running: Int, waiting: Int) { (running.values.reduce(0, +), waiting.count) }

    private func mayRun(_ visitor: Visitor) -> Bool {
        running[visitor, default: 0] < limits.runningEach && counts.running < limits.runningInAll
    }

    /// Takes in a call of a device.
    mutating func enter(_ visitor: Visitor) -> Admission {
        if mayRun(visitor) {
            running[visitor, default: 0] += 1
            return .run
        }
        guard waiting.count < limits.waitingInAll else { return .refuseAll }
        guard waiting.count(where: { $0.visitor == visitor }) < limits.waitingEach else { return .refuseDevice }
        last += 1
        let ticket = Ticket(number: last)
        waiting.append((visitor, ticket))
        return .wait(ticket)
    }

    /// Takes note that a call of a device has ended; returns the one whose turn it is, which runs from now on.
    mutating func leave(_ visitor: Visitor) -> Ticket? {
        guard let count = running[visitor] else { preconditionFailure("a call left that did not run") }
        running[visitor] = count > 1 ? count - 1 : nil
        guard let next = waiting.firstIndex(where: { mayRun($0.visitor) }) else { return nil }
        let entry = waiting.remove(at: next)
        running[entry.visitor, default: 0] += 1
        return entry.ticket
    }

    /// Takes out a call that does not wait any longer; false when it runs already.
    mutating func abandon(_ ticket: Ticket) -> Bool {
        guard let place = waiting.firstIndex(where: { $0.ticket == ticket }) else { return false }
        waiting.remove(at: place)
        return true
    }
}
