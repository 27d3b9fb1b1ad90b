/// The packets that arrived in one packet-number space, and when to acknowledge them (RFC 9000 §13.2).
///
/// At most ``maximumRanges`` ranges are kept; when a new one does not fit, the oldest goes, and every number below it
/// counts as received from then on, so that a packet is never processed twice.
package struct ReceivedPackets: Sendable {
    /// The most ranges remembered.
    package static let maximumRanges = 128
    /// After so many ack-eliciting packets an acknowledgement is due (RFC 9000 §13.2.2).
    private static let eliciting = 2
    /// The most further acknowledgements that follow a packet without anything new.
    private static let maximumRepeats = 16
    /// The time between two of them; so many packets in a row are rarely lost together.
    private static let repeatInterval: Int64 = .milliseconds(2)

    private var ranges = OffsetRanges()
    private var floor: UInt64 = 0
    private let isImmediate: Bool
    private let maxAckDelay: Int64
    private var unacknowledged = 0
    private var isDue = false
    private var largestTime = Timestamp.zero
    private var ecnCounts: (ect0: UInt64, ect1: UInt64, ce: UInt64) = (0, 0, 0)

    private var acknowledgementDeadline: Timestamp?
    /// The number of packets that came without anything new since one had something.
    private var repetitions = 0
    /// The number of acknowledgements that are still to be repeated for them.
    private var repeats = 0
    private var nextRepeat: Timestamp?
    /// Indicates whether the next packet carries an acknowledgement again.
    private var isRepeating = false

    /// The time by which an acknowledgement has to go, or to go again.
    package var deadline: Timestamp? {
        guard let nextRepeat else { return acknowledgementDeadline }
        return acknowledgementDeadline.map { min($0, nextRepeat) } ?? nextRepeat
    }

    /// Makes the tracker of one space; Initial and Handshake packets are acknowledged at once.
    package init(space: PacketSpace, maxAckDelay: Int64 = .milliseconds(25)) {
        isImmediate = space != .application
        self.maxAckDelay = maxAckDelay
    }

    /// The largest packet number received.
    package var largest: UInt64? { ranges.last.map { $0.upperBound - 1 } }

    /// The number of ranges remembered.
    package var rangeCount: Int { ranges.count }

    /// Returns whether a packet was received before, or is so old that this is no longer known.
    package func isDuplicate(_ number: UInt64) -> Bool {
        number < floor || ranges.contains(number)
    }

    /// Notes a packet that is not a duplicate and has been processed.
    ///
    /// `isRepetition` says that it brought nothing but what had come before, in other packets: then the sender does not know,
    /// and probes, so that its acknowledgements were lost. See ``repeatIfDue(at:)``.
    package mutating func received(
        _ number: UInt64, isAckEliciting: Bool, isRepetition: Bool = false, ecn: UInt8, at now: Timestamp
    ) {
        let previous = largest
        ranges.insert(number..<number + 1)
        while ranges.count > Self.maximumRanges, let first = ranges.first {
            floor = max(floor, first.upperBound)
            ranges.removeFirst()
        }
        switch ecn & 3 {
        case 1: ecnCounts.ect1 += 1
        case 2: ecnCounts.ect0 += 1
        case 3: ecnCounts.ce += 1
        default: break
        }
        if previous.map({ number > $0 }) ?? true { largestTime = now }
        guard isAckEliciting else { return }
        if isRepetition {
            beginRepeats(at: now)
        } else {
            (repetitions, repeats, nextRepeat, isRepeating) = (0, 0, nil, false)
        }
        unacknowledged += 1
        // Out of order either way: it fills a hole, or it opens one.
        let isOutOfOrder = previous.map { number != $0 + 1 } ?? false
        if isImmediate || isOutOfOrder || isRepetition || ecn & 3 == 3 || unacknowledged >= Self.eliciting {
            isDue = true
        }
        if acknowledgementDeadline == nil {
            acknowledgementDeadline = now.advanced(nanoseconds: isImmediate ? 0 : maxAckDelay)
        }
    }

    /// Has the acknowledgement go again, and again: more often each time until something new comes.
    ///
    /// `isCertain` says that the peer lacks something; the first packet without anything new may be one that was sent again
    /// too soon, or to be safe on a path that loses packets.
    package mutating func beginRepeats(at now: Timestamp, isCertain: Bool = false) {
        repetitions = max(repetitions + 1, isCertain ? 2 : 1)
        guard repetitions > 1 else { return }
        repeats = min(1 << min(repetitions, 8), Self.maximumRepeats)
        nextRepeat = now.advanced(nanoseconds: Self.repeatInterval)
    }

    /// Says that an acknowledgement is to go again now, in a packet that asks for one itself: several packets with nothing
    /// else must not answer one (RFC 9000 §13.2.1).
    package mutating func repeatIfDue(at now: Timestamp) -> Bool {
        guard let time = nextRepeat, time <= now else { return false }
        repeats -= 1
        nextRepeat = repeats > 0 ? now.advanced(nanoseconds: Self.repeatInterval) : nil
        isRepeating = true
        return true
    }

    /// Returns whether an acknowledgement should go now even if nothing else does.
    package func shouldAcknowledgeNow(at now: Timestamp) -> Bool {
        guard unacknowledged > 0 else { return false }
        return isDue || acknowledgementDeadline.map { $0 <= now } ?? false
    }

    /// Indicates whether a packet that goes out anyway should carry an acknowledgement.
    package var hasUnacknowledged: Bool { unacknowledged > 0 || isRepeating }

    /// Writes an ACK frame, with fewer ranges if there is little room.
    ///
    /// - Returns: its length, or 0 when there is nothing to acknowledge or no room.
    package func writeAck(into target: UnsafeMutableRawBufferPointer, delayExponent: Int, at now: Timestamp) -> Int {
        guard let newest = ranges.last else { return 0 }
        let hasECN = ecnCounts.ect0 | ecnCounts.ect1 | ecnCounts.ce != 0
        let tail =
            hasECN
            ? varintLength(ecnCounts.ect0) + varintLength(ecnCounts.ect1) + varintLength(ecnCounts.ce) : 0
        let delay = UInt64(max(0, now - largestTime) / 1_000) >> UInt64(delayExponent)
        let first = newest.upperBound - 1 - newest.lowerBound
        // The count of ranges is given two bytes of room; it never needs more.
        let fixed = 1 + varintLength(newest.upperBound - 1) + varintLength(delay) + 2 + varintLength(first) + tail
        guard fixed <= target.count else { return 0 }
        var count = 0
        var size = fixed
        var below = newest
        for position in stride(from: ranges.count - 2, through: 0, by: -1) {
            let range = ranges[position]
            let cost =
                varintLength(below.lowerBound - range.upperBound - 1)
                + varintLength(range.upperBound - 1 - range.lowerBound)
            guard size + cost <= target.count else { break }
            size += cost
            count += 1
            below = range
        }
        var writer = unsafe FrameWriter(target)
        writer.byte(hasECN ? 0x03 : 0x02)
        writer.varint(newest.upperBound - 1)
        writer.varint(delay)
        writer.varint(UInt64(count))
        writer.varint(first)
        below = newest
        for step in 0..<count {
            let range = ranges[ranges.count - 2 - step]
            writer.varint(below.lowerBound - range.upperBound - 1)
            writer.varint(range.upperBound - 1 - range.lowerBound)
            below = range
        }
        if hasECN {
            writer.varint(ecnCounts.ect0)
            writer.varint(ecnCounts.ect1)
            writer.varint(ecnCounts.ce)
        }
        return writer.count
    }

    /// Notes that a packet with the ACK frame was sent.
    package mutating func acknowledgementSent() {
        unacknowledged = 0
        isDue = false
        acknowledgementDeadline = nil
        isRepeating = false
    }

    /// Forgets ranges the peer knows we received: it acknowledged an ACK frame whose largest number was `largest`.
    ///
    /// The range of the largest number received stays, so that there is always something to acknowledge.
    package mutating func acknowledgementAcknowledged(upTo largest: UInt64) {
        while ranges.count > 1, let first = ranges.first, first.upperBound - 1 <= largest {
            floor = max(floor, first.upperBound)
            ranges.removeFirst()
        }
    }
}
