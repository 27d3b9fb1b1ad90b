/// The life of one session with another screen, as a viewer's window shows it.
///
///     idle ──connect──▶ connecting ──connected──▶ active ◀──connected── reconnecting
///                          │ 30 s, refused          │ lost ──────────────▶ │
///                          ▼                        ▼ leave                ▼ life over
///                        ended ◀────────────────────┴──────────────────────┘
///
/// A connection attempt has 30 s. One that is lost is sought again: at once, then after 0.25, 0.5, 1, 2, 4 and at most 5 s
/// within the first 30 s, and after 5 s · 2ⁿ, at most 300 s, from then on, for as long as the session may live; a change
/// of the network begins the row anew. In the background a session has 25 s to be taken up again before it is left, so that the
/// system's 30 s are never exceeded. Held keys and buttons are released whenever input can no longer reach the host.
package struct SessionState {
    /// What a person sees.
    @frozen package enum Phase: Hashable, Sendable {
        case idle, connecting, active, reconnecting
        /// It is over, and only a new session begins again.
        case ended(End)
    }

    /// The reason for an end.
    @nonexhaustive package enum End: Hashable, Sendable {
        /// The person left, or the application had to.
        case left
        /// The host did not answer within 30 s.
        case timedOut
        /// The host refused, or ended it.
        case refused
        /// The session's life is over.
        case expired
    }

    /// What the driver does, in order.
    @frozen package enum Action: Hashable, Sendable {
        /// Begin a connection attempt, in place of one that runs.
        case connect
        /// Release all keys and buttons held for the host: the host does the same at its end.
        case releaseInput
        /// Close the connection in an orderly way.
        case disconnect
        /// Ask the system for time in the background.
        case beginBackgroundTask
        /// Give that time back.
        case endBackgroundTask
    }

    /// The time an attempt has.
    package static let attemptLimit = Duration.seconds(30)
    /// The time in the background until the session is left.
    package static let backgroundLimit = Duration.seconds(25)

    /// The phase now.
    package private(set) var phase = Phase.idle
    private var actions: [Action] = []
    private let life: Duration
    private var ends: ContinuousClock.Instant?
    private var attemptEnds: ContinuousClock.Instant?
    private var retryAt: ContinuousClock.Instant?
    private var backgroundEnds: ContinuousClock.Instant?
    private var lostAt: ContinuousClock.Instant?
    private var failures = 0
    private var lateFailures = 0

    /// A session that may live so long from its first connection on.
    package init(life: Duration = .seconds(8 * 3600)) { self.life = life }

    /// The next thing to do; `nil` when there is none.
    package mutating func nextAction() -> Action? { actions.isEmpty ? nil : actions.removeFirst() }

    /// The time to call ``timedOut(at:)``; `nil` when there is none.
    package var nextDeadline: ContinuousClock.Instant? {
        let waits = phase == .reconnecting || phase == .active ? ends : nil
        return [attemptEnds, retryAt, backgroundEnds, waits].compactMap { $0 }.min()
    }

    /// Begins; without effect when it has begun.
    package mutating func connect(at now: ContinuousClock.Instant) {
        guard phase == .idle else { return }
        phase = .connecting
        attempt(at: now)
    }

    /// Takes in that a connection stands and the host let us in.
    package mutating func connected(at now: ContinuousClock.Instant) {
        guard phase == .connecting || phase == .reconnecting else { return }
        phase = .active
        if ends == nil { ends = now + life }
        (attemptEnds, retryAt, lostAt, failures, lateFailures) = (nil, nil, nil, 0, 0)
    }

    /// Takes in that the connection is gone without the host's having ended the session.
    package mutating func lost(at now: ContinuousClock.Instant) {
        switch phase {
        case .active:
            phase = .reconnecting
            lostAt = now
            actions.append(.releaseInput)
            attempt(at: now)
        case .reconnecting: attemptFailed(at: now)
        default: break
        }
    }

    /// Takes in that an attempt failed for want of a way to the host.
    package mutating func attemptFailed(at now: ContinuousClock.Instant) {
        guard attemptEnds != nil else { return }
        attemptEnds = phase == .connecting ? attemptEnds : nil
        guard phase == .connecting || phase == .reconnecting, retryAt == nil else { return }
        retryAt = now + pause(at: now)
    }

    /// Takes in that the host refused or ended the session.
    package mutating func refused(at now: ContinuousClock.Instant) { end(.refused) }

    /// Takes in that the person leaves.
    package mutating func leave(at now: ContinuousClock.Instant) { end(.left) }

    /// Takes in that another network is there: what failed before may work now.
    package mutating func networkChanged(at now: ContinuousClock.Instant) {
        guard phase == .reconnecting else { return }
        (failures, lateFailures, lostAt) = (0, 0, now)
        attempt(at: now)
    }

    /// Takes in that the application is no longer seen.
    package mutating func enteredBackground(at now: ContinuousClock.Instant) {
        guard [.connecting, .active, .reconnecting].contains(phase), backgroundEnds == nil else { return }
        backgroundEnds = now + Self.backgroundLimit
        actions.append(.beginBackgroundTask)
        if phase == .active { actions.append(.releaseInput) }
    }

    /// Takes in that the application is seen again.
    package mutating func enteredForeground(at now: ContinuousClock.Instant) {
        guard backgroundEnds != nil else { return }
        backgroundEnds = nil
        actions.append(.endBackgroundTask)
        if phase == .reconnecting { attempt(at: now) }
    }

    /// Takes in that a deadline has passed; without effect before it has.
    package mutating func timedOut(at now: ContinuousClock.Instant) {
        if let backgroundEnds, now >= backgroundEnds { return end(.left) }
        if let ends, now >= ends, phase == .active || phase == .reconnecting { return end(.expired) }
        if let attemptEnds, now >= attemptEnds {
            if phase == .connecting { return end(.timedOut) }
            attemptFailed(at: now)
        }
        if let retryAt, now >= retryAt { attempt(at: now) }
    }

    private mutating func attempt(at now: ContinuousClock.Instant) {
        retryAt = nil
        // All attempts of the first connection share its 30 s.
        if phase != .connecting || attemptEnds == nil { attemptEnds = now + Self.attemptLimit }
        actions.append(.connect)
    }

    private mutating func pause(at now: ContinuousClock.Instant) -> Duration {
        if let lostAt, now - lostAt >= Self.attemptLimit {
            defer { lateFailures += 1 }
            return min(.seconds(5) * (1 << min(lateFailures, 6)), .seconds(300))
        }
        defer { failures += 1 }
        return min(.milliseconds(250) * (1 << min(failures, 5)), .seconds(5))
    }

    private mutating func end(_ reason: End) {
        switch phase {
        case .idle: phase = .ended(reason)
        case .ended: break
        case .connecting, .active, .reconnecting:
            if phase == .active { actions.append(.releaseInput) }
            actions.append(.disconnect)
            phase = .ended(reason)
            if backgroundEnds != nil { actions.append(.endBackgroundTask) }
        }
        (attemptEnds, retryAt, backgroundEnds, lostAt) = (nil, nil, nil, nil)
    }
}
