/// A packet on its way: what is needed once it is acknowledged or lost.
struct SentPacket: Sendable {
    enum State: UInt8 {
        /// Skipped number, or settled.
        case empty
        /// Carries nothing that elicits an acknowledgement; not waited for.
        case quiet
        case outstanding
    }

    var state = State.empty
    var isInFlight = false
    var isAckEliciting = false
    /// Indicates whether it was sent as ECT(0).
    var isMarkable = false
    var size: UInt16 = 0
    var time = Timestamp.zero
    var content = SentContent()
    var rate = RateSnapshot()
}

/// The packets of one packet-number space on their way, in a ring indexed by packet number.
///
/// Spans the first outstanding number to the next one; grows by doubling, and no operation on a packet allocates.
struct SentPackets: Sendable {
    private var slots: ContiguousArray<SentPacket> = []
    private var mask: UInt64 = 0
    /// The first number that may be outstanding.
    private(set) var base: UInt64 = 0
    /// The number of the next packet.
    private(set) var next: UInt64 = 0
    /// The largest number acknowledged.
    var largestAcknowledged: UInt64?
    /// The time the last ack-eliciting packet was sent.
    var lastAckEliciting: Timestamp?
    /// The time the first ack-eliciting packet was sent since the last acknowledgement or probe time-out.
    var unansweredSince: Timestamp?
    /// The number of outstanding packets that elicit an acknowledgement.
    private(set) var outstanding = 0
    /// The time at which the next packet is declared lost; nil when none would be.
    var lossTime: Timestamp?
    /// The newest losses with nothing acknowledged between them.
    var run = LossRun()
    /// The time the newest acknowledged packet was sent.
    private(set) var newestAcknowledged = Timestamp(nanoseconds: .min)

    /// Notes that a packet taken out had arrived.
    @inline(__always)
    mutating func noteAcknowledged(_ number: UInt64, sentAt time: Timestamp) {
        run.acknowledged(number)
        if time > newestAcknowledged { newestAcknowledged = time }
    }

    /// Leaves a number out.
    mutating func skip() {
        append(SentPacket())
    }

    /// Adds the packet with the next number.
    mutating func append(_ packet: consuming SentPacket) {
        if next - base >= UInt64(slots.count) { grow() }
        if packet.state == .outstanding {
            if outstanding == 0 || unansweredSince == nil { unansweredSince = packet.time }
            outstanding += 1
            lastAckEliciting = packet.time
        }
        slots[Int(next & mask)] = packet
        next += 1
        advance()
    }

    /// Forgets all packets, and gives their room back: no more are sent.
    mutating func discard() {
        (slots, mask) = ([], 0)
        (base, outstanding) = (next, 0)
    }

    private mutating func grow() {
        let capacity = max(8, slots.count * 2)
        var larger = ContiguousArray(repeating: SentPacket(), count: capacity)
        let newMask = UInt64(capacity - 1)
        var number = base
        while number < next {
            larger[Int(number & newMask)] = slots[Int(number & mask)]
            number += 1
        }
        slots = larger
        mask = newMask
    }

    /// Returns whether a packet is waited for.
    func isOutstanding(_ number: UInt64) -> Bool {
        number >= base && number < next && slots[Int(number & mask)].state == .outstanding
    }

    /// The state of a number between ``base`` and ``next``.
    func state(_ number: UInt64) -> SentPacket.State { slots[Int(number & mask)].state }

    /// Returns the time an outstanding packet was sent.
    func time(_ number: UInt64) -> Timestamp { slots[Int(number & mask)].time }

    /// Returns the content a packet carried.
    func content(_ number: UInt64) -> SentContent { slots[Int(number & mask)].content }

    /// Takes a packet out; it must not be empty.
    mutating func take(_ number: UInt64) -> SentPacket {
        let index = Int(number & mask)
        if slots[index].state == .outstanding { outstanding -= 1 }
        slots[index].state = .empty
        var packet = SentPacket()
        swap(&packet, &slots[index])
        return packet
    }

    /// Counts a packet as in flight no longer, though it may still be acknowledged; answers its size if it was.
    mutating func leaveFlight(_ number: UInt64) -> Int {
        let index = Int(number & mask)
        guard slots[index].state == .outstanding, slots[index].isInFlight else { return 0 }
        slots[index].isInFlight = false
        return Int(slots[index].size)
    }

    /// Moves ``base`` over what is settled.
    mutating func advance() {
        while base < next, slots[Int(base & mask)].state != .outstanding {
            // A spilled list is not kept alive by a settled slot.
            if slots[Int(base & mask)].state == .quiet { slots[Int(base & mask)] = SentPacket() }
            base += 1
        }
    }

    /// The packets after which a peer that has acknowledged none of them is looked at, and the time it has had then.
    private static let backlog: UInt64 = 1 << 16
    private static let patience = Duration.seconds(10)

    /// Whether the peer has had many packets, and long, and acknowledges none: they would be remembered for ever.
    func isIgnored(at now: Timestamp) -> Bool {
        next - base >= Self.backlog && slots[Int(base & mask)].time.advanced(by: Self.patience) < now
    }

    /// The number of slots held, for tests of bounds.
    var capacity: Int { slots.count }
}

/// A packet declared lost, kept for a while in case the loss was spurious.
struct LostPacket: Sendable {
    var number: UInt64
    /// The time it was sent.
    var time: Timestamp
    var declared: Timestamp
    var size: Int
    /// The period it was lost in.
    var recoveryPeriod: RecoveryPeriod.ID
    var content: SentContent
}
