// What an ACK frame settles: newly acknowledged packets, a round-trip sample, losses (RFC 9002 §5, §6.1).
extension Recovery {
    /// Takes an ACK frame in.
    ///
    /// - Parameters:
    ///   - space: the space of the packet it came in.
    ///   - ranges: the acknowledged numbers, largest first.
    ///   - delay: how long the peer waited, in nanoseconds.
    ///   - counts: its counts of packets by mark, if it has any.
    ///   - now: when it arrived.
    /// - Throws: ``AckViolation`` for a number never sent.
    package mutating func receivedAck(
        _ space: PacketSpace, ranges: borrowing [AckRange], delay: Int64, ecn counts: ECNCounts?, at now: Timestamp
    ) throws(AckViolation) {
        let index = space.rawValue
        guard !isDiscarded[index], ranges.count > 0 else { return }
        if let since = spaces[index].unansweredSince, now - since > Self.longestDelay { noteStandstill(at: now) }
        let largest = ranges[0].largest
        guard largest < spaces[index].next else { throw .unsentPacket }
        if let skipped = skipped[index], largest >= skipped {
            for position in 0..<ranges.count where ranges[position].largest >= skipped {
                if ranges[position].smallest <= skipped { throw .unsentPacket }
            }
        }
        let isNewLargest = spaces[index].largestAcknowledged.map { largest > $0 } ?? true
        if isNewLargest { spaces[index].largestAcknowledged = largest }

        var sample = AckSample()
        sample.now = now
        sample.priorInFlight = bytesInFlight
        var newest: (snapshot: RateSnapshot, time: Timestamp)?
        var largestTime: Timestamp?
        var hasEliciting = false
        var ages: (count: Int64, sum: Int64) = (0, 0)
        var markable = (count: 0, oldest: Timestamp.distantFuture)
        for position in 0..<ranges.count {
            let range = ranges[position]
            let floor = spaces[index].base
            // Ranges only get smaller: below the oldest outstanding number nothing is new.
            if range.largest < floor { break }
            var number = max(range.smallest, floor)
            while number <= range.largest {
                switch spaces[index].state(number) {
                case .empty:
                    break
                case .quiet:
                    let packet = spaces[index].take(number)
                    spaces[index].noteAcknowledged(number, sentAt: packet.time)
                    if packet.isMarkable { markable = (markable.count + 1, min(markable.oldest, packet.time)) }
                    acknowledgedQueue.append((space, packet.content))
                case .outstanding:
                    let packet = spaces[index].take(number)
                    hasEliciting = true
                    spaces[index].noteAcknowledged(number, sentAt: packet.time)
                    if packet.isMarkable { markable = (markable.count + 1, min(markable.oldest, packet.time)) }
                    if packet.isInFlight {
                        // What went another way, a probe of one or sent before a move, tells nothing of this path.
                        if number == largest { largestTime = packet.time }
                        let size = Int(packet.size)
                        bytesInFlight -= size
                        ages = (ages.count + 1, ages.sum + (now - packet.time))
                        path.blackHole.acknowledged(size: size, sentAt: packet.time)
                        sample.acknowledged += size
                        delivery.acknowledged(size: size, at: now)
                        if newest.map({ packet.time > $0.time || packet.rate.delivered >= $0.snapshot.delivered })
                            ?? true
                        {
                            newest = (packet.rate, packet.time)
                        }
                    }
                    acknowledgedQueue.append((space, packet.content))
                }
                number += 1
            }
        }
        spaces[index].advance()
        if !lostPackets[index].isEmpty { detectSpuriousLosses(space, ranges: ranges, at: now) }
        if path.reordering.isSeen, space == .application {
            path.reordering.relax(base: spaces[index].base, next: spaces[index].next)
        }
        var marks: UInt64 = 0
        // Frames that overtook each other prove nothing (RFC 9000 §13.4.2.1).
        if isNewLargest {
            marks = path.ecn.acknowledged(
                space, counts: counts, newlyAcknowledged: markable.count, oldestSentAt: markable.oldest)
        }
        guard hasEliciting else { return }
        lossShare.acknowledged(Int(ages.count))

        if path.reordering.isSeen, ages.count > 0 {
            // Where packets overtake each other the largest number is mostly of one that came early, and would have the
            // path look far shorter than it is: all that arrived count alike, and no delay is taken off.
            if isMeasurement(ages.sum / ages.count, at: now) {
                path.rtt.update(sample: ages.sum / ages.count, acknowledgementDelay: 0)
                if space == .application { path.delays.append(largest, path.rtt.adjusted) }
                path.reordering.recentRoundTrips.append(path.rtt.latest)
                sample.rtt = path.reordering.recentRoundTrips.lowerQuartile
                sample.forgetsMinimum = !path.reordering.recentRoundTrips.isMeaningful
            }
        } else if let largestTime, isMeasurement(now - largestTime, at: now) {
            // Before the handshake is done the delay is not believed (RFC 9002 §5.3).
            let believed = space == .application ? (isHandshakeConfirmed ? min(delay, peerMaxAckDelay) : delay) : 0
            path.rtt.update(sample: now - largestTime, acknowledgementDelay: max(0, believed))
            sample.rtt = path.rtt.latest
            if space == .application { path.delays.append(largest, path.rtt.adjusted) }
            if path.firstSampleTime == nil { path.firstSampleTime = now }
        }
        if space == .handshake { isPeerValidated = true }
        if isPeerValidated { path.probeCount = 0 }
        spaces[index].unansweredSince = nil
        antiDeadlockBase = now

        let lostBefore = statistics.bytesLost
        detectLosses(space, at: now)
        sample.lost = Int(statistics.bytesLost - lostBefore)
        if marks > 0 {
            statistics.congestionMarks += marks
            path.congestion.congestionExperienced(sentTime: newest?.time ?? now, at: now)
        }
        guard let newest else { return }
        delivery.complete(&sample, newest: newest.snapshot, sentTime: newest.time)
        sample.inFlight = bytesInFlight
        sample.latestRTT = path.rtt.adjusted
        sample.smoothedRTT = path.rtt.smoothed
        path.congestion.acknowledged(sample)
        if path.congestion.isHoldingBack { delivery.applicationLimited(inFlight: bytesInFlight) }
    }

    /// The time a packet may be late before it is lost.
    var lossDelay: Int64 {
        max(path.reordering.eighths * max(path.rtt.latest, path.rtt.smoothed) / 8, RTTEstimator.granularity)
    }

    /// Declares packets lost by number and by time (RFC 9002 §6.1).
    mutating func detectLosses(_ space: PacketSpace, at now: Timestamp) {
        let index = space.rawValue
        spaces[index].lossTime = nil
        guard let largest = spaces[index].largestAcknowledged else { return }
        let delay = lossDelay
        let lostBefore = now.advanced(nanoseconds: -delay)
        var number = spaces[index].base
        var run = spaces[index].run
        var isPersistent = false
        var previousLost: UInt64?
        while number < largest {
            guard spaces[index].state(number) == .outstanding else {
                // A packet nobody would acknowledge does not end a run of losses, nor a number left out; a settled one does.
                if spaces[index].state(number) == .empty, skipped[index] != number { run.acknowledged(number) }
                number += 1
                continue
            }
            let time = spaces[index].time(number)
            guard time <= lostBefore || largest - number >= path.reordering.threshold else {
                let due = time.advanced(nanoseconds: delay)
                spaces[index].lossTime = min(spaces[index].lossTime ?? due, due)
                number += 1
                continue
            }
            let packet = spaces[index].take(number)
            let isProbe = packet.content.control.contains(.pathProbe)
            if packet.isInFlight {
                let size = Int(packet.size)
                bytesInFlight -= size
                statistics.packetsLost += 1
                lossShare.lost()
                statistics.bytesLost += UInt64(size)
                if packet.isMarkable { path.ecn.lost(sentAt: packet.time) }
                if !isProbe {
                    delivery.lost(size: size)
                    path.blackHole.lost(size: size, sentAt: packet.time, now: now)
                    let startsRecoveryPeriod = path.recoveryPeriod.lost(sentAt: packet.time, now: now)
                    path.congestion.lost(
                        LossSample(
                            now: now, sentTime: packet.time, size: size,
                            rtt: max(path.rtt.adjusted, space == .application ? path.delays.delay(before: number) : 0),
                            sentInFlight: packet.rate.inFlight,
                            lostSinceSent: delivery.lost - min(delivery.lost, packet.rate.lost),
                            totalDelivered: delivery.delivered, isApplicationLimited: packet.rate.isApplicationLimited,
                            startsRun: previousLost.map { $0 + 1 != number } ?? true,
                            startsRecoveryPeriod: startsRecoveryPeriod))
                }
                previousLost = number
                // Only what was sent after a round trip was measured counts (RFC 9002 §7.6.2, appendix B.8).
                run.lost(
                    number, sentAt: packet.time,
                    counts: packet.isAckEliciting && !isProbe && path.firstSampleTime.map { packet.time > $0 } ?? false)
                if run.duration > 3 * probeTimeout { isPersistent = true }
            }
            noteLost(packet, number: number, space: space, at: now)
            lostQueue.append((space, packet.content))
            number += 1
        }
        spaces[index].advance()
        run.acknowledged(largest)
        spaces[index].run = run
        guard isPersistent, let start = run.start, isUnacknowledged(since: start, besides: space) else { return }
        statistics.persistentCongestions += 1
        path.congestion.persistentCongestion(inFlight: bytesInFlight)
        path.rtt.forgetMinimum()
        spaces[index].run.reset()
    }

    /// Tells whether no other space's packet sent since then has arrived; older ones that arrived are not told apart.
    private func isUnacknowledged(since start: Timestamp, besides space: PacketSpace) -> Bool {
        PacketSpace.allCases.allSatisfy { $0 == space || spaces[$0.rawValue].newestAcknowledged < start }
    }

    private mutating func noteLost(
        _ packet: borrowing SentPacket, number: UInt64, space: PacketSpace, at now: Timestamp
    ) {
        let index = space.rawValue
        // A lost probe of the path's size was no congestion, so neither is it false alarm when it turns up.
        let isCounted = packet.isInFlight && !packet.content.control.contains(.pathProbe)
        if lostPackets[index].count >= Self.lostPacketLimit {
            lostPackets[index].removeFirst(Self.lostPacketLimit / 2)
        }
        lostPackets[index].append(
            LostPacket(
                number: number, time: packet.time, declared: now, size: isCounted ? Int(packet.size) : 0,
                recoveryPeriod: path.recoveryPeriod.id, content: packet.content))
    }

    /// Notices packets declared lost that arrived after all, and waits longer from then on.
    private mutating func detectSpuriousLosses(_ space: PacketSpace, ranges: borrowing [AckRange], at now: Timestamp) {
        let index = space.rawValue
        let horizon = now.advanced(nanoseconds: -2 * path.rtt.probeTimeout)
        var kept = 0
        var hasFound = false
        var latest: Int64 = 0
        var run = spaces[index].run
        for position in 0..<lostPackets[index].count {
            let lost = lostPackets[index][position]
            if contains(lost.number, ranges) {
                statistics.spuriousLosses += 1
                lossShare.lossWasSpurious()
                delivery.lossWasSpurious(size: lost.size)
                run.lossWasSpurious(lost.number)
                acknowledgedQueue.append((space, lost.content))
                hasFound = true
                latest = max(latest, now - lost.time)
                if lost.size > 0 {
                    path.congestion.lossWasSpurious(
                        size: lost.size, isWholePeriod: path.recoveryPeriod.lossWasSpurious(lost.recoveryPeriod),
                        at: now)
                }
            } else if lost.declared > horizon {
                if kept != position { lostPackets[index][kept] = lost }
                kept += 1
            }
        }
        lostPackets[index].removeLast(lostPackets[index].count - kept)
        spaces[index].run = run
        guard hasFound, space == .application else { return }
        path.reordering.lossWasSpurious(age: latest, rtt: path.rtt, next: spaces[index].next)
    }

    private func contains(_ number: UInt64, _ ranges: borrowing [AckRange]) -> Bool {
        var low = 0
        var high = ranges.count
        while low < high {
            let middle = (low + high) >> 1
            if ranges[middle].smallest > number { low = middle + 1 } else { high = middle }
        }
        return low < ranges.count && ranges[low].largest >= number
    }
}
