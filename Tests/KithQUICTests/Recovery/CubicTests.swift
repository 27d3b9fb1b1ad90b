import KithTesting
import Testing

@testable import KithQUIC

/// Feeds a controller round by round, as an endless sender on a path without surprises would.
private struct Feed {
    var cubic = Cubic(datagramSize: 1_000, initialRTT: .milliseconds(100))
    var now = Timestamp(nanoseconds: .seconds(100))
    var delivered: UInt64 = 0

    var window: Double { Double(cubic.congestionWindow) / 1_000 }

    /// A round trip in which everything in flight is acknowledged, ten packets an ACK frame.
    mutating func round(rtt: Int64 = .milliseconds(100), isLimited: Bool = true) {
        let packets = cubic.congestionWindow / 1_000
        let prior = delivered
        let sent = now
        cubic.sent(
            size: 1_000, inFlight: isLimited ? cubic.congestionWindow : 1_000, isApplicationLimited: !isLimited,
            at: now)
        for step in 0..<10 {
            var sample = AckSample()
            sample.acknowledged = packets * (step + 1) / 10 * 1_000 - packets * step / 10 * 1_000
            guard sample.acknowledged > 0 else { continue }
            delivered += UInt64(sample.acknowledged)
            sample.now = sent + rtt + Int64(step) * rtt / 1_000
            sample.rtt = rtt
            sample.smoothedRTT = rtt
            sample.priorDelivered = prior
            sample.totalDelivered = delivered
            sample.sentTime = sent
            cubic.acknowledged(sample)
        }
        now = sent + rtt
    }

    mutating func lose() {
        var sample = LossSample()
        sample.now = now
        sample.sentTime = now + -1
        sample.size = 1_000
        cubic.lost(sample)
    }
}

@Suite struct CubicTests {
    @Test func `a loss takes three tenths of the window, RFC 9438 4_6`() {
        var feed = Feed()
        for _ in 0..<4 { feed.round() }
        #expect(feed.window == 160)
        feed.lose()
        #expect(abs(feed.window - 112) <= 1)
        // The second loss of the same flight changes nothing.
        feed.lose()
        #expect(abs(feed.window - 112) <= 1)
    }

    @Test func `the window is back at its maximum after K seconds and levels off there, RFC 9438 4_2`() {
        var feed = Feed()
        for _ in 0..<6 { feed.round() }
        let maximum = feed.window
        #expect(maximum == 640)
        feed.lose()
        // K = cbrt(640 · 0.3 / 0.4) = 7.83 s.
        let k = Cubic.cubeRoot(maximum * 0.3 / 0.4)
        #expect(abs(k - 7.8297) < 0.001)
        let rounds = Int(k * 10)
        var windows: [Double] = []
        for _ in 0..<rounds {
            feed.round()
            windows.append(feed.window)
        }
        #expect(abs(feed.window - maximum) < 0.01 * maximum)
        // Concave: it grows fastest at first.
        #expect(windows[10] - windows[0] > 4 * (windows[rounds - 1] - windows[rounds - 11]))
        // Then convex.
        for _ in 0..<40 { feed.round() }
        let step = feed.window
        #expect(step > maximum * 1.02)
        for _ in 0..<40 { feed.round() }
        #expect(feed.window - step > step - maximum)
    }

    @Test func `on a short path it grows as Reno does, RFC 9438 4_3`() {
        var feed = Feed()
        for _ in 0..<3 { feed.round(rtt: .milliseconds(1)) }
        feed.lose()
        let begin = feed.window
        // 0.53 datagrams a round trip of 1 ms; the curve itself would need seconds.
        for _ in 0..<30 { feed.round(rtt: .milliseconds(1)) }
        #expect(abs(feed.window - begin - 30 * Cubic.alpha) < 3)
    }

    @Test func `a second loss below the last maximum makes room for others, RFC 9438 4_7`() {
        var feed = Feed()
        for _ in 0..<6 { feed.round() }
        feed.lose()
        for _ in 0..<5 { feed.round() }
        let lossAt = feed.window
        #expect(lossAt < 640)
        feed.lose()
        // The new plateau is 0.85 of the window, not the window.
        let k = Cubic.cubeRoot(lossAt * (0.85 - 0.7) / 0.4)
        for _ in 0..<Int(k * 10) { feed.round() }
        #expect(abs(feed.window - 0.85 * lossAt) < 0.02 * lossAt)
    }

    @Test func `time without anything to send is not growth, RFC 9438 4_2`() {
        var feed = Feed()
        for _ in 0..<6 { feed.round() }
        feed.lose()
        for _ in 0..<5 { feed.round() }
        let before = feed.window
        for _ in 0..<300 { feed.round(isLimited: false) }
        #expect(feed.window == before)
        feed.round()
        #expect(feed.window < before * 1.05)
    }

    @Test func `losses that were none are undone, RFC 9438 4_9`() {
        var feed = Feed()
        for _ in 0..<4 { feed.round() }
        feed.lose()
        feed.cubic.lossWasSpurious(size: 1_000, isWholePeriod: false, at: feed.now)
        #expect(feed.window < 160)
        feed.cubic.lossWasSpurious(size: 1_000, isWholePeriod: true, at: feed.now)
        #expect(feed.window == 160)
        feed.round()
        #expect(feed.window == 320, "slow start goes on")
    }

    @Test func `a mark is not undone with the losses around it, RFC 9002 7_1`() {
        var feed = Feed()
        for _ in 0..<4 { feed.round() }
        feed.lose()
        feed.cubic.congestionExperienced(sentTime: feed.now + -1, at: feed.now)
        feed.cubic.lossWasSpurious(size: 1_000, isWholePeriod: true, at: feed.now)
        #expect(feed.window < 160)
    }

    @Test func `persistent congestion leaves two datagrams, RFC 9002 7_6_2`() {
        var feed = Feed()
        for _ in 0..<4 { feed.round() }
        feed.cubic.persistentCongestion(inFlight: 0)
        #expect(feed.window == 2)
    }

    @Test func `slow start ends without a loss when the round trip grows, RFC 9406 4_2`() {
        var feed = Feed()
        for _ in 0..<3 { feed.round() }
        let before = feed.window
        // An eighth of 100 ms.
        feed.round(rtt: .milliseconds(113))
        // Five rounds at a quarter of the growth, then congestion avoidance.
        for _ in 0..<5 { feed.round(rtt: .milliseconds(113)) }
        #expect(feed.window < before * 2 * 4)
        let left = feed.window
        for _ in 0..<3 { feed.round(rtt: .milliseconds(113)) }
        #expect(feed.window < left * 1.2)
        #expect(feed.window > left)
    }

    @Test func `slow start resumes when the round trip shrinks again, RFC 9406 4_3`() {
        var feed = Feed()
        for _ in 0..<3 { feed.round() }
        feed.round(rtt: .milliseconds(113))
        feed.round(rtt: .milliseconds(100))
        let before = feed.window
        feed.round()
        #expect(abs(feed.window / before - 2) < 0.05)
    }

    @Test(arguments: [0.001, 1, 8, 27.5, 1e9]) func `cube roots are exact`(value: Double) {
        let root = Cubic.cubeRoot(value)
        #expect(abs(root * root * root - value) <= value * 1e-12)
    }

    @Test func `CUBIC fills a clean path and recovers from its own overflow`() throws {
        var simulation = CongestionSimulation()
        simulation.controller = .cubic
        let result = try simulation.run(for: .seconds(10))
        #expect(result.bytesPerSecond * 8 / 1e6 >= 85)
        #expect(Double(result.packetsLost) < 0.02 * Double(result.packetsSent))
    }
}
