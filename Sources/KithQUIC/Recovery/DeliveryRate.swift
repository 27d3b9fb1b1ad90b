/// A snapshot of what the connection had delivered when a packet was sent.
package struct RateSnapshot: Hashable, Sendable {
    var delivered: UInt64 = 0
    var deliveredTime = Timestamp.zero
    var firstSentTime = Timestamp.zero
    var lost: UInt64 = 0
    var inFlight = 0
    var isApplicationLimited = false
}

/// The content of one ACK frame, as congestion controllers need it.
package struct AckSample: Hashable, Sendable {
    /// The time it arrived.
    package var now = Timestamp.zero
    /// The round trip it measured, or nil.
    package var rtt: Int64?
    /// The newest round trip measured, be it good for a minimum or not; 0 before the first.
    package var latestRTT: Int64 = 0
    /// Indicates whether smaller round trips measured before were false, because packets overtook each other.
    package var forgetsMinimum = false
    /// Bytes newly acknowledged.
    package var acknowledged = 0
    /// Bytes declared lost with it.
    package var lost = 0
    /// Bytes in flight after it.
    package var inFlight = 0
    /// Bytes in flight before it.
    package var priorInFlight = 0
    /// Bytes the connection has delivered in all.
    package var totalDelivered: UInt64 = 0
    /// Bytes the connection had delivered when the newest acknowledged packet was sent.
    package var priorDelivered: UInt64 = 0
    /// Bytes in flight just after the newest acknowledged packet was sent.
    package var sentInFlight = 0
    /// Bytes lost since the newest acknowledged packet was sent.
    package var lostSinceSent: UInt64 = 0
    /// Bytes delivered since it was sent.
    package var delivered: UInt64 = 0
    /// Bytes a second over that time; 0 when unknown.
    package var rate: Int64 = 0
    /// Indicates whether the sender had nothing to send then, so that the rate says little.
    package var isApplicationLimited = false
    /// The time the newest acknowledged packet was sent.
    package var sentTime = Timestamp.zero
    /// The smoothed round trip.
    package var smoothedRTT: Int64 = 0
}

/// A lost packet, as congestion controllers need it.
package struct LossSample: Hashable, Sendable {
    /// The time it was declared lost.
    package var now = Timestamp.zero
    /// The time it was sent.
    package var sentTime = Timestamp.zero
    /// Its size.
    package var size = 0
    /// The round trip of the packets that arrived around it; 0 before the first.
    package var rtt: Int64 = 0
    /// Bytes in flight just after it was sent.
    package var sentInFlight = 0
    /// Bytes lost since it was sent, itself included.
    package var lostSinceSent: UInt64 = 0
    /// Bytes the connection has delivered in all.
    package var totalDelivered: UInt64 = 0
    /// Indicates whether the sender had nothing else to send then.
    package var isApplicationLimited = false
    /// Indicates whether the number before it was not lost too, so that a new run of losses begins.
    package var startsRun = true
    /// Indicates whether it is the first since the controller last had a reason to slow down.
    package var startsRecoveryPeriod = true
}

/// Measures how fast a path delivers (draft-ietf-ccwg-bbr, "Delivery Rate Samples").
struct DeliveryRate: Sendable {
    private(set) var delivered: UInt64 = 0
    private(set) var lost: UInt64 = 0
    private var deliveredTime = Timestamp.zero
    private var firstSentTime = Timestamp.zero
    private var limitedUntil: UInt64 = 0

    var isApplicationLimited: Bool { limitedUntil > 0 }

    /// A snapshot for a packet about to be sent; `inFlight` counts it already.
    mutating func sent(size: Int, inFlight: Int, at now: Timestamp) -> RateSnapshot {
        if inFlight == size {
            firstSentTime = now
            deliveredTime = now
        }
        return RateSnapshot(
            delivered: delivered, deliveredTime: deliveredTime, firstSentTime: firstSentTime, lost: lost,
            inFlight: inFlight, isApplicationLimited: limitedUntil > 0)
    }

    /// Everything in flight now was sent without the path being full.
    mutating func applicationLimited(inFlight: Int) {
        limitedUntil = max(1, delivered + UInt64(max(0, inFlight)))
    }

    mutating func acknowledged(size: Int, at now: Timestamp) {
        delivered += UInt64(size)
        deliveredTime = now
        if limitedUntil > 0, delivered > limitedUntil { limitedUntil = 0 }
    }

    mutating func lost(size: Int) {
        lost += UInt64(size)
    }

    mutating func lossWasSpurious(size: Int) {
        lost -= min(lost, UInt64(size))
    }

    /// Completes a sample from the newest packet an ACK frame acknowledged.
    mutating func complete(_ sample: inout AckSample, newest: RateSnapshot, sentTime: Timestamp) {
        sample.totalDelivered = delivered
        sample.priorDelivered = newest.delivered
        sample.sentInFlight = newest.inFlight
        sample.lostSinceSent = lost - min(lost, newest.lost)
        sample.isApplicationLimited = newest.isApplicationLimited
        sample.delivered = delivered - newest.delivered
        sample.sentTime = sentTime
        // Neither faster than it was sent nor than it was acknowledged.
        let interval = max(sentTime - newest.firstSentTime, deliveredTime - newest.deliveredTime)
        firstSentTime = sentTime
        guard interval > 0 else { return }
        sample.rate = Int64(Double(sample.delivered) * 1e9 / Double(interval))
    }
}
