/// What recovery has learned of one path, put away while another is in use.
struct PathEstimates: Sendable {
    /// How long it can be believed.
    static let lifetime: Int64 = .seconds(60)

    fileprivate var rtt: RTTEstimator
    fileprivate var congestion: CongestionControl
    fileprivate var taken: Timestamp
}

// Another path: other delay, other capacity (RFC 9000 §9.4). And a network that is back.
extension Recovery {
    /// Starts over on another path, or goes on with what was known of it.
    ///
    /// What is on its way stays to be acknowledged or lost, but says nothing about the new path.
    ///
    /// - Returns: what is known of the path that is left.
    mutating func changePath(to estimates: PathEstimates?, at now: Timestamp) -> PathEstimates {
        let left = PathEstimates(rtt: rtt, congestion: congestion, taken: now)
        pathChanged(at: now)
        if let estimates, now - estimates.taken < PathEstimates.lifetime {
            rtt = estimates.rtt
            congestion = estimates.congestion
            congestion.datagramSizeChanged(datagramSize)
        }
        let index = PacketSpace.application.rawValue
        bytesInFlight -= spaces[index].settleInFlight()
        return left
    }

    /// Takes what a challenge has measured of a path as its first round trip.
    mutating func seed(delay: Int64) {
        if !rtt.hasSample { rtt.update(sample: delay, acknowledgementDelay: 0) }
    }

    /// Ends the back-off of the probe time-out, and offers the oldest contents again for a probe now.
    mutating func probeNow(_ space: PacketSpace) {
        probeCount = 0
        offerOldest(space)
    }

    /// Offers the oldest contents on their way again, so that a probe carries what is most likely missing.
    mutating func offerOldest(_ space: PacketSpace, limit: Int = 2) {
        let index = space.rawValue
        var number = spaces[index].base
        var offered = 0
        while number < spaces[index].next, offered < limit {
            if spaces[index].state(number) == .outstanding {
                let content = spaces[index].content(number)
                if !content.isEmpty {
                    lostQueue.append((space, content))
                    offered += 1
                }
            }
            number += 1
        }
    }
}

extension SentPackets {
    /// Takes everything out of the count of bytes in flight, and answers how many there were.
    fileprivate mutating func settleInFlight() -> Int {
        var bytes = 0
        var number = base
        while number < next {
            bytes += leaveFlight(number)
            number += 1
        }
        return bytes
    }
}
