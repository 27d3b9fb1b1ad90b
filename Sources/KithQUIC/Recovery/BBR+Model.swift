// What BBR believes about the path: rate, round trip, how much fits, and the rounds it counts in.
extension BBR {
    mutating func updateLatest(_ sample: AckSample) {
        isLossRoundStart = false
        latestRate = max(latestRate, sample.rate)
        latestDelivered = max(latestDelivered, sample.delivered)
        if sample.priorDelivered >= lossRoundDelivered {
            lossRoundDelivered = sample.totalDelivered
            isLossRoundStart = true
        }
    }

    /// Starts counting losses at the first, for a whole round from there (draft-ietf-ccwg-bbr, BBRNoteLoss).
    ///
    /// Judged any sooner, what a round delivers would be missing beside what it lost, and packets that are only late would
    /// have no time to turn up.
    mutating func startLossRound(totalDelivered: UInt64) {
        lossRoundDelivered = totalDelivered
        deliveredAtRoundStart = totalDelivered
    }

    mutating func updateRound(_ sample: AckSample) {
        // No round is shorter than the smallest round trip: of packets that overtake the others some would end it sooner.
        guard sample.priorDelivered >= nextRoundDelivered,
            minimumRTT == .max || sample.now - roundStamp >= min(minimumRTT, sample.rtt ?? .max)
        else {
            isRoundStart = false
            return
        }
        startRound()
        roundCount += 1
        roundsSinceProbe += 1
        isRoundStart = true
        wasWindowLimited = isWindowLimited
        isWindowLimited = false
    }

    mutating func startRound() {
        nextRoundDelivered = deliveredTotal
        roundStamp = deliveredStamp
    }

    mutating func updateMaximumRate(_ sample: AckSample) {
        guard sample.rate > 0, sample.rate >= maximumRate || !sample.isApplicationLimited else { return }
        rateFilter.current = max(rateFilter.current, sample.rate)
        maximumRate = max(rateFilter.previous, rateFilter.current)
    }

    mutating func advanceRateFilter() {
        guard rateFilter.current > 0 else { return }
        rateFilter = (rateFilter.current, 0)
        maximumRate = rateFilter.previous
    }

    /// The share of a flight above which too much was lost: what the path loses anyway is not held against it.
    var lossLimit: Double { Self.lossThreshold + 1.5 * cause.unavoidable }

    /// Returns whether the last round lost more than a path that is not full does.
    private func isLossHeavy(_ sample: AckSample) -> Bool {
        let delivered = Double(sample.totalDelivered - min(deliveredAtRoundStart, sample.totalDelivered))
        return lostInRound > Self.lossTolerance * datagramSize
            && Double(lostInRound) > lossLimit * (delivered + Double(lostInRound))
    }

    mutating func adaptLowerBounds(_ sample: AckSample) {
        switch state {
        case .refill, .up, .startup: return
        case .drain, .down, .cruise, .probeRTT: break
        }
        if isRoundMarked || isLossHeavy(sample) {
            answeredUntil = sample.now
            lowerBounds()
        }
    }

    mutating func lowerBounds() {
        if rateLow == .max { rateLow = maximumRate }
        if inFlightLow == Self.unbounded { inFlightLow = congestionWindow }
        rateLow = max(latestRate, Int64(Self.beta * Double(rateLow)), Int64(datagramSize))
        inFlightLow = max(Int(clamping: latestDelivered), Int(Self.beta * Double(inFlightLow)), minimumWindow)
    }

    mutating func resetLowerBounds() {
        rateLow = .max
        inFlightLow = Self.unbounded
    }

    /// Updates the excess of bytes acknowledged at once over the model: receivers and links gather acknowledgements.
    mutating func updateExtraAcked(_ sample: AckSample) {
        let interval = sample.now - extraAckedStart
        var expected = Int(Double(rate) * Double(max(0, interval)) / 1e9)
        if extraAckedDelivered <= expected {
            extraAckedDelivered = 0
            extraAckedStart = sample.now
            expected = 0
        }
        extraAckedDelivered += sample.acknowledged
        let extra = min(extraAckedDelivered - expected, congestionWindow)
        // A maximum over the last ten to twenty rounds, in two halves.
        if roundCount >= extraAckedFilter.round + Self.extraAckedRounds {
            extraAckedFilter = (extra, roundCount, extraAckedFilter.value)
        } else {
            extraAckedFilter.value = max(extraAckedFilter.value, extra)
        }
        extraAcked = max(extraAckedFilter.value, extraAckedFilter.older)
    }

    mutating func updateMinimumRTT(_ sample: AckSample) {
        isProbeRTTDue = probeRTTMinimum != .max && sample.now - probeRTTStamp > Self.probeRTTInterval
        guard let rtt = sample.rtt else { return }
        if sample.forgetsMinimum { (probeRTTMinimum, minimumRTT) = (.max, .max) }
        if rtt < probeRTTMinimum || isProbeRTTDue {
            probeRTTMinimum = rtt
            probeRTTStamp = sample.now
        }
        let isExpired = sample.now - minimumRTTStamp > Self.minimumFilterLength
        if probeRTTMinimum < minimumRTT || isExpired {
            // What seemed to meet no queue has met one.
            if minimumRTT != .max, probeRTTMinimum < minimumRTT - LossCause.noise { cause.startOver() }
            minimumRTT = probeRTTMinimum
            minimumRTTStamp = probeRTTStamp
        }
    }

    // MARK: - Full pipe

    mutating func resetFullRate() {
        fullRate = 0
        fullRateCount = 0
        isFullRateNow = false
    }

    mutating func checkFullRate(_ sample: AckSample) {
        guard !isFullRateNow, isRoundStart, !sample.isApplicationLimited else { return }
        if Double(sample.rate) >= Double(fullRate) * 1.25 {
            resetFullRate()
            fullRate = sample.rate
            return
        }
        fullRateCount += 1
        isFullRateNow = fullRateCount >= 3
        if isFullRateNow { isFullRateReached = true }
    }

    mutating func checkStartupLoss(_ sample: AckSample) {
        guard isLossRoundStart, !isFullRateReached, isRoundMarked || lossRunsInRound >= 6 && isLossHeavy(sample)
        else { return }
        isFullRateReached = true
        answeredUntil = sample.now
        inFlightHigh = max(product(maximumRate, gain: 1), Int(clamping: latestDelivered), minimumWindow)
    }

    // MARK: - Too much in flight

    func isTooHigh(lost: UInt64, sentInFlight: Int) -> Bool {
        lost > UInt64(Self.lossTolerance * datagramSize) && Double(lost) > Double(sentInFlight) * lossLimit
    }

    mutating func handleTooHigh(inFlight: Int, isApplicationLimited: Bool, at now: Timestamp) {
        isSampling = false
        answeredUntil = now
        if !isApplicationLimited {
            let floor = Int(Self.beta * Double(min(target(rate, gain: 1), congestionWindow)))
            inFlightHigh = max(inFlight, floor, minimumWindow)
        }
        if state == .up { startDown(at: now) }
    }
}
