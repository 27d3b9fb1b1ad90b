// Everything that happens because time passes.
extension QUICConnection {
    /// The time to call ``timedOut(at:)``; nil when nothing is waited for.
    public var nextDeadline: Timestamp? {
        switch phase {
        case .drained: return nil
        case .closing, .draining: return closing.end
        case .handshaking, .established: break
        }
        var earliest = recovery.deadline ?? .distantFuture
        func consider(_ time: Timestamp?) {
            if let time, time < earliest { earliest = time }
        }
        // What the limit of an unproven address holds back waits for the peer, not for time.
        if !recovery.isAmplificationBlocked {
            consider(spaces[.application].received.deadline)
            consider(pacedUntil)
        }
        consider(idleDeadline)
        consider(keepAliveDeadline)
        consider(pathDeadline)
        consider(keys.previousExpiry)
        if phase == .handshaking {
            consider(created.advanced(by: configuration.handshakeTimeout))
            guard !recovery.isAmplificationBlocked else { return earliest }
            consider(spaces[.initial].received.deadline)
            consider(spaces[.handshake].received.deadline)
        }
        return earliest == .distantFuture ? nil : earliest
    }

    private var idleDeadline: Timestamp? {
        guard idleTimeout > 0 else { return nil }
        // Never so short that a lost packet could not be repeated (RFC 9000 §10.1).
        return lastActivity.advanced(nanoseconds: max(idleTimeout, 3 * recovery.probeTimeout))
    }

    private var keepAliveDeadline: Timestamp? {
        guard phase == .established, !isPingPending, let keepAlive else { return nil }
        return max(lastActivity, lastKeepAlive).advanced(by: keepAlive)
    }

    /// The time since when the peer owes a sign of life: something that wants an answer was sent, and nothing has come
    /// since; nil while nothing is owed.
    public var unheardSince: Timestamp? { hasSentSinceReceipt ? lastActivity : nil }

    /// Says that time has passed; nothing happens before ``nextDeadline``.
    public mutating func timedOut(at now: Timestamp) {
        switch phase {
        case .drained: return
        case .closing, .draining:
            if let end = closing.end, end <= now { becomeDrained() }
            return
        case .handshaking, .established: break
        }
        beforePLPMTUDProbe = nil
        if spaces[.application].received.repeatIfDue(at: now) {
            isPingPending = true
            streams.repeatLimits()
        }
        if let pacedUntil, pacedUntil <= now { self.pacedUntil = nil }
        if let idleDeadline, idleDeadline <= now {
            finish(.idleTimeout, at: now)
            return
        }
        if phase == .handshaking, created.advanced(by: configuration.handshakeTimeout) <= now {
            finish(.handshakeTimeout, at: now)
            return
        }
        if let expiry = keys.previousExpiry, expiry <= now {
            if keys.firstReceived == nil {
                // We updated and the peer has not followed yet: what it sends still needs the old keys.
                keys.previousExpiry = now.advanced(nanoseconds: 3 * recovery.probeTimeout)
            } else {
                keys.previousRead = nil
                keys.previousExpiry = nil
            }
        }
        if let keepAliveDeadline, keepAliveDeadline <= now {
            // An unanswered one is repeated by the probe time-out, not at once by this timer. It starts that anew, though,
            // which would never pass once it is longer than the time between two of these.
            if path.consecutiveProbes > 0 {
                noteSilence(since: recovery.spaces[PacketSpace.application.rawValue].lastAckEliciting)
            }
            lastKeepAlive = now
            isPingPending = true
        }
        pathsTimedOut(at: now)
        if let deadline = recovery.deadline, deadline <= now { recoveryTimedOut(at: now) }
    }

    private mutating func recoveryTimedOut(at now: Timestamp) {
        let since = recovery.unansweredSince
        switch recovery.timedOut(at: now) {
        case .none: break
        case .lossDetected: processLost(at: now)
        case .probe(let space, let packets):
            processLost(at: now)
            // The peer is stopped and asks for nothing: two packets with the new limit may not be enough.
            if space == .application, streams.repeatLimits() {
                spaces[space.rawValue].received.beginRepeats(at: now, isCertain: true)
            }
            spaces[space.rawValue].probes = packets
            if space == .initial { repeatEarlyData(at: now) }
            path.consecutiveProbes += 1
            noteSilence(since: since)
            tryOtherPaths(at: now)
            // Large packets may have stopped getting through.
            if path.consecutiveProbes == 3 { fallBackToSmallest(at: now) }
        }
    }

    /// A probe time-out has passed, or it is time for a keep-alive after one: tells the driver when nothing has come
    /// since a packet was sent.
    private mutating func noteSilence(since sent: Timestamp?) {
        guard phase == .established, let sent, traffic.lastReceived.map({ $0 <= sent }) ?? true else { return }
        events.append(.peerSilent(path.address))
    }
}
