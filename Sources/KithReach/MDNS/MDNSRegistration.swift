/// Decides when a service probes for its names, announces them, and gives one up (RFC 6762 §§8, 9).
///
///     waiting ──▶ probing ──3 probes, nobody objects──▶ announcing ──3 times──▶ established
///        ▲          │ │                                     │                       │
///        │  a tie is│ │somebody has the name                └── somebody claims it ─┤
///        │      lost│ ▼                                                             │
///        ├──────────┘ next name, after the last one: failed                         │
///        └──────── the first time; after that the next name ◀───────────────────────┘
struct MDNSRegistration {
    enum Phase: Hashable {
        case waiting(until: ContinuousClock.Instant)
        /// The number of probes sent, and when the next one is, or the end.
        case probing(sent: Int, next: ContinuousClock.Instant)
        case announcing(sent: Int, next: ContinuousClock.Instant)
        case established
        /// Others have all names.
        case failed
    }

    /// What is to be sent now.
    enum Step: Hashable {
        case probe
        case announce
        case nothing
    }

    static let probes = 3
    static let probePause = Duration.milliseconds(250)
    /// The pauses after the announcements but the last.
    private static let pauses: [Duration] = [.seconds(1), .seconds(2)]
    /// The ties that are lost before a name is given up.
    private static let maxTies = 3
    /// So many conflicts in ten seconds, and each further attempt waits five (§8.1).
    static let manyConflicts = 15

    private(set) var service: MDNSService
    private(set) var records: MDNSRecordSet
    private(set) var phase: Phase
    /// The names given up.
    private(set) var attempt = 0
    private var ties = 0
    private var wasContested = false
    private var conflicts: [ContinuousClock.Instant] = []
    private var lastAnnounced: ContinuousClock.Instant?

    /// Begins to probe at `start`.
    init(_ service: MDNSService, from start: ContinuousClock.Instant) {
        self.service = service
        records = MDNSRecordSet(service, attempt: 0)
        phase = .waiting(until: start)
    }

    /// True when the names are this device's, and questions about them are answered.
    var answers: Bool {
        switch phase {
        case .announcing, .established: true
        case .waiting, .probing, .failed: false
        }
    }

    var isProbing: Bool { if case .probing = phase { true } else { false } }

    var nextDeadline: ContinuousClock.Instant? {
        switch phase {
        case .waiting(let until): until
        case .probing(_, let next), .announcing(_, let next): next
        case .established, .failed: nil
        }
    }

    /// Says something else by the same names: nobody is asked again (§8.4).
    mutating func update(_ service: MDNSService, at now: ContinuousClock.Instant) {
        let before = records
        self.service = service
        records = MDNSRecordSet(service, attempt: attempt)
        guard answers, records != before else { return }
        phase = .announcing(sent: 0, next: lastAnnounced.map { max(now, $0 + .seconds(1)) } ?? now)
    }

    /// Probes again from `start` on, with the first name: the link may be another.
    mutating func restart(from start: ContinuousClock.Instant) {
        self = MDNSRegistration(service, from: start)
    }

    /// Does what is due.
    mutating func timedOut(at now: ContinuousClock.Instant) -> Step {
        guard let due = nextDeadline, due <= now else { return .nothing }
        switch phase {
        case .waiting:
            phase = .probing(sent: 1, next: now + Self.probePause)
            return .probe
        case .probing(let sent, _) where sent < Self.probes:
            phase = .probing(sent: sent + 1, next: now + Self.probePause)
            return .probe
        case .probing: return announce(after: 0, at: now)
        case .announcing(let sent, _): return announce(after: sent, at: now)
        case .established, .failed: return .nothing
        }
    }

    private mutating func announce(after sent: Int, at now: ContinuousClock.Instant) -> Step {
        lastAnnounced = now
        phase = sent < Self.pauses.count ? .announcing(sent: sent + 1, next: now + Self.pauses[sent]) : .established
        return .announce
    }

    /// Notes that somebody else has, or claims, one of the names; `jitter` is how long to wait before the next attempt.
    mutating func conflicted(at now: ContinuousClock.Instant, jitter: Duration) {
        conflicts = conflicts.filter { $0 + .seconds(10) > now }.suffix(Self.manyConflicts - 1) + [now]
        let start = now + (conflicts.count >= Self.manyConflicts ? .seconds(5) : jitter)
        switch phase {
        case .failed: break
        case .announcing where !wasContested, .established where !wasContested:
            // Perhaps they did not know: whoever probes is answered.
            wasContested = true
            phase = .waiting(until: start)
        case .waiting, .probing, .announcing, .established: rename(from: start)
        }
    }

    /// Notes that another device probes for one of the names at the same time, and goes first (§8.2).
    mutating func lostTie(at now: ContinuousClock.Instant) {
        ties += 1
        if ties > Self.maxTies {
            rename(from: now + .seconds(1))
        } else {
            phase = .waiting(until: now + .seconds(1))
        }
    }

    private mutating func rename(from start: ContinuousClock.Instant) {
        guard attempt + 1 < service.identities.count else {
            phase = .failed
            return
        }
        attempt += 1
        (ties, wasContested) = (0, false)
        records = MDNSRecordSet(service, attempt: attempt)
        phase = .waiting(until: start)
    }
}
