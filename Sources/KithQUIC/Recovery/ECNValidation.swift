/// The numbers of packets of a space that arrived with each mark (RFC 9000 §19.3.2).
package struct ECNCounts: Hashable, Sendable {
    /// Packets marked ECT(0): able to be marked.
    package var ect0: UInt64
    /// Packets marked ECT(1).
    package var ect1: UInt64
    /// Packets marked as having met congestion.
    package var ce: UInt64

    package init(ect0: UInt64 = 0, ect1: UInt64 = 0, ce: UInt64 = 0) {
        self.ect0 = ect0
        self.ect1 = ect1
        self.ce = ce
    }
}

/// Indicates whether a path carries ECN marks faithfully (RFC 9000 §13.4.2 and appendix A.4).
///
/// ```
///  testing ──10 packets sent──▶ unknown ──counts add up──▶ capable
///     │                           │                          │
///     └── counts missing, too small, impossible; all lost; second time-out in a row; everything marked ──▶ failed
/// ```
/// A first time-out ends the test early, so that what is repeated goes unmarked.
///
/// Packets are marked ECT(0) while testing and once capable. A mark is decided for a whole batch of datagrams, so the
/// state moves only between batches.
struct ECNValidation: Sendable {
    enum State: Hashable, Sendable {
        case testing, unknown, capable, failed
    }

    /// The packets marked before anything is known.
    static let testPackets = 10

    private(set) var state: State
    /// Indicates whether the packets written now are sent as ECT(0).
    private(set) var isMarking: Bool
    private var since = Timestamp(nanoseconds: .min)
    private var sentOnPath = 0
    private var lostOnPath = 0
    private var acknowledgedOnPath = 0
    private var markedOnPath: UInt64 = 0
    /// By packet-number space.
    private var sent: [UInt64] = [0, 0, 0]
    private var seen = [ECNCounts(), ECNCounts(), ECNCounts()]

    init(isEnabled: Bool) {
        state = isEnabled ? .testing : .failed
        isMarking = isEnabled
    }

    /// The validation of another path; what the peer has counted so far stays the base (RFC 9000 §9.4).
    func successor(isEnabled: Bool, at now: Timestamp) -> ECNValidation {
        var next = ECNValidation(isEnabled: isEnabled)
        next.since = now
        (next.sent, next.seen) = (sent, seen)
        return next
    }

    /// Notes that a packet was sent as ECT(0).
    mutating func sent(_ space: PacketSpace) {
        sentOnPath += 1
        sent[space.rawValue] += 1
    }

    /// Says that a batch has been written: the next one may be marked otherwise.
    mutating func batchEnded() {
        if state == .testing, sentOnPath >= Self.testPackets { state = .unknown }
        isMarking = state == .testing || state == .capable
    }

    /// Notes that a packet sent as ECT(0) was lost.
    mutating func lost(sentAt time: Timestamp) {
        guard time >= since, state == .testing || state == .unknown else { return }
        lostOnPath += 1
        guard acknowledgedOnPath == 0 else { return }
        if lostOnPath >= Self.testPackets || state == .unknown && lostOnPath >= sentOnPath { fail() }
    }

    /// Notes a probe time-out; the `count`th in a row.
    mutating func timedOut(count: Int) {
        // Some networks drop every marked packet: what is repeated goes without.
        guard acknowledgedOnPath == 0, state == .testing || state == .unknown else { return }
        state = .unknown
        isMarking = false
        if count >= 2 { fail() }
    }

    private mutating func fail() {
        state = .failed
        isMarking = false
    }

    /// Takes in what an ACK frame that raised the largest acknowledged number said.
    ///
    /// - Parameters:
    ///   - space: the space of the packet it came in.
    ///   - counts: its counts, if it had any.
    ///   - newlyAcknowledged: how many packets it acknowledged first that were sent as ECT(0).
    ///   - oldestSentAt: when the oldest of them was sent; what was sent on another path proves nothing about this one.
    /// - Returns: by how much the count of CE marks that can be believed has grown.
    mutating func acknowledged(
        _ space: PacketSpace, counts: ECNCounts?, newlyAcknowledged: Int, oldestSentAt: Timestamp
    ) -> UInt64 {
        let previous = seen[space.rawValue]
        guard let counts else {
            // A peer that cannot read marks, or a path that removes them all.
            if newlyAcknowledged > 0, oldestSentAt >= since, state != .failed { fail() }
            return 0
        }
        if state == .failed {
            seen[space.rawValue] = counts
            return 0
        }
        guard counts.ect0 >= previous.ect0, counts.ect1 >= previous.ect1, counts.ce >= previous.ce else {
            fail()
            return 0
        }
        seen[space.rawValue] = counts
        let marked = counts.ce - previous.ce
        let grown = counts.ect0 - previous.ect0 + marked
        // Nothing is sent as ECT(1); more than was sent cannot have arrived; fewer than arrived means marks were removed.
        guard counts.ect1 == previous.ect1, counts.ect0 + counts.ce <= sent[space.rawValue], grown >= newlyAcknowledged
        else {
            fail()
            return 0
        }
        guard newlyAcknowledged > 0, oldestSentAt >= since else { return marked }
        acknowledgedOnPath += newlyAcknowledged
        markedOnPath += marked
        if state == .capable { return marked }
        // While every packet has met congestion, something may be marking without looking.
        guard markedOnPath >= UInt64(acknowledgedOnPath) else {
            state = .capable
            return marked
        }
        if acknowledgedOnPath >= Self.testPackets / 2 { fail() }
        return 0
    }
}
