// Where packets get lost, little data is sent more than once before anybody knows that it was lost.
//
// A key typed into a shell is one packet. When that is lost nothing follows it that would tell, so it is missed only
// after a probe time-out: a round trip and more, doubled with every further loss. Whoever has so little on its way that
// its repetition costs nothing does not wait: the copies leave a few milliseconds apart, as many as the path's losses
// ask for. Bulk is not touched, nor is anything where nothing gets lost. RFC 9002 leaves it to the sender what it sends
// within the congestion window; a copy is a packet like any other there.

/// The share of the packets sent lately that was lost.
struct LossShare: Hashable, Sendable {
    /// The number of packets the average looks back, about.
    private static let memory = 200.0

    private(set) var share = 0.0
    private var seen = 0.0

    mutating func acknowledged(_ count: Int) {
        for _ in 0..<min(count, Int(Self.memory)) { note(0) }
    }

    mutating func lost() { note(1) }

    /// A packet that was taken for lost has arrived.
    mutating func lossWasSpurious() { share = max(0, share - 1 / max(seen, 1)) }

    private mutating func note(_ value: Double) {
        // At first the plain average, so that a few packets say something; never less than ten, so that one does not.
        seen = min(Self.memory, seen + 1)
        share += (value - share) / max(seen, 10)
    }

    /// The number of copies that leaves the chance that none arrives below one in some hundreds.
    var copies: Int { share < 0.004 ? 0 : share < 0.08 ? 2 : 4 }
}

extension Recovery {
    /// The most bytes in flight for which repetition is cheap.
    static let thinFlight = 1_200

    /// The time the next copy is due; nil when none is.
    var nextRepeat: Timestamp? {
        guard repeatsLeft > 0, isHandshakeConfirmed, bytesInFlight <= Self.thinFlight,
            let last = spaces[PacketSpace.application.rawValue].lastAckEliciting,
            spaces[PacketSpace.application.rawValue].outstanding > 0
        else { return nil }
        return last.advanced(nanoseconds: max(.milliseconds(5), min(.milliseconds(15), path.rtt.smoothed / 8)))
    }

    /// Offers all that is on its way again.
    mutating func repeatFlight(at now: Timestamp) {
        repeatsLeft -= 1
        repeatedAt = now
        offerOldest(.application, limit: .max)
    }

    /// Notes that a packet was sent that may want copies.
    mutating func noteForRepeats(at now: Timestamp) {
        // The copy itself leaves right after it was offered.
        if let repeatedAt, now - repeatedAt < .milliseconds(1) {
            self.repeatedAt = nil
        } else {
            repeatsLeft = lossShare.copies
        }
    }
}
