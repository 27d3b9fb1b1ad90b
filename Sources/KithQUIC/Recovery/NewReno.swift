/// NewReno (RFC 9002 §7 and appendix B), paced at a little more than a window per round trip.
///
/// The baseline the tests hold BBR against.
package struct NewReno: CongestionController {
    private var datagramSize: Int
    private var threshold = Int.max
    private var recoveryStart: Timestamp?
    private var smoothedRTT: Int64
    private var isWindowLimited = false
    private var credit = 0
    /// The window and threshold before the last loss, to be put back if it was none.
    private var before: (window: Int, threshold: Int)?
    package private(set) var congestionWindow: Int

    package init(datagramSize: Int, initialRTT: Int64) {
        self.datagramSize = datagramSize
        smoothedRTT = initialRTT
        congestionWindow = Self.initialWindow(datagramSize)
    }

    static func initialWindow(_ datagramSize: Int) -> Int {
        min(10 * datagramSize, max(14_720, 2 * datagramSize))
    }

    private var minimumWindow: Int { 2 * datagramSize }

    package var pacingRate: Int64 {
        let gain = congestionWindow < threshold ? 2.0 : 1.25
        return Int64(gain * Double(congestionWindow) * 1e9 / Double(max(smoothedRTT, 1)))
    }

    package var isHoldingBack: Bool { false }

    package mutating func sent(size: Int, inFlight: Int, isApplicationLimited: Bool, at now: Timestamp) {
        isWindowLimited = inFlight + 3 * datagramSize > congestionWindow || !isApplicationLimited
    }

    package mutating func acknowledged(_ sample: AckSample) {
        smoothedRTT = sample.smoothedRTT
        if let recoveryStart, sample.sentTime <= recoveryStart { return }
        guard isWindowLimited else { return }
        if congestionWindow < threshold {
            congestionWindow += sample.acknowledged
        } else {
            credit += sample.acknowledged
            while credit >= congestionWindow {
                credit -= congestionWindow
                congestionWindow += datagramSize
            }
        }
    }

    package mutating func lost(_ sample: LossSample) {
        reduce(sentTime: sample.sentTime, at: sample.now, isUndoable: true)
    }

    package mutating func congestionExperienced(sentTime: Timestamp, at now: Timestamp) {
        reduce(sentTime: sentTime, at: now, isUndoable: false)
    }

    private mutating func reduce(sentTime: Timestamp, at now: Timestamp, isUndoable: Bool) {
        if let recoveryStart, sentTime <= recoveryStart {
            if !isUndoable { before = nil }
            return
        }
        recoveryStart = now
        before = isUndoable ? (congestionWindow, threshold) : nil
        threshold = max(congestionWindow / 2, minimumWindow)
        congestionWindow = threshold
        credit = 0
    }

    package mutating func lossWasSpurious(size: Int, isWholePeriod: Bool, at now: Timestamp) {
        guard isWholePeriod, let before else { return }
        congestionWindow = max(congestionWindow, before.window)
        threshold = max(threshold, before.threshold)
        self.before = nil
        recoveryStart = nil
    }

    package mutating func persistentCongestion(inFlight: Int) {
        congestionWindow = minimumWindow
        recoveryStart = nil
        before = nil
        credit = 0
    }

    package mutating func datagramSizeChanged(_ size: Int) {
        datagramSize = size
        congestionWindow = max(congestionWindow, minimumWindow)
    }
}
