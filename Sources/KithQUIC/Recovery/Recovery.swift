/// How recovery starts out.
package struct RecoveryConfiguration: Sendable {
    /// The size of a full datagram's UDP payload.
    package var maxDatagramSize = 1200
    /// The round trip assumed before the first sample.
    package var initialRTT: Int64 = .milliseconds(333)
    /// The longest the peer waits with acknowledgements, until its transport parameters say otherwise.
    package var maxAckDelay: Int64 = .milliseconds(25)
    /// The congestion controller.
    package var controller = CongestionControllerKind.bbr
    /// Where the controller's random choices start.
    package var seed: UInt64 = 0
    /// Whether packets are sent as able to carry congestion marks, as long as the path keeps them.
    package var marksECN = true

    package init() {}
}

/// What recovery has counted.
package struct RecoveryStatistics: Hashable, Sendable {
    /// Packets sent.
    package var packetsSent: UInt64 = 0
    /// Packets declared lost.
    package var packetsLost: UInt64 = 0
    /// Their bytes.
    package var bytesLost: UInt64 = 0
    /// Packets declared lost that were acknowledged later.
    package var packetsFound: UInt64 = 0
    /// Probe time-outs.
    package var probes: UInt64 = 0
    /// Packets the network marked as having met congestion.
    package var congestionMarks: UInt64 = 0
    /// Times persistent congestion was found.
    package var persistentCongestions: UInt64 = 0
}

/// Loss detection and congestion control of one connection (RFC 9002): what was sent, what arrived, what is lost, when to
/// probe, how much may be sent.
///
/// Contents of acknowledged and lost packets are queued for the connection to drain with ``nextAcknowledged()`` and
/// ``nextLost()``. Nothing allocates per packet once the tables have grown to the path.
package struct Recovery: Sendable {
    static let packetThreshold: UInt64 = 3
    /// Round trips without a loss that was none after which reordering is expected a little less.
    static let reorderPersistence = 16
    static let maximumBackoff = 10
    static let rememberedLosses = 512

    let isClient: Bool
    let configuration: RecoveryConfiguration
    var spaces: [SentPackets]
    var isDiscarded: [Bool] = [false, false, false]
    var congestion: CongestionControl
    var pacer: Pacer
    var delivery = DeliveryRate()
    var datagramSize: Int
    var probeCount = 0
    var lossShare = LossShare()
    /// How many copies of what was sent last are still to be sent, and when one was last offered.
    var repeatsLeft = 0
    var repeatedAt: Timestamp?
    var hasHandshakeKeys = false
    var isHandshakeConfirmed = false
    var isPeerValidated: Bool
    /// Since when a client without anything in flight waits for the server (RFC 9002 §6.2.2.1).
    var antiDeadlockBase: Timestamp?
    var reorderThreshold = Recovery.packetThreshold
    var recentRoundTrips = RecentRoundTrips()
    /// By how many eighths of a round trip a packet may be late.
    var reorderEighths: Int64 = 9
    var spuriousEpoch: UInt64 = 0
    var quietRounds = 0
    var firstSampleTime: Timestamp?
    var ecn: ECNValidation
    var episode = LossEpisode()
    var blackHole = BlackHole()
    /// The newest number left out of each space.
    var skipped: [UInt64?] = [nil, nil, nil]
    var remembered: [[LostPacket]] = [[], [], []]

    var acknowledgedQueue = DrainQueue<(PacketSpace, SentContent)>()
    var lostQueue = DrainQueue<(PacketSpace, SentContent)>()

    /// The round-trip time.
    package internal(set) var rtt: RTTEstimator
    /// The bytes of packets on their way.
    package internal(set) var bytesInFlight = 0
    /// What has been counted.
    package internal(set) var statistics = RecoveryStatistics()
    /// The longest the peer waits with acknowledgements.
    package var peerMaxAckDelay: Int64
    /// Whether a server must not send until the client's address is validated; no probe is due while so.
    package var isAmplificationBlocked = false

    package init(_ configuration: RecoveryConfiguration, isClient: Bool) {
        self.configuration = configuration
        self.isClient = isClient
        isPeerValidated = !isClient
        rtt = RTTEstimator(initial: configuration.initialRTT)
        spaces = [SentPackets(), SentPackets(), SentPackets()]
        datagramSize = configuration.maxDatagramSize
        peerMaxAckDelay = configuration.maxAckDelay
        pacer = Pacer(datagramSize: configuration.maxDatagramSize)
        ecn = ECNValidation(isEnabled: configuration.marksECN)
        congestion = CongestionControl(
            configuration.controller, datagramSize: configuration.maxDatagramSize,
            initialRTT: configuration.initialRTT, seed: configuration.seed)
    }

    /// The most bytes that may be in flight.
    package var congestionWindow: Int { congestion.congestionWindow }

    /// Bytes a second packets are spread at.
    package var pacingRate: Int64 { congestion.pacingRate }

    /// The probe time-out of 1-RTT packets without backoff; close and idle timers are multiples of it.
    package var probeTimeout: Int64 { rtt.probeTimeout + peerMaxAckDelay }

    // MARK: - State of the connection

    /// Says that Handshake packets can be sent.
    package mutating func handshakeKeysAvailable() {
        hasHandshakeKeys = true
    }

    /// Says that the server has certainly validated our address.
    package mutating func addressValidated() {
        isPeerValidated = true
    }

    /// Says that the handshake is confirmed: 1-RTT packets are probed for from now on.
    package mutating func handshakeConfirmed() {
        isHandshakeConfirmed = true
        isPeerValidated = true
    }

    /// Forgets a space whose keys are gone (RFC 9002 §6.4).
    package mutating func discard(_ space: PacketSpace, at now: Timestamp) {
        guard !isDiscarded[space.rawValue] else { return }
        isDiscarded[space.rawValue] = true
        withdraw(space)
        probeCount = 0
        antiDeadlockBase = now
    }

    /// Offers the contents of all packets of a space again: the server sent a Retry, or has not answered at all.
    mutating func resend(_ space: PacketSpace) {
        giveUp(space, offeringAgain: true)
    }

    /// Forgets the packets of a space, which goes on with the next number: they were rejected early data.
    mutating func withdraw(_ space: PacketSpace) {
        giveUp(space, offeringAgain: false)
        remembered[space.rawValue] = []
    }

    /// Offers everything sent in Initial packets again: the server sent a Retry.
    package mutating func retried(at now: Timestamp) {
        resend(.initial)
        probeCount = 0
        antiDeadlockBase = now
    }

    /// Waits no longer for any packet of a space, and queues their contents as lost when they are to be sent again.
    private mutating func giveUp(_ space: PacketSpace, offeringAgain: Bool) {
        let index = space.rawValue
        var number = spaces[index].base
        while number < spaces[index].next {
            if spaces[index].state(number) == .outstanding {
                let packet = spaces[index].take(number)
                if packet.isInFlight { bytesInFlight -= Int(packet.size) }
                if offeringAgain { lostQueue.append((space, packet.content)) }
            }
            number += 1
        }
        spaces[index].advance()
        spaces[index].lossTime = nil
        spaces[index].lastAckEliciting = nil
    }

    /// Starts over on another path: its delay and its capacity are unknown (RFC 9000 §9.4).
    package mutating func pathChanged(at now: Timestamp) {
        rtt = RTTEstimator(initial: configuration.initialRTT)
        congestion = CongestionControl(
            configuration.controller, datagramSize: datagramSize, initialRTT: configuration.initialRTT,
            seed: configuration.seed &+ statistics.packetsSent)
        pacer = Pacer(datagramSize: datagramSize)
        ecn.pathChanged(isEnabled: configuration.marksECN, at: now)
        for index in spaces.indices { spaces[index].run.reset() }
        reorderThreshold = Self.packetThreshold
        recentRoundTrips = RecentRoundTrips()
        reorderEighths = 9
        probeCount = 0
        firstSampleTime = nil
    }

    /// Says that datagrams have another size from now on.
    package mutating func setMaxDatagramSize(_ size: Int) {
        datagramSize = size
        blackHole.clear()
        congestion.datagramSizeChanged(size)
    }

    // MARK: - Sending

    /// The number the next packet of a space gets.
    package func nextPacketNumber(_ space: PacketSpace) -> UInt64 { spaces[space.rawValue].next }

    /// The largest number the peer has acknowledged in a space.
    package func largestAcknowledged(_ space: PacketSpace) -> UInt64? { spaces[space.rawValue].largestAcknowledged }

    /// Leaves a number out, to catch a peer that acknowledges what it never got (RFC 9000 §21.4).
    package mutating func skipPacketNumber(_ space: PacketSpace) {
        skipped[space.rawValue] = spaces[space.rawValue].next
        spaces[space.rawValue].skip()
    }

    /// Whether packets that are counted against the window may be sent now, and how many bytes of them.
    package mutating func permission(at now: Timestamp) -> SendPermission {
        let room = congestion.congestionWindow - bytesInFlight
        guard room >= datagramSize else { return .congestionBlocked }
        switch pacer.permission(rate: congestion.pacingRate, datagramSize: datagramSize, at: now) {
        case .bytes(let count): return .bytes(max(datagramSize, min(count, room)))
        case let other: return other
        }
    }

    /// Whether large packets have stopped arriving while small ones do; ``setMaxDatagramSize(_:)`` answers it.
    package var isBlackHole: Bool { blackHole.isFound }

    /// Whether the datagrams written now are to be sent as ECT(0), and their packets noted so.
    package var isMarkingECN: Bool { ecn.isMarking }

    /// Says that a batch of datagrams, all marked alike, has been written.
    package mutating func batchEnded() { ecn.batchEnded() }

    /// Notes that the packet with the space's next number was sent; `isMarkable` says as ECT(0).
    package mutating func sent(
        _ space: PacketSpace, size: Int, isAckEliciting: Bool, isInFlight: Bool, isMarkable: Bool = false,
        content: consuming SentContent, at now: Timestamp
    ) {
        statistics.packetsSent += 1
        var packet = SentPacket()
        packet.state = isAckEliciting || isInFlight ? .outstanding : .quiet
        packet.isInFlight = isInFlight
        packet.isAckEliciting = isAckEliciting
        packet.isMarkable = isMarkable
        if isMarkable { ecn.sent(space) }
        packet.size = UInt16(clamping: size)
        packet.time = now
        if space == .application, isAckEliciting, !content.isEmpty { noteForRepeats(at: now) }
        packet.content = content
        if isInFlight {
            bytesInFlight += size
            packet.rate = delivery.sent(size: size, inFlight: bytesInFlight, at: now)
            congestion.sent(
                size: size, inFlight: bytesInFlight, isApplicationLimited: delivery.isApplicationLimited, at: now)
            pacer.sent(size: size, datagramSize: datagramSize)
        }
        spaces[space.rawValue].append(packet)
        if antiDeadlockBase == nil || isAckEliciting { antiDeadlockBase = now }
    }

    /// Says that there was nothing more to send although it was allowed: rates measured now understate the path.
    package mutating func applicationLimited() {
        if congestion.congestionWindow - bytesInFlight >= datagramSize {
            delivery.applicationLimited(inFlight: bytesInFlight)
        }
    }

    // MARK: - Draining

    /// The content of the next packet that was acknowledged.
    package mutating func nextAcknowledged() -> (space: PacketSpace, content: SentContent)? {
        acknowledgedQueue.next().map { (space: $0.0, content: $0.1) }
    }

    /// The content of the next packet that has to be sent again.
    package mutating func nextLost() -> (space: PacketSpace, content: SentContent)? {
        lostQueue.next().map { (space: $0.0, content: $0.1) }
    }

    /// How many packet records are held, for tests of bounds.
    package var bookkeeping: Int {
        spaces.reduce(0) { $0 + $1.capacity } + remembered.reduce(0) { $0 + $1.count }
    }
}

/// A queue filled by one call and emptied before the next, which keeps its memory.
struct DrainQueue<Element: Sendable>: Sendable {
    private var elements: [Element] = []
    private var position = 0

    mutating func append(_ element: consuming Element) {
        elements.append(element)
    }

    mutating func next() -> Element? {
        guard position < elements.count else {
            if position > 0 {
                elements.removeAll(keepingCapacity: elements.capacity <= 4096)
                position = 0
            }
            return nil
        }
        defer { position += 1 }
        return elements[position]
    }
}
