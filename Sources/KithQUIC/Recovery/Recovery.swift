/// The configuration recovery starts out with.
package struct RecoveryConfiguration: Sendable {
    /// The size of a full datagram's UDP payload.
    package var maxDatagramSize = 1200
    /// The round trip assumed before the first sample.
    package var initialRTT: Int64 = .milliseconds(333)
    /// The longest the peer waits with acknowledgements, until its transport parameters say otherwise.
    package var maxAckDelay: Int64 = .milliseconds(25)
    /// The congestion controller.
    package var controller = CongestionControllerKind.bbr
    /// The seed of the controller's random choices.
    package var seed: UInt64 = 0
    /// Indicates whether packets are sent as able to carry congestion marks, as long as the path keeps them.
    package var marksECN = true

    package init() {}
}

/// The counts recovery keeps.
package struct RecoveryStatistics: Hashable, Sendable {
    /// Packets sent.
    package var packetsSent: UInt64 = 0
    /// Packets declared lost.
    package var packetsLost: UInt64 = 0
    /// Their bytes.
    package var bytesLost: UInt64 = 0
    /// Packets declared lost that were acknowledged later.
    package var spuriousLosses: UInt64 = 0
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
    static let lostPacketLimit = 512

    let isClient: Bool
    let configuration: RecoveryConfiguration
    var spaces: [SentPackets]
    var isDiscarded: [Bool] = [false, false, false]
    /// The state of the path in use.
    package internal(set) var path: Path
    var delivery = DeliveryRate()
    var lossShare = LossShare()
    /// The number of copies of what was sent last that are still to be sent, and the time one was last offered.
    var repeatsLeft = 0
    var repeatedAt: Timestamp?
    var hasHandshakeKeys = false
    var isHandshakeConfirmed = false
    var isPeerValidated: Bool
    /// Since when a client without anything in flight waits for the server (RFC 9002 §6.2.2.1).
    var antiDeadlockBase: Timestamp?
    /// The time at which this process was last found to have stood still; `nil` when it never did.
    var standstillEnd: Timestamp?
    /// The newest number left out of each space.
    var skipped: [UInt64?] = [nil, nil, nil]
    /// The packets declared lost lately, by space: they may arrive after all.
    var lostPackets: [[LostPacket]] = [[], [], []]

    var acknowledgedQueue = DrainQueue<(PacketSpace, SentContent)>()
    var lostQueue = DrainQueue<(PacketSpace, SentContent)>()

    /// The bytes of packets on their way.
    package internal(set) var bytesInFlight = 0
    /// The counts kept so far.
    package internal(set) var statistics = RecoveryStatistics()
    /// The longest the peer waits with acknowledgements.
    package var peerMaxAckDelay: Int64

    package init(_ configuration: RecoveryConfiguration, isClient: Bool) {
        self.configuration = configuration
        self.isClient = isClient
        isPeerValidated = !isClient
        path = Path(configuration)
        spaces = [SentPackets(), SentPackets(), SentPackets()]
        peerMaxAckDelay = configuration.maxAckDelay
    }

    /// The round-trip time.
    package var rtt: RTTEstimator { path.rtt }

    /// Indicates whether a server must not send until the client's address is validated; no probe is due while so.
    package var isAmplificationBlocked: Bool {
        get { path.isAmplificationBlocked }
        set { path.isAmplificationBlocked = newValue }
    }

    /// The most bytes that may be in flight.
    package var congestionWindow: Int { path.congestion.congestionWindow }

    /// Bytes a second packets are spread at.
    package var pacingRate: Int64 { path.congestion.pacingRate }

    /// The probe time-out of 1-RTT packets without backoff; close and idle timers are multiples of it.
    package var probeTimeout: Int64 { path.rtt.probeTimeout + peerMaxAckDelay }

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
        spaces[space.rawValue].discard()
        path.probeCount = 0
        antiDeadlockBase = now
    }

    /// Offers the contents of all packets of a space again: the server sent a Retry, or has not answered at all.
    mutating func resend(_ space: PacketSpace) {
        abandon(space, offeringAgain: true)
    }

    /// Forgets the packets of a space, which goes on with the next number: they were rejected early data.
    mutating func withdraw(_ space: PacketSpace) {
        abandon(space, offeringAgain: false)
        lostPackets[space.rawValue] = []
    }

    /// Offers everything sent in Initial packets again: the server sent a Retry.
    package mutating func retried(at now: Timestamp) {
        resend(.initial)
        path.probeCount = 0
        antiDeadlockBase = now
    }

    /// Abandons the packets of a space, and queues their contents as lost when they are to be sent again.
    private mutating func abandon(_ space: PacketSpace, offeringAgain: Bool) {
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
        spaces[index].unansweredSince = nil
    }

    /// Says that datagrams have another size from now on.
    package mutating func setMaxDatagramSize(_ size: Int) { path.setDatagramSize(size) }

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

    /// Returns whether packets that are counted against the window may be sent now, and how many bytes of them.
    package mutating func permission(at now: Timestamp) -> SendPermission {
        let room = path.congestion.congestionWindow - bytesInFlight
        guard room >= path.datagramSize else { return .congestionBlocked }
        switch path.pacer.permission(rate: path.congestion.pacingRate, datagramSize: path.datagramSize, at: now) {
        case .bytes(let count): return .bytes(max(path.datagramSize, min(count, room)))
        case let other: return other
        }
    }

    /// True when large packets have stopped arriving while small ones arrive; ``setMaxDatagramSize(_:)`` answers it.
    package var isBlackHole: Bool { path.blackHole.isFound }

    /// Indicates whether the datagrams written now are to be sent as ECT(0), and their packets noted so.
    package var isMarkingECN: Bool { path.ecn.isMarking }

    /// Says that a batch of datagrams, all marked alike, has been written.
    package mutating func batchEnded() { path.ecn.batchEnded() }

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
        if isMarkable { path.ecn.sent(space) }
        packet.size = UInt16(clamping: size)
        packet.time = now
        if space == .application, isAckEliciting, !content.isEmpty { noteForRepeats(at: now) }
        packet.content = content
        if isInFlight {
            bytesInFlight += size
            packet.rate = delivery.sent(size: size, inFlight: bytesInFlight, at: now)
            path.congestion.sent(
                size: size, inFlight: bytesInFlight, isApplicationLimited: delivery.isApplicationLimited, at: now)
            path.pacer.sent(size: size, datagramSize: path.datagramSize)
        }
        spaces[space.rawValue].append(packet)
        if antiDeadlockBase == nil || isAckEliciting { antiDeadlockBase = now }
    }

    /// Says that there was nothing more to send although it was allowed: rates measured now understate the path.
    package mutating func applicationLimited() {
        if path.congestion.congestionWindow - bytesInFlight >= path.datagramSize {
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

    /// The number of packet records held, for tests of bounds.
    package var bookkeeping: Int {
        spaces.reduce(0) { $0 + $1.capacity } + lostPackets.reduce(0) { $0 + $1.count }
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
