// What an ACK frame settles: newly acknowledged packets, a round-trip sample, losses (RFC 9002 §5, §6.1).
extension Recovery {
    /// Takes an ACK frame in.
    ///
    /// - Parameters:
    ///   - space: the space of the packet it came in.
    ///   - blocks: the acknowledged numbers, largest first.
    ///   - delay: how long the peer waited, in nanoseconds.
    ///   - ecnCE: its count of packets marked as having met congestion.
    ///   - now: when it arrived.
    /// - Throws: ``AckViolation`` for a number never sent.
    package mutating func receivedAck(
        _ space: PacketSpace, blocks: borrowing [AckBlock], delay: Int64, ecnCE: UInt64?, at now: Timestamp
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
                    acknowledgedQueue.append((space, packet.content))
                case .outstanding:
                    let packet = spaces[index].take(number)
                    hasEliciting = true
                    if number == largest { largestTime = packet.time }
                    if packet.isInFlight {
                        let size = Int(packet.size)
                        bytesInFlight -= size
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
        guard hasEliciting else { return }

        if let largestTime {
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
        if let ecnCE, space == .application, ecnCE > ecnMarks {
            ecnMarks = ecnCE
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
        var run: (first: Timestamp, last: Timestamp, previous: UInt64)?
        var longest: Int64 = 0
        var previousLost: UInt64?
        while number < largest {
            guard spaces[index].state(number) == .outstanding else {
                // A packet nobody would acknowledge does not break a run of losses; a settled one does.
                if spaces[index].state(number) == .quiet, run?.previous == number - 1 { run?.previous = number }
                number += 1
                continue
            }
            let time = spaces[index].time(number)
            guard time <= lostBefore || largest >= number + reorderThreshold else {
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
                statistics.bytesLost += UInt64(size)
                delivery.lost(size: size)
                if !isProbe {
                    congestion.lost(
                        LossSample(
                            now: now, sentTime: packet.time, size: size, sentInFlight: packet.rate.inFlight,
                            lostSinceSent: delivery.lost - min(delivery.lost, packet.rate.lost),
                            isApplicationLimited: packet.rate.isApplicationLimited,
                            startsRun: previousLost.map { $0 + 1 != number } ?? true))
                }
                previousLost = number
                if let firstSampleTime, packet.time > firstSampleTime, !isProbe {
                    if let current = run, current.previous + 1 == number {
                        run = (current.first, packet.time, number)
                    } else {
                        run = (packet.time, packet.time, number)
                    }
                    if let run { longest = max(longest, run.last - run.first) }
                }
            }
            remember(packet, number: number, space: space, distance: largest - number, at: now)
            lostQueue.append((space, packet.content))
            number += 1
        }
        spaces[index].advance()
        // Two packets lost that far apart with everything between them (RFC 9002 §7.6).
        if longest > 3 * probeTimeout {
            statistics.persistentCongestions += 1
            congestion.persistentCongestion(inFlight: bytesInFlight)
        }
    }

    private mutating func remember(
        _ packet: borrowing SentPacket, number: UInt64, space: PacketSpace, distance: UInt64, at now: Timestamp
    ) {
        let index = space.rawValue
        if remembered[index].count >= Self.rememberedLosses {
            remembered[index].removeFirst(Self.rememberedLosses / 2)
        }
        remembered[index].append(
            LostPacket(
                number: number, declared: now, distance: distance, size: packet.isInFlight ? Int(packet.size) : 0,
                content: packet.content))
    }

    /// Notices packets declared lost that arrived after all, and waits longer from then on.
    private mutating func findAgain(_ space: PacketSpace, blocks: borrowing [AckBlock], at now: Timestamp) {
        let index = space.rawValue
        let horizon = now.advanced(nanoseconds: -2 * rtt.probeTimeout)
        var kept = 0
        var foundDistance: UInt64 = 0
        for position in 0..<remembered[index].count {
            let lost = remembered[index][position]
            if contains(lost.number, blocks) {
                statistics.packetsFound += 1
                delivery.foundAgain(size: lost.size)
                acknowledgedQueue.append((space, lost.content))
                foundDistance = max(foundDistance, lost.distance)
            } else if lost.declared > horizon {
                if kept != position { remembered[index][kept] = lost }
                kept += 1
            }
        }
        remembered[index].removeLast(remembered[index].count - kept)
        guard foundDistance > 0, space == .application else { return }
        reorderThreshold = max(reorderThreshold, min(foundDistance + 1, 300))
        // At most one step a round trip; never more than two round trips.
        if spaces[index].base >= spuriousEpoch {
            reorderEighths = min(reorderEighths + 1, 16)
            spuriousEpoch = spaces[index].next
        }
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
