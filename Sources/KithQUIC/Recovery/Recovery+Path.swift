extension Recovery {
    /// The state of the path in use: one value, which a move replaces whole (RFC 9000 §9.4).
    ///
    /// Packets, their numbers and the counters stay with the connection.
    package struct Path: Sendable {
        /// The path's place among those the connection has used; tells it from the ones before.
        let number: UInt32

        /// The congestion controller: how much may be in flight, and how fast it is sent.
        var congestion: CongestionControl
        var pacer: Pacer
        var recoveryPeriod: RecoveryPeriod
        /// The round-trip time.
        var rtt: RTTEstimator
        /// The time of its first measurement.
        var firstSampleTime: Timestamp?
        /// The round trips around a loss.
        var delays = DelayTrail()
        /// The extent to which packets overtake each other.
        var reordering = Reordering()
        /// Probe time-outs in a row.
        var probeCount = 0
        /// Indicates whether it keeps congestion marks.
        var ecn: ECNValidation
        /// The search for the largest datagram the path carries.
        var mtu = PathMTUDiscovery()
        /// The size of a full datagram's UDP payload now.
        private(set) var datagramSize: Int
        var blackHole = BlackHoleDetection()
        /// Indicates whether a server must not send until the client's address is validated (RFC 9000 §8.1).
        var isAmplificationBlocked = false

        /// The path a connection begins on.
        init(_ configuration: RecoveryConfiguration) {
            self.init(
                configuration, number: 0, seed: configuration.seed,
                ecn: ECNValidation(isEnabled: configuration.marksECN))
        }

        private init(
            _ configuration: RecoveryConfiguration, number: UInt32, seed: UInt64, ecn: ECNValidation
        ) {
            self.number = number
            self.ecn = ecn
            datagramSize = configuration.maxDatagramSize
            rtt = RTTEstimator(initial: configuration.initialRTT)
            pacer = Pacer(datagramSize: configuration.maxDatagramSize)
            recoveryPeriod = RecoveryPeriod(path: number)
            congestion = CongestionControl(
                configuration.controller, datagramSize: configuration.maxDatagramSize,
                initialRTT: configuration.initialRTT, seed: seed)
        }

        /// The path the connection goes on along: nothing is known of it but what `estimates` say.
        ///
        /// The congestion marks that the peer has counted so far stay the base (RFC 9000 §9.4).
        func successor(
            _ configuration: RecoveryConfiguration, seed: UInt64, knowing estimates: PathEstimates?, at now: Timestamp
        ) -> Path {
            var next = Path(
                configuration, number: number &+ 1, seed: seed,
                ecn: ecn.successor(isEnabled: configuration.marksECN, at: now))
            if let estimates, estimates.areBelieved(at: now) {
                next.rtt = estimates.path.rtt
                next.congestion = estimates.path.congestion
                next.congestion.datagramSizeChanged(next.datagramSize)
            }
            return next
        }

        /// Notes that datagrams have another size from now on.
        mutating func setDatagramSize(_ size: Int) {
            datagramSize = size
            blackHole.clear()
            congestion.datagramSizeChanged(size)
        }
    }
}

/// The extent to which a path's packets overtake each other, and so the time to wait for one (RFC 9002 §6.1).
struct Reordering: Sendable {
    /// By how many numbers a packet may be late; without bound where time alone counts.
    var threshold = Recovery.packetThreshold
    /// By how many eighths of a round trip a packet may be late.
    var eighths: Int64 = 9
    var recentRoundTrips = RecentRoundTrips()
    /// The number after which a round trip without a spurious loss has passed.
    private var epoch: UInt64 = 0
    private var quietRounds = 0

    /// Indicates whether packets have been seen to overtake each other: only time counts then.
    var isSeen: Bool { threshold == .max }

    /// Waits longer from now on: a packet of that age, declared lost, has arrived (as in RFC 8985 §6.2).
    mutating func lossWasSpurious(age: Int64, rtt: RTTEstimator, next: UInt64) {
        if !isSeen { recentRoundTrips = RecentRoundTrips() }
        // Where packets overtake each other, how many did says nothing.
        threshold = .max
        quietRounds = 0
        // As long as it took this one, and a little; never more than two round trips.
        let needed = 8 * age / max(rtt.latest, rtt.smoothed, 1) + 1
        eighths = min(max(eighths, needed), 16)
        epoch = next
    }

    /// Expects reordering a little less after many round trips without any.
    ///
    /// - Parameters:
    ///   - base: the oldest number on its way.
    ///   - next: the number of the next packet.
    mutating func relax(base: UInt64, next: UInt64) {
        guard isSeen, base >= epoch else { return }
        epoch = next
        quietRounds += 1
        guard quietRounds >= Recovery.reorderPersistence else { return }
        quietRounds = 0
        if eighths > 9 { eighths -= 1 } else { threshold = Recovery.packetThreshold }
    }
}

/// The estimates recovery has made of one path, put away while another is in use.
struct PathEstimates: Sendable {
    /// The time for which they can be believed.
    static let lifetime: Int64 = .seconds(60)

    let path: Recovery.Path
    let taken: Timestamp

    func areBelieved(at now: Timestamp) -> Bool { now - taken < Self.lifetime }
}

// Another path: other delay, other capacity (RFC 9000 §9.4). And a network that is back.
extension Recovery {
    /// Starts over on another path, or goes on with what was known of it.
    ///
    /// Packets in flight stay to be acknowledged or lost, but say nothing about the new path.
    ///
    /// - Returns: what is known of the path that is left.
    mutating func changePath(to estimates: PathEstimates?, at now: Timestamp) -> PathEstimates {
        let left = PathEstimates(path: path, taken: now)
        path = path.successor(
            configuration, seed: configuration.seed &+ statistics.packetsSent, knowing: estimates, at: now)
        for index in spaces.indices { spaces[index].run.reset() }
        let index = PacketSpace.application.rawValue
        bytesInFlight -= spaces[index].removeAllFromFlight()
        spaces[index].unansweredSince = nil
        return left
    }

    /// Takes what a challenge has measured of a path as its first round trip.
    mutating func seed(delay: Int64) {
        if !path.rtt.hasSample { path.rtt.update(sample: delay, acknowledgementDelay: 0) }
    }

    /// Ends the back-off of the probe time-out, and offers the oldest contents again for a probe now.
    mutating func probeNow(_ space: PacketSpace) {
        path.probeCount = 0
        spaces[space.rawValue].unansweredSince = nil
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
    fileprivate mutating func removeAllFromFlight() -> Int {
        var bytes = 0
        var number = base
        while number < next {
            bytes += leaveFlight(number)
            number += 1
        }
        return bytes
    }
}
