// What an ACK frame settles: newly acknowledged packets, a round-trip sample, losses (RFC 9002 §5, §6.1).
extension Recovery {
    /// Takes an ACK frame in.
    ///
    /// - Parameters:
    ///   - space: the space of the packet it came in.
    ///   - blocks: the acknowledged numbers, largest first.
    ///   - delay: how long the peer waited, in nanoseconds.
    ///   - counts: its counts of packets by mark, if it has any.
    ///   - now: when it arrived.
    /// - Throws: ``AckViolation`` for a number never sent.
    package mutating func receivedAck(
        _ space: PacketSpace, blocks: borrowing [AckBlock], delay: Int64, ecn counts: ECNCounts?, at now: Timestamp
    ) throws(AckViolation) {
        let index = space.rawValue
        guard !isDiscarded[index], blocks.count > 0 else { return }
        let largest = blocks[0].largest
        guard largest < spaces[index].next else { throw .unsentPacket }
        if let skipped = skipped[index], largest >= skipped {
            for position in 0..<blocks.count where blocks[position].largest >= skipped {
                if blocks[position].smallest <= skipped { throw .unsentPacket }
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
        for position in 0..<blocks.count {
            let block = blocks[position]
            let floor = spaces[index].base
            // Blocks only get smaller: below the oldest outstanding number nothing is new.
            if block.largest < floor { break }
            var number = max(block.smallest, floor)
            while number <= block.largest {
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
                        blackHole.acknowledged(size: size, sentAt: packet.time)
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
        if !remembered[index].isEmpty { findAgain(space, blocks: blocks, at: now) }
        if reorderThreshold == .max { relaxReordering(space) }
        var marks: UInt64 = 0
        // Frames that overtook each other prove nothing (RFC 9000 §13.4.2.1).
        if isNewLargest {
            marks = ecn.acknowledged(
                space, counts: counts, newlyAcknowledged: markable.count, oldestSentAt: markable.oldest)
        }
        guard hasEliciting else { return }
        lossShare.acknowledged(Int(ages.count))

        if reorderThreshold == .max, ages.count > 0 {
            // Where packets overtake each other the largest number is mostly of one that came early, and would have the
            // path look far shorter than it is: all that arrived count alike, and no delay is taken off.
            rtt.update(sample: ages.sum / ages.count, acknowledgementDelay: 0)
            recentRoundTrips.append(rtt.latest)
            sample.rtt = recentRoundTrips.lowerQuartile
            sample.forgetsMinimum = !recentRoundTrips.isMeaningful
        } else if let largestTime {
            // Before the handshake is done the delay is not believed (RFC 9002 §5.3).
            let believed = space == .application ? (isHandshakeConfirmed ? min(delay, peerMaxAckDelay) : delay) : 0
            rtt.update(sample: now - largestTime, acknowledgementDelay: max(0, believed))
            sample.rtt = rtt.latest
            if firstSampleTime == nil { firstSampleTime = now }
        }
        if space == .handshake { isPeerValidated = true }
        if isPeerValidated { probeCount = 0 }
        antiDeadlockBase = now

        let lostBefore = statistics.bytesLost
        detectLosses(space, at: now)
        sample.lost = Int(statistics.bytesLost - lostBefore)
        if marks > 0 {
            statistics.congestionMarks += marks
            congestion.congestionExperienced(sentTime: newest?.time ?? now, at: now)
        }
        guard let newest else { return }
        delivery.complete(&sample, newest: newest.snapshot, sentTime: newest.time)
        sample.inFlight = bytesInFlight
        sample.smoothedRTT = rtt.smoothed
        congestion.acknowledged(sample)
        if congestion.isHoldingBack { delivery.applicationLimited(inFlight: bytesInFlight) }
    }

    /// How late a packet may be before it is lost.
    var lossDelay: Int64 {
        max(reorderEighths * max(rtt.latest, rtt.smoothed) / 8, RTTEstimator.granularity)
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
            guard time <= lostBefore || largest - number >= reorderThreshold else {
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
                if packet.isMarkable { ecn.lost(sentAt: packet.time) }
                if !isProbe {
                    delivery.lost(size: size)
                    blackHole.lost(size: size, sentAt: packet.time, now: now)
                    let startsEpisode = episode.lost(sentAt: packet.time, now: now)
                    congestion.lost(
                        LossSample(
                            now: now, sentTime: packet.time, size: size, sentInFlight: packet.rate.inFlight,
                            lostSinceSent: delivery.lost - min(delivery.lost, packet.rate.lost),
                            totalDelivered: delivery.delivered, isApplicationLimited: packet.rate.isApplicationLimited,
                            startsRun: previousLost.map { $0 + 1 != number } ?? true, startsEpisode: startsEpisode))
                }
                previousLost = number
                // Only what was sent after a round trip was measured counts (RFC 9002 §7.6.2, appendix B.8).
                run.lost(
                    number, sentAt: packet.time,
                    counts: packet.isAckEliciting && !isProbe && firstSampleTime.map { packet.time > $0 } ?? false)
                if run.duration > 3 * probeTimeout { isPersistent = true }
            }
            remember(packet, number: number, space: space, at: now)
            lostQueue.append((space, packet.content))
            number += 1
        }
        spaces[index].advance()
        run.acknowledged(largest)
        spaces[index].run = run
        guard isPersistent, let start = run.start, isUnacknowledged(since: start, besides: space) else { return }
        statistics.persistentCongestions += 1
        congestion.persistentCongestion(inFlight: bytesInFlight)
        rtt.forgetMinimum()
        spaces[index].run.reset()
    }

    /// Whether no other space's packet sent since then has arrived; what arrived of older ones is not told apart.
    private func isUnacknowledged(since start: Timestamp, besides space: PacketSpace) -> Bool {
        PacketSpace.allCases.allSatisfy { $0 == space || spaces[$0.rawValue].newestAcknowledged < start }
    }

    private mutating func remember(
        _ packet: borrowing SentPacket, number: UInt64, space: PacketSpace, at now: Timestamp
    ) {
        let index = space.rawValue
        // A lost probe of the path's size was no congestion, so neither is it false alarm when it turns up.
        let isCounted = packet.isInFlight && !packet.content.control.contains(.pathProbe)
        if remembered[index].count >= Self.rememberedLosses {
            remembered[index].removeFirst(Self.rememberedLosses / 2)
        }
        remembered[index].append(
            LostPacket(
                number: number, time: packet.time, declared: now, size: isCounted ? Int(packet.size) : 0,
                episode: episode.number, content: packet.content))
    }

    /// Notices packets declared lost that arrived after all, and waits longer from then on.
    private mutating func findAgain(_ space: PacketSpace, blocks: borrowing [AckBlock], at now: Timestamp) {
        let index = space.rawValue
        let horizon = now.advanced(nanoseconds: -2 * rtt.probeTimeout)
        var kept = 0
        var hasFound = false
        var latest: Int64 = 0
        var run = spaces[index].run
        for position in 0..<remembered[index].count {
            let lost = remembered[index][position]
            if contains(lost.number, blocks) {
                statistics.packetsFound += 1
                lossShare.found()
                delivery.foundAgain(size: lost.size)
                run.found(lost.number)
                acknowledgedQueue.append((space, lost.content))
                hasFound = true
                latest = max(latest, now - lost.time)
                if lost.size > 0 {
                    congestion.lossWasSpurious(
                        size: lost.size, isWholeEpisode: episode.found(episode: lost.episode), at: now)
                }
            } else if lost.declared > horizon {
                if kept != position { remembered[index][kept] = lost }
                kept += 1
            }
        }
        remembered[index].removeLast(remembered[index].count - kept)
        spaces[index].run = run
        guard hasFound, space == .application else { return }
        if reorderThreshold != .max { recentRoundTrips = RecentRoundTrips() }
        // Where packets overtake each other, how many did says nothing: only time counts (as in RFC 8985 §6.2).
        reorderThreshold = .max
        quietRounds = 0
        // As long as it took this one, and a little; never more than two round trips.
        let needed = 8 * latest / max(rtt.latest, rtt.smoothed, 1) + 1
        reorderEighths = min(max(reorderEighths, needed), 16)
        spuriousEpoch = spaces[index].next
    }

    /// Expects reordering a little less after many round trips without any.
    private mutating func relaxReordering(_ space: PacketSpace) {
        let index = space.rawValue
        guard space == .application, reorderThreshold == .max, spaces[index].base >= spuriousEpoch else { return }
        spuriousEpoch = spaces[index].next
        quietRounds += 1
        guard quietRounds >= Self.reorderPersistence else { return }
        quietRounds = 0
        if reorderEighths > 9 { reorderEighths -= 1 } else { reorderThreshold = Self.packetThreshold }
    }

    private func contains(_ number: UInt64, _ blocks: borrowing [AckBlock]) -> Bool {
        var low = 0
        var high = blocks.count
        while low < high {
            let middle = (low + high) >> 1
            if blocks[middle].smallest > number { low = middle + 1 } else { high = middle }
        }
        return low < blocks.count && blocks[low].largest >= number
    }
}
