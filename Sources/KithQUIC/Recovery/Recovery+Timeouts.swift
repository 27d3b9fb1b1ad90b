// When something has to happen without an acknowledgement: losses by time, probe time-outs (RFC 9002 §6.2).
extension Recovery {
    /// The longest time between two probes, however long nothing has been heard.
    static let maximumProbeInterval: Int64 = .seconds(4)
    /// The longest time by which a probe time-out is late because a processor was busy.
    static let longestDelay: Int64 = .seconds(1)

    /// The time to call ``timedOut(at:)``; pacing is separate.
    package var deadline: Timestamp? {
        let copy = nextRepeat
        if let loss = earliestLoss { return copy.map { min($0, loss.time) } ?? loss.time }
        guard !isAmplificationBlocked else { return nil }
        guard let probe = nextProbe else { return copy }
        return copy.map { min($0, probe.time) } ?? probe.time
    }

    private var earliestLoss: (time: Timestamp, space: PacketSpace)? {
        var earliest: (time: Timestamp, space: PacketSpace)?
        for space in PacketSpace.allCases {
            if let time = spaces[space.rawValue].lossTime, earliest.map({ time < $0.time }) ?? true {
                earliest = (time, space)
            }
        }
        return earliest
    }

    private var backoff: Int64 { 1 << Int64(min(path.probeCount, Self.maximumBackoff)) }

    /// The next probe time-out, its space, and the time of the packet it is counted from.
    private var nextProbe: (time: Timestamp, space: PacketSpace, from: Timestamp)? {
        let base = path.rtt.probeTimeout
        var earliest: (time: Timestamp, space: PacketSpace, from: Timestamp)?
        for space in PacketSpace.allCases where !isDiscarded[space.rawValue] {
            let packets = spaces[space.rawValue]
            guard packets.outstanding > 0, let last = packets.lastAckEliciting else { continue }
            var (span, from) = (base, last)
            if space == .application {
                // Before confirmation the peer may be unable to read 1-RTT packets.
                guard isHandshakeConfirmed else { continue }
                span += peerMaxAckDelay
                // RFC 9002 begins anew with each packet: whoever sends more often than that would never notice that nobody
                // answers (Documentation/Deviations.md).
                if let since = packets.unansweredSince { from = since }
            }
            // RFC 9002 doubles without end; a path that comes back unannounced is to be found within seconds
            // (Documentation/Deviations.md).
            let time = from.advanced(nanoseconds: min(span * backoff, max(span, Self.maximumProbeInterval)))
            if earliest.map({ time < $0.time }) ?? true { earliest = (time, space, from) }
        }
        if earliest == nil, !isPeerValidated, let antiDeadlockBase {
            let time = antiDeadlockBase.advanced(nanoseconds: base * backoff)
            return (time, hasHandshakeKeys ? .handshake : .initial, antiDeadlockBase)
        }
        return earliest
    }

    /// Notes that this process stood still, or its machine slept, when a probe time-out is long overdue.
    ///
    /// How long an acknowledgement took that waited meanwhile tells nothing of the path.
    mutating func noteStandstill(at now: Timestamp) {
        if let probe = nextProbe, now - probe.time > Self.longestDelay { standstillEnd = now }
    }

    /// Returns whether a packet's age measures the path: it was sent after this process last stood still.
    func isMeasurement(_ age: Int64, at now: Timestamp) -> Bool { standstillEnd.map { age <= now - $0 } ?? true }

    /// The time of the packet that the next probe time-out is counted from.
    var unansweredSince: Timestamp? { nextProbe?.from }

    /// Says that the deadline has passed.
    package mutating func timedOut(at now: Timestamp) -> TimeoutAction {
        if let copy = nextRepeat, copy <= now {
            repeatFlight(at: now)
            return .lossDetected
        }
        if let loss = earliestLoss {
            guard loss.time <= now else { return .none }
            detectLosses(loss.space, at: now)
            return .lossDetected
        }
        guard !isAmplificationBlocked, let probe = nextProbe, probe.time <= now else { return .none }
        noteStandstill(at: now)
        path.probeCount += 1
        statistics.probes += 1
        path.ecn.timedOut(count: path.probeCount)
        let index = probe.space.rawValue
        spaces[index].unansweredSince = nil
        guard spaces[index].outstanding > 0 else {
            antiDeadlockBase = now
            return .probe(probe.space, packets: 1)
        }
        offerOldest(probe.space)
        return .probe(probe.space, packets: 2)
    }
}
