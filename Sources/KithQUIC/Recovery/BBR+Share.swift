// How much BBR leaves to others where the queue is too short to share it by delay alone.
//
// The model of the draft keeps its rate through losses that make a CUBIC flow give way, and takes what that one leaves.
// So the losses of a full queue, and only those, move a second bound as well: CUBIC's own curve (RFC 9438).
extension BBR {
    /// The share of the window that a full queue leaves.
    ///
    /// RFC 9438 has 0.7, at which a sender that is alone leaves a short queue empty for seconds. The slope of growth makes
    /// up for it where others are (§4.3).
    static let shareBeta = 0.8
    /// The time without a queue, beyond twice that of the curve, after which nobody else is there.
    static let shareLifetime: Int64 = .seconds(2)

    /// Indicates whether what is sent now is more than the path is known to carry.
    private var isPushing: Bool { state == .startup || state == .up }

    private func isProbe(sentAt time: Timestamp) -> Bool { isPushing || time <= probeEnd }

    /// Indicates whether somebody else keeps the queue from emptying.
    var isContested: Bool { (state == .cruise || state == .refill || state == .up) && isQueueOfOthers }

    /// Indicates whether even the fastest packet of the last round waited.
    var isQueueOfOthers: Bool {
        share != nil && cause.roundMinimum != .max && cause.isWaiting(cause.roundMinimum, minimum: minimumRTT)
    }

    /// Judges a lost packet by the delay around it.
    mutating func noteCause(_ sample: LossSample) {
        // Startup overflows short queues by its bursts alone; it has an end of its own.
        let isNew = isFullRateReached && state != .drain && sample.sentTime > shareAnswered
        cause.lost(rtt: sample.rtt, minimum: minimumRTT, isProbing: isProbe(sentAt: sample.sentTime), isNew: isNew)
        if isNew, cause.isQueueFull(minimum: minimumRTT) { reduceShare(sample) }
    }

    private mutating func reduceShare(_ sample: LossSample) {
        cause.answered()
        shareAnswered = sample.now
        var share =
            share
            ?? Cubic(
                datagramSize: datagramSize, smoothedRTT: max(sample.rtt, 1), window: sample.sentInFlight,
                beta: Self.shareBeta)
        share.limit(to: sample.sentInFlight)
        share.lost(sample)
        self.share = share
    }

    /// Lets the share grow, and counts what arrived by the delay it met.
    mutating func updateShare(_ sample: AckSample) {
        if isRoundStart { cause.roundEnded() }
        if sample.latestRTT > 0 {
            cause.acknowledged(
                Double(sample.acknowledged) / Double(datagramSize), rtt: sample.latestRTT, minimum: minimumRTT,
                isProbing: isProbe(sentAt: sample.sentTime))
        }
        share?.acknowledged(sample)
        if let curve = share?.timeToMaximum, !cause.isQueued(minimum: minimumRTT),
            sample.now - shareAnswered > 2 * curve + Self.shareLifetime
        {
            share = nil
        }
    }
}
