// How BBR moves between its states.
extension BBR {
    var isProbingUp: Bool { state == .up || state == .refill }

    mutating func enter(_ next: State) {
        if state == .up || state == .startup { probeEnd = deliveredStamp }
        if state == .startup || state == .drain {
            // What its bursts lost says nothing about the path.
            shareAnswered = deliveredStamp
            cause.startOver()
        }
        state = next
        switch next {
        case .startup: (pacingGain, windowGain) = (Self.startupGain, Self.windowGain)
        case .drain: (pacingGain, windowGain) = (Self.drainGain, Self.windowGain)
        case .down: (pacingGain, windowGain) = (Self.downGain, Self.windowGain)
        case .cruise, .refill: (pacingGain, windowGain) = (1, Self.windowGain)
        case .up: (pacingGain, windowGain) = (Self.upGain, Self.upWindowGain)
        case .probeRTT: (pacingGain, windowGain) = (1, 0.5)
        }
    }

    // MARK: - Probing for bandwidth

    mutating func startDown(at now: Timestamp) {
        lostInRound = 0
        lossRunsInRound = 0
        latestRate = 0
        latestDelivered = 0
        upCount = Self.unbounded
        // A different wait for each flow, so that two do not probe in step.
        roundsSinceProbe = nextRandom() & 1
        probeWait = .seconds(2) + Int64(nextRandom() % 1_000_000_000)
        cycleStamp = now
        phase = .probeStopping
        startRound()
        enter(.down)
    }

    mutating func startRefill() {
        resetLowerBounds()
        upRounds = 0
        upAcked = 0
        phase = .refilling
        startRound()
        enter(.refill)
    }

    mutating func startUp(_ sample: AckSample) {
        phase = .probeStarting
        startRound()
        resetFullRate()
        fullRate = sample.rate
        cycleStamp = sample.now
        enter(.up)
        raiseSlope()
    }

    /// Puts back what losses changed that were none (draft-ietf-ccwg-bbr, "Spurious Loss Recovery").
    mutating func undoLosses(at now: Timestamp) {
        guard let before else { return }
        self.before = nil
        lostInRound = 0
        lossRunsInRound = 0
        answeredUntil = Timestamp(nanoseconds: .min)
        resetFullRate()
        rateLow = max(rateLow, before.rateLow)
        inFlightLow = max(inFlightLow, before.inFlightLow)
        inFlightHigh = max(inFlightHigh, before.inFlightHigh)
        guard state != .probeRTT, state != before.state else { return }
        if before.state == .startup {
            isFullRateReached = false
            // Before the pipe is full neither ever falls.
            congestionWindow = max(congestionWindow, before.congestionWindow)
            pacingRate = max(pacingRate, before.pacingRate)
            enter(.startup)
        } else if before.state == .up, isProbingBandwidth {
            phase = .probeStarting
            isSampling = true
            startRound()
            fullRate = latestRate
            cycleStamp = now
            enter(.up)
            raiseSlope()
        }
    }

    mutating func updateCycle(_ sample: AckSample) {
        guard isFullRateReached else { return }
        adaptUpperBounds(sample)
        switch state {
        case .down:
            if checkProbeTime(sample) { return }
            let isDrained = sample.inFlight <= highWithHeadroom && sample.inFlight <= target(maximumRate, gain: 1)
            // A queue that somebody else fills does not empty, and who waits for that leaves them all of the path.
            if isDrained || roundsSinceProbe >= 3 && isQueueOfOthers { enter(.cruise) }
        case .cruise:
            _ = checkProbeTime(sample)
        case .refill:
            if isRoundStart {
                isSampling = true
                startUp(sample)
            }
        case .up:
            if isDoneGoingUp(sample) { startDown(at: sample.now) }
        case .startup, .drain, .probeRTT:
            break
        }
    }

    /// Starts a probe when its time has come, or as soon as a Reno flow beside us would have grown by it.
    private mutating func checkProbeTime(_ sample: AckSample) -> Bool {
        let renoRounds = UInt64(min(63, target(rate, gain: 1) / datagramSize))
        guard sample.now - cycleStamp > probeWait || roundsSinceProbe >= renoRounds else { return false }
        startRefill()
        return true
    }

    private mutating func isDoneGoingUp(_ sample: AckSample) -> Bool {
        if wasWindowLimited, congestionWindow >= inFlightHigh {
            resetFullRate()
            fullRate = sample.rate
            return false
        }
        return isFullRateNow
    }

    private mutating func adaptUpperBounds(_ sample: AckSample) {
        if phase == .probeStarting, isRoundStart { phase = .probeFeedback }
        if phase == .probeStopping, isRoundStart {
            isSampling = false
            // What was held back for PROBE_RTT ends no cycle; the first round after it does, so that a flow that came later
            // is given room soon. Beside one that fills the queue, the rate from before is kept for as long as in the draft.
            if !sample.isApplicationLimited || share != nil {
                phase = .initial
                if isProbingBandwidth, !sample.isApplicationLimited { advanceRateFilter() }
            }
        }
        if isSampling, isMarked || isTooHigh(lost: sample.lostSinceSent, sentInFlight: sample.sentInFlight) {
            handleTooHigh(
                inFlight: sample.sentInFlight, isApplicationLimited: sample.isApplicationLimited, at: sample.now)
            return
        }
        guard inFlightHigh != Self.unbounded else { return }
        inFlightHigh = max(inFlightHigh, sample.sentInFlight)
        if state == .up { probeUpward(sample) }
    }

    private mutating func probeUpward(_ sample: AckSample) {
        guard wasWindowLimited || isWindowLimited, congestionWindow >= inFlightHigh else { return }
        upAcked += sample.acknowledged
        if upAcked >= upCount {
            let steps = upAcked / upCount
            upAcked -= steps * upCount
            inFlightHigh += steps * datagramSize
        }
        if isRoundStart { raiseSlope() }
    }

    private mutating func raiseSlope() {
        let growth = 1 << upRounds
        upRounds = min(upRounds + 1, 20)
        upCount = max(congestionWindow / growth, datagramSize)
        // A whole window's worth of acknowledgements grows the bound by `growth` packets.
        upCount = min(upCount, max(congestionWindow, datagramSize))
    }

    // MARK: - Probing for the round trip

    mutating func checkProbeRTT(_ sample: AckSample) {
        if state != .probeRTT, isProbeRTTDue, !isRestarting {
            enter(.probeRTT)
            savedWindow = congestionWindow
            probeRTTDone = nil
            phase = .probeStopping
            startRound()
        }
        if state == .probeRTT {
            if let done = probeRTTDone {
                if isRoundStart { isProbeRTTRoundDone = true }
                if isProbeRTTRoundDone, sample.now > done { checkProbeRTTDone(at: sample.now) }
            } else if sample.inFlight <= probeRTTWindow {
                // Longer than a few round trips it need not be, where those are short.
                let span = min(Self.probeRTTDuration, max(4 * minimumRTT, .milliseconds(2)))
                probeRTTDone = sample.now.advanced(nanoseconds: span)
                isProbeRTTRoundDone = false
                startRound()
            }
        }
        if sample.delivered > 0 { isRestarting = false }
    }

    mutating func checkProbeRTTDone(at now: Timestamp) {
        guard let done = probeRTTDone, now > done else { return }
        probeRTTStamp = now
        congestionWindow = max(congestionWindow, savedWindow)
        resetLowerBounds()
        if isFullRateReached {
            startDown(at: now)
            enter(.cruise)
        } else {
            enter(.startup)
        }
    }
}
