import KithWire

/// Decides which of a connection's paths carries what this end sends.
///
/// A value, one at each end: each decides for what it sends itself. The driver says which paths are proven, what was
/// measured on them and what happened, and does what ``nextAction()`` says.
///
///     relay ──a direct path is proven──▶ direct
///       ▲                                  │ two probe time-outs
///       └──── acknowledged there ──── both at once ──── acknowledged here ──▶ direct
///
/// A direct path is preferred to a relay, even one that takes longer, unless it loses or waits far more. Among equals
/// the shorter one carries the connection, and is left for one that is clearly shorter only, so that paths do not take
/// turns. A path that failed must hold for a while before it is used again, longer each time.
package struct PathPolicy<ID: Hashable & Comparable & Sendable>: Sendable {
    /// How paths are chosen.
    package struct Limits: Hashable, Sendable {
        /// How much shorter another path must be.
        package var hysteresis = Duration.milliseconds(5)
        /// What IPv6 is preferred by.
        package var ipv6Bonus = Duration.milliseconds(3)
        /// Probe time-outs in a row after which another path is used as well.
        package var timeouts = 2
        /// How much more a direct path may lose than the relay, of everything sent.
        package var extraLoss = 0.1
        /// Packets after which a loss rate means something.
        package var lossSample = 50
        /// How many times as long as through the relay a direct path may take.
        package var waitFactor = 3.0
        /// How much longer it may take besides.
        package var extraWait = Duration.milliseconds(50)
        /// How long a path that failed must hold before it is used again; it doubles with each failure.
        package var firstHold = Duration.milliseconds(500)
        /// The longest of that, after which failures are forgotten too.
        package var longestHold = Duration.seconds(30)
        /// The first wait between challenges of a path that failed; it doubles.
        package var firstChallenge = Duration.milliseconds(250)
        /// The longest wait between them.
        package var longestChallenge = Duration.seconds(5)
        /// How often a path that is not used is challenged while the connection is in use.
        package var heartbeat = Duration.seconds(15)
        /// The most paths.
        package var paths = 16

        /// The documented values.
        package init() {}
    }

    /// What a path goes through.
    package enum Kind: Hashable, Sendable {
        /// From device to device, over IPv4.
        case ipv4
        /// From device to device, over IPv6.
        case ipv6
        /// Through a relay.
        case relay
    }

    /// What the driver does next.
    package enum Action: Hashable, Sendable {
        /// Send everything on these paths, all of it on each; on none, user data waits.
        case use([ID])
        /// Challenge a path: its answer is ``PathPolicy/acknowledged(_:at:)``.
        case challenge(ID)
    }

    private struct Path {
        let kind: Kind
        var roundTrip: Duration?
        /// Probe time-outs since the last acknowledgement.
        var timeouts = 0
        var sent = 0
        var lost = 0
        /// Set from a failure until the path has held long enough.
        var failedAt: ContinuousClock.Instant?
        /// The first acknowledgement since the failure.
        var heldSince: ContinuousClock.Instant?
        var failures = 0
        /// When it had held long enough.
        var clearedAt: ContinuousClock.Instant?
        var challengeAt: ContinuousClock.Instant
        var challengeWait: Duration

        var isRelay: Bool { kind == .relay }
        var lossRate: Double { sent == 0 ? 0 : Double(lost) / Double(sent) }
    }

    private let limits: Limits
    private var preference: ReachPreference
    private var paths: [ID: Path] = [:]
    private var current: ID?
    /// The path that is used as well, while the current one does not answer.
    private var other: ID?
    private var isInUse = true
    private var announced: [ID] = []
    private var challenges: [ID] = []

    /// Starts without a path.
    package init(preference: ReachPreference = .auto, limits: Limits = Limits()) {
        (self.preference, self.limits) = (preference, limits)
    }

    // MARK: - What is known

    /// The paths that carry the connection: one, two while the first does not answer, none while user data waits.
    package var use: [ID] { [current, other].compactMap(\.self) }

    /// Sets the preference.
    package mutating func set(_ preference: ReachPreference, at now: ContinuousClock.Instant) {
        self.preference = preference
        choose(at: now)
    }

    /// Sets whether the connection is in use: an idle one challenges no path.
    package mutating func set(isInUse: Bool, at now: ContinuousClock.Instant) {
        guard isInUse != self.isInUse else { return }
        self.isInUse = isInUse
        for (id, path) in paths {
            let next = now + wait(of: path)
            paths[id]?.challengeAt = next
        }
    }

    /// Notes that a path is proven to work both ways.
    package mutating func opened(_ id: ID, _ kind: Kind, at now: ContinuousClock.Instant) {
        if paths[id] != nil { return acknowledged(id, at: now) }
        guard paths.count < limits.paths else { return }
        paths[id] = Path(
            kind: kind, challengeAt: now + limits.heartbeat, challengeWait: limits.firstChallenge)
        choose(at: now)
    }

    /// Notes that a path is gone: its socket, its relay, or the network.
    package mutating func closed(_ id: ID, at now: ContinuousClock.Instant) {
        paths[id] = nil
        if other == id { other = nil }
        if current == id { (current, other) = (other, nil) }
        choose(at: now)
    }

    /// Notes the smoothed round trip of a path.
    package mutating func measured(_ id: ID, roundTrip: Duration, at now: ContinuousClock.Instant) {
        guard paths[id] != nil else { return }
        paths[id]?.roundTrip = roundTrip
        choose(at: now)
    }

    /// Notes how many packets were sent and lost on a path since the last time it was said.
    package mutating func counted(_ id: ID, sent: Int, lost: Int, at now: ContinuousClock.Instant) {
        guard var path = paths[id], sent >= 0, lost >= 0 else { return }
        path.sent.saturatingAdd(sent)
        path.lost.saturatingAdd(lost)
        // What was long ago counts less and less.
        while path.sent > 8 * limits.lossSample { (path.sent, path.lost) = (path.sent / 2, path.lost / 2) }
        paths[id] = path
        choose(at: now)
    }

    /// Notes that something sent on a path since it was said to be used was acknowledged, or a challenge answered.
    package mutating func acknowledged(_ id: ID, at now: ContinuousClock.Instant) {
        guard var path = paths[id] else { return }
        path.timeouts = 0
        if path.failedAt != nil {
            let since = path.heldSince ?? now
            path.heldSince = since
            if now - since >= hold(after: path.failures) {
                (path.failedAt, path.heldSince, path.challengeWait) = (nil, nil, limits.firstChallenge)
                (path.challengeAt, path.clearedAt) = (now + limits.heartbeat, now)
            } else {
                path.challengeAt = min(path.challengeAt, now + limits.firstChallenge)
            }
        } else if let clearedAt = path.clearedAt, now - clearedAt >= limits.longestHold {
            (path.failures, path.clearedAt) = (0, nil)
        }
        paths[id] = path
        // Whichever answers first decides.
        if let other, isAllowed(path) {
            if id != current {
                if let current { fail(current, at: now) }
                if id != other { fail(other, at: now) }
            }
            (current, self.other) = (id, nil)
        }
        choose(at: now)
    }

    /// Notes that a probe time-out passed on a path that is used, or that a challenge of another was not answered.
    package mutating func timedOut(_ id: ID, at now: ContinuousClock.Instant) {
        guard var path = paths[id] else { return }
        path.timeouts.saturatingAdd(1)
        path.heldSince = nil
        paths[id] = path
        if id == current {
            if path.timeouts >= limits.timeouts, other == nil {
                other = standby(to: id)
                for third in paths.keys where third != id && third != other { paths[third]?.challengeAt = now }
            }
        } else if id != other, path.failedAt == nil, path.timeouts >= limits.timeouts {
            fail(id, at: now)
        }
    }

    // MARK: - Time

    /// The next thing to do; `nil` for nothing until something happens.
    package mutating func nextAction() -> Action? {
        if let first = challenges.first {
            challenges.removeFirst()
            return .challenge(first)
        }
        guard announced != use else { return nil }
        announced = use
        return .use(use)
    }

    /// The time at which ``timedOut(at:)`` is to be called; `nil` for never.
    package var nextDeadline: ContinuousClock.Instant? {
        guard isInUse else { return nil }
        return paths.lazy.filter { $0.key != current && $0.key != other && isAllowed($0.value) }
            .map(\.value.challengeAt).min()
    }

    /// Challenges the paths that are due.
    package mutating func timedOut(at now: ContinuousClock.Instant) {
        guard isInUse else { return }
        for id in paths.keys.sorted() where id != current && id != other {
            guard var path = paths[id], path.challengeAt <= now, isAllowed(path) else { continue }
            challenges.append(id)
            if path.failedAt != nil, path.heldSince == nil {
                path.challengeWait = min(path.challengeWait * 2, limits.longestChallenge)
            }
            path.challengeAt = now + wait(of: path)
            paths[id] = path
        }
    }

    private func wait(of path: Path) -> Duration {
        guard path.failedAt != nil else { return limits.heartbeat }
        return path.heldSince == nil ? path.challengeWait : limits.firstChallenge
    }

    // MARK: - Choice

    private func isAllowed(_ path: Path) -> Bool {
        switch preference {
        case .auto: true
        case .direct, .local: !path.isRelay
        case .relay: path.isRelay
        }
    }

    private func hold(after failures: Int) -> Duration {
        min(limits.firstHold * (1 << min(max(failures - 1, 0), 16)), limits.longestHold)
    }

    private mutating func fail(_ id: ID, at now: ContinuousClock.Instant) {
        guard var path = paths[id] else { return }
        path.failures = min(path.failures + 1, 16)
        (path.failedAt, path.heldSince) = (now, nil)
        (path.sent, path.lost) = (0, 0)
        (path.challengeWait, path.challengeAt) = (limits.firstChallenge, now + limits.firstChallenge)
        paths[id] = path
    }

    /// The best path beside one.
    private func standby(to id: ID) -> ID? {
        paths.keys.filter { $0 != id && paths[$0].map(isAllowed) == true }.min { isBetter($0, than: $1) }
    }

    private func delay(of path: Path) -> Duration {
        let delay = path.roundTrip ?? .milliseconds(333)
        return path.kind == .ipv6 ? delay - limits.ipv6Bonus : delay
    }

    /// Orders paths: those that hold before those that failed, direct before relay, the shorter before the longer.
    private func isBetter(_ left: ID, than right: ID) -> Bool {
        guard let first = paths[left], let second = paths[right] else { return false }
        if (first.failedAt == nil) != (second.failedAt == nil) { return first.failedAt == nil }
        if first.isRelay != second.isRelay { return second.isRelay }
        let (one, two) = (delay(of: first), delay(of: second))
        return one == two ? left < right : one < two
    }

    /// Tells whether a direct path loses or waits far more than the relay would.
    private func isFarWorse(_ path: Path, than relay: Path) -> Bool {
        if path.sent >= limits.lossSample, path.lossRate > relay.lossRate + limits.extraLoss { return true }
        guard let delay = path.roundTrip, let other = relay.roundTrip else { return false }
        return delay > other * limits.waitFactor + limits.extraWait
    }

    private mutating func choose(at now: ContinuousClock.Instant) {
        if let current, let path = paths[current], !isAllowed(path) { self.current = nil }
        if let other, let path = paths[other], !isAllowed(path) { self.other = nil }
        if current == nil { (current, other) = (other, nil) }
        // A direct path that is far worse than the relay counts as failed.
        if preference == .auto,
            let relay = paths.values.filter({ $0.isRelay && $0.failedAt == nil })
                .min(by: { delay(of: $0) < delay(of: $1) })
        {
            for (id, path) in paths where !path.isRelay && path.failedAt == nil && isFarWorse(path, than: relay) {
                fail(id, at: now)
            }
        }
        guard other == nil else { return }
        guard let best = paths.keys.filter({ paths[$0].map(isAllowed) == true }).min(by: { isBetter($0, than: $1) })
        else { return }
        guard let current, let inUse = paths[current], let better = paths[best] else {
            self.current = best
            return
        }
        guard best != current else { return }
        let isOfAnotherKind =
            (better.failedAt == nil) != (inUse.failedAt == nil) || better.isRelay != inUse.isRelay
        if isOfAnotherKind || delay(of: better) + limits.hysteresis <= delay(of: inUse) {
            self.current = best
        }
    }
}
