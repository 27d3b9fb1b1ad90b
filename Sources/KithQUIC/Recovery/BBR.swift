/// BBR version 3 (draft-ietf-ccwg-bbr): sends at the rate the path delivers and keeps about one round trip of it in flight.
///
/// ```
///  startup ──full pipe──▶ drain ──queue empty──▶ probeBandwidth ◀──▶ probeRTT
///                                                down ▶ cruise ▶ refill ▶ up ▶ down …
/// ```
/// It differs from the draft in what counts as a full path, in ECN marks and in the smallest round trip:
/// Documentation/Deviations.md.
package struct BBR: CongestionController {
    enum State: Hashable, Sendable {
        case startup, drain, down, cruise, refill, up, probeRTT
    }

    enum AckPhase: Hashable, Sendable {
        case initial, refilling, probeStarting, probeFeedback, probeStopping
    }

    static let startupGain = 2.773
    static let drainGain = 0.5
    static let upGain = 1.25
    static let downGain = 0.9
    static let windowGain = 2.0
    static let upWindowGain = 2.25
    static let lossThreshold = 0.08
    static let lossTolerance = 4
    static let beta = 0.7
    static let headroom = 0.15
    static let pacingMargin = 0.99
    static let minimumFilterLength: Int64 = .seconds(10)
    static let probeRTTInterval: Int64 = .seconds(5)
    static let probeRTTDuration: Int64 = .milliseconds(200)
    static let schedulingNoise: Int64 = .microseconds(500)
    static let extraAckedRounds: UInt64 = 10
    static let unbounded = Int.max

    var datagramSize: Int
    var random: UInt64
    var state = State.startup
    package internal(set) var congestionWindow: Int
    package internal(set) var pacingRate: Int64
    var pacingGain = BBR.startupGain
    var windowGain = BBR.windowGain

    // The model: rate.
    var maximumRate: Int64 = 0
    var rateFilter: (previous: Int64, current: Int64) = (0, 0)
    var rateLow = Int64.max
    var latestRate: Int64 = 0
    // The model: amount in flight.
    var inFlightHigh = BBR.unbounded
    var inFlightLow = BBR.unbounded
    var latestDelivered: UInt64 = 0
    var extraAcked = 0
    var extraAckedFilter: (value: Int, round: UInt64, older: Int) = (0, 0, 0)
    var extraAckedStart = Timestamp.zero
    var extraAckedDelivered = 0
    // The model: delay.
    var minimumRTT = Int64.max
    var minimumRTTStamp = Timestamp.zero
    var probeRTTMinimum = Int64.max
    var probeRTTStamp = Timestamp.zero
    var isProbeRTTDue = false

    // The model: losses, and the share of the path they leave.
    var cause = LossCause()
    var share: Cubic?
    /// The time the last probe for more ended: what was sent until then was part of it.
    var probeEnd = Timestamp(nanoseconds: .min)
    /// A full queue has been answered for what was sent until then.
    var shareAnswered = Timestamp(nanoseconds: .min)

    // Rounds.
    var roundCount: UInt64 = 0
    var isRoundStart = false
    var nextRoundDelivered: UInt64 = 0
    var roundStamp = Timestamp.zero
    var lossRoundDelivered: UInt64 = 0
    var isLossRoundStart = false
    var lostInRound = 0
    var lossRunsInRound = 0
    var deliveredAtRoundStart: UInt64 = 0
    var isMarked = false
    var isRoundMarked = false
    var isWindowLimited = false
    var wasWindowLimited = false

    // Startup.
    var fullRate: Int64 = 0
    var fullRateCount = 0
    var isFullRateNow = false
    var isFullRateReached = false

    // Probing.
    var phase = AckPhase.initial
    var cycleStamp = Timestamp.zero
    var probeWait: Int64 = .seconds(2)
    var roundsSinceProbe: UInt64 = 0
    var isSampling = false
    var upRounds = 0
    var upAcked = 0
    var upCount = BBR.unbounded
    var probeRTTDone: Timestamp?
    var isProbeRTTRoundDone = false
    var savedWindow = 0
    var isRestarting = false

    /// The state that losses since the last reason to slow down may have changed.
    struct Course: Hashable, Sendable {
        var state: State
        var rateLow: Int64
        var inFlightLow: Int
        var inFlightHigh: Int
        var congestionWindow: Int
        var pacingRate: Int64
    }
    var before: Course?
    var deliveredTotal: UInt64 = 0
    /// The time of ``deliveredTotal``.
    var deliveredStamp = Timestamp.zero
    /// The losses of what was sent until then have been answered.
    var answeredUntil = Timestamp(nanoseconds: .min)

    package init(datagramSize: Int, seed: UInt64) {
        self.datagramSize = datagramSize
        random = seed
        congestionWindow = 32 * datagramSize
        // Until a round trip is known: the initial window in a millisecond, as the draft has it.
        pacingRate = Int64(Self.startupGain * Double(congestionWindow) * 1_000)
    }

    package var isHoldingBack: Bool { state == .probeRTT }

    /// The fewest bytes in flight that keep acknowledgements coming.
    var minimumWindow: Int { 4 * datagramSize }

    /// The rate the model allows.
    var rate: Int64 { min(maximumRate, rateLow) }

    var isProbingBandwidth: Bool {
        switch state {
        case .down, .cruise, .refill, .up: true
        case .startup, .drain, .probeRTT: false
        }
    }

    /// The bytes a rate brings in a round trip, times a gain.
    func product(_ rate: Int64, gain: Double) -> Int {
        guard minimumRTT != .max, rate > 0 else { return Int(gain * Double(32 * datagramSize)) }
        let time = Double(minimumRTT + Self.schedulingNoise)
        // What gets lost on the way is in flight as well.
        return Int(gain * Double(rate) * time / 1e9 / (1 - cause.unavoidable))
    }

    /// The amount in flight a gain calls for, with room for batches at both ends.
    func target(_ rate: Int64, gain: Double) -> Int {
        let batch = min(max(Int(rate / 1_000), 2 * datagramSize), 65_536)
        var amount = max(product(rate, gain: gain), 3 * batch, minimumWindow)
        if state == .up { amount += 2 * datagramSize }
        return amount
    }

    package mutating func sent(size: Int, inFlight: Int, isApplicationLimited: Bool, at now: Timestamp) {
        if inFlight + datagramSize > congestionWindow { isWindowLimited = true }
        share?.sent(size: size, inFlight: inFlight, isApplicationLimited: true, at: now)
        guard inFlight == size, isApplicationLimited else { return }
        isRestarting = true
        extraAckedStart = now
        extraAckedDelivered = 0
        if isProbingBandwidth {
            setPacingRate(gain: 1)
        } else if state == .probeRTT {
            checkProbeRTTDone(at: now)
        }
    }

    package mutating func acknowledged(_ sample: AckSample) {
        if pacingIsGuess, let rtt = sample.rtt {
            pacingRate = Int64(Self.startupGain * Double(congestionWindow) * 1e9 / Double(max(rtt, .microseconds(50))))
        }
        deliveredTotal = sample.totalDelivered
        deliveredStamp = sample.now
        updateLatest(sample)
        updateRound(sample)
        updateShare(sample)
        updateMaximumRate(sample)
        if isLossRoundStart {
            adaptLowerBounds(sample)
        }
        updateExtraAcked(sample)
        checkFullRate(sample)
        if state == .startup {
            checkStartupLoss(sample)
            if isFullRateReached { enter(.drain) }
        }
        if state == .drain, sample.inFlight <= target(rate, gain: 1) { startDown(at: sample.now) }
        updateCycle(sample)
        updateMinimumRTT(sample)
        checkProbeRTT(sample)
        if isLossRoundStart {
            latestRate = sample.rate
            latestDelivered = sample.delivered
            lostInRound = 0
            lossRunsInRound = 0
            isRoundMarked = false
            deliveredAtRoundStart = sample.totalDelivered
        }
        isMarked = false
        setPacingRate(gain: pacingGain)
        setWindow(sample)
    }

    private var pacingIsGuess: Bool { maximumRate == 0 }

    package mutating func lost(_ sample: LossSample) {
        if sample.startsRecoveryPeriod {
            before = Course(
                state: state, rateLow: rateLow, inFlightLow: inFlightLow, inFlightHigh: inFlightHigh,
                congestionWindow: congestionWindow, pacingRate: pacingRate)
        }
        // As in a recovery period, the losses of what was sent before the last answer get no second one (RFC 9002 §7.3.2).
        if sample.sentTime > answeredUntil {
            if lostInRound == 0 { startLossRound(totalDelivered: sample.totalDelivered) }
            lostInRound += sample.size
            if sample.startsRun { lossRunsInRound += 1 }
        }
        noteCause(sample)
        guard isSampling else { return }
        if isTooHigh(lost: sample.lostSinceSent, sentInFlight: sample.sentInFlight) {
            // What was in flight when the threshold was crossed (draft, BBRInflightHiFromLostPacket).
            let before = Double(sample.sentInFlight - sample.size)
            let lostBefore = Double(sample.lostSinceSent) - Double(sample.size)
            let prefix = (lossLimit * before - lostBefore) / (1 - lossLimit)
            handleTooHigh(
                inFlight: Int(before + max(0, prefix)), isApplicationLimited: sample.isApplicationLimited,
                at: sample.now)
        }
    }

    package mutating func congestionExperienced(sentTime: Timestamp, at now: Timestamp) {
        isMarked = true
        isRoundMarked = true
        before = nil
        share?.congestionExperienced(sentTime: sentTime, at: now)
    }

    package mutating func lossWasSpurious(size: Int, isWholePeriod: Bool, at now: Timestamp) {
        lostInRound = max(0, lostInRound - size)
        lossRunsInRound = max(0, lossRunsInRound - 1)
        cause.lossWasSpurious()
        share?.lossWasSpurious(size: size, isWholePeriod: isWholePeriod, at: now)
        if isWholePeriod { undoLosses(at: now) }
    }

    package mutating func persistentCongestion(inFlight: Int) {
        congestionWindow = minimumWindow
        share = nil
        before = nil
    }

    package mutating func datagramSizeChanged(_ size: Int) {
        datagramSize = size
        congestionWindow = max(congestionWindow, minimumWindow)
        share?.datagramSizeChanged(size)
    }

    // MARK: - Control parameters

    mutating func setPacingRate(gain: Double) {
        guard maximumRate > 0 else { return }
        let gain = isContested ? max(gain, Self.upGain) : gain
        let wanted = Int64(gain * Double(rate) * Self.pacingMargin / (1 - cause.unavoidable))
        if isFullRateReached || wanted > pacingRate { pacingRate = max(wanted, Int64(datagramSize)) }
    }

    private mutating func setWindow(_ sample: AckSample) {
        let wanted = target(rate, gain: windowGain) + extraAcked
        if isFullRateReached {
            congestionWindow = min(congestionWindow + sample.acknowledged, wanted)
        } else if congestionWindow < wanted || sample.totalDelivered < UInt64(32 * datagramSize) {
            congestionWindow += sample.acknowledged
        }
        if state == .probeRTT { congestionWindow = min(congestionWindow, probeRTTWindow) }
        var cap = Self.unbounded
        if isProbingBandwidth, state != .cruise {
            cap = inFlightHigh
        } else if state == .probeRTT || state == .cruise {
            cap = highWithHeadroom
        }
        cap = max(min(cap, inFlightLow, share?.congestionWindow ?? Self.unbounded), minimumWindow)
        congestionWindow = max(min(congestionWindow, cap), minimumWindow)
    }

    /// Half of what the path holds, but no less than one acknowledgement may cover where most of them are lost or held back.
    var probeRTTWindow: Int { max(product(rate, gain: 0.5), extraAcked, minimumWindow) }

    var highWithHeadroom: Int {
        guard inFlightHigh != Self.unbounded else { return Self.unbounded }
        let room = max(datagramSize, Int(Self.headroom * Double(inFlightHigh)))
        return max(inFlightHigh - room, minimumWindow)
    }

    /// The next of a seeded sequence (SplitMix64), so that flows do not probe in step.
    mutating func nextRandom() -> UInt64 {
        random &+= 0x9E37_79B9_7F4A_7C15
        var z = random
        z = (z ^ z >> 30) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ z >> 27) &* 0x94D0_49BB_1331_11EB
        return z ^ z >> 31
    }
}
