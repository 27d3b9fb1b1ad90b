import Testing

@testable import KithQUIC

@Suite struct PersistentCongestionTests {
    let start = Timestamp(nanoseconds: .seconds(100))

    /// A connection with one round-trip sample of 100 ms, from packet 0.
    ///
    /// Its probe time-out is 100 + 4 · 50 + 25 = 325 ms, so that 975 ms are persistent; after a second sample it is less.
    private func sampled(_ kind: CongestionControllerKind = .newReno) throws -> Recovery {
        var configuration = RecoveryConfiguration()
        configuration.controller = kind
        var recovery = Recovery(configuration, isClient: false)
        recovery.handshakeConfirmed()
        recovery.send(at: start)
        try recovery.ack(0...0, at: start + .milliseconds(100))
        return recovery
    }

    private func after(_ milliseconds: Int64) -> Timestamp { start + .milliseconds(milliseconds) }

    @Test(arguments: CongestionControllerKind.allCases)
    func `a gap of losses longer than three probe time-outs collapses the window, RFC 9002 7.6`(
        kind: CongestionControllerKind
    ) throws {
        var recovery = try sampled(kind)
        for time in stride(from: Int64(200), through: 1_400, by: 300) { recovery.send(at: after(time)) }
        recovery.send(at: after(2_000))
        try recovery.ack(6...6, at: after(2_100))
        #expect(recovery.statistics.packetsLost == 5)
        #expect(recovery.statistics.persistentCongestions == 1)
        #expect(recovery.congestionWindow <= 5 * 1200)
        // RFC 9002 §5.2: the path may be another now.
        #expect(recovery.rtt.minimum == recovery.rtt.latest)
    }

    @Test func `exactly the duration is not longer than it, RFC 9002 7_6_2`() throws {
        for excess in [Int64(0), 1] {
            var recovery = try sampled()
            // Two of them acknowledged with the same round trip: 100 + 4 · 37.5 + 25 = 275 ms, 825 ms in all.
            recovery.send(at: after(200))
            recovery.send(at: after(200) + .milliseconds(825) + excess)
            recovery.send(at: after(1_300))
            try recovery.ack(3...3, at: after(1_400))
            #expect(recovery.probeTimeout == .milliseconds(275))
            #expect(recovery.statistics.packetsLost == 2)
            #expect(recovery.statistics.persistentCongestions == UInt64(excess))
        }
    }

    @Test func `an acknowledged packet between the losses prevents it, RFC 9002 7_6_2`() throws {
        var recovery = try sampled()
        for time: Int64 in [200, 800, 1_400] { recovery.send(at: after(time)) }
        recovery.send(at: after(2_000))
        try recovery.ack(4...4, 2...2, at: after(2_100))
        #expect(recovery.statistics.packetsLost == 2)
        #expect(recovery.statistics.persistentCongestions == 0)
    }

    @Test func `a packet acknowledged earlier between the losses prevents it too`() throws {
        var recovery = try sampled()
        for time: Int64 in [200, 210, 1_400] { recovery.send(at: after(time)) }
        try recovery.ack(2...2, at: after(310))
        recovery.send(at: after(2_000))
        _ = recovery.timedOut(at: after(400))
        #expect(recovery.statistics.packetsLost == 1)
        try recovery.ack(4...4, at: after(2_100))
        #expect(recovery.statistics.packetsLost == 2)
        #expect(recovery.statistics.persistentCongestions == 0)
    }

    @Test func `losses declared one after the other add up`() throws {
        var recovery = try sampled()
        for time: Int64 in [200, 700, 1_190, 1_200, 1_300] { recovery.send(at: after(time)) }
        // Only the first two are late enough now; the third when its time has come.
        try recovery.ack(4...4, at: after(1_301))
        let early = recovery.statistics
        #expect(early.packetsLost == 2 && early.persistentCongestions == 0)
        let deadline = try #require(recovery.deadline)
        #expect(recovery.timedOut(at: deadline) == .lossDetected)
        #expect(recovery.statistics.packetsLost == 3)
        #expect(recovery.statistics.persistentCongestions == 1)
    }

    @Test func `packets sent before the first sample do not count, RFC 9002 B_8`() throws {
        var configuration = RecoveryConfiguration()
        configuration.controller = .newReno
        var recovery = Recovery(configuration, isClient: false)
        recovery.handshakeConfirmed()
        for time in stride(from: Int64(0), through: 4_000, by: 500) { recovery.send(at: after(time)) }
        recovery.send(at: after(5_000))
        try recovery.ack(9...9, at: after(5_050))
        #expect(recovery.statistics.packetsLost == 9)
        #expect(recovery.statistics.persistentCongestions == 0)
    }

    @Test func `packets that ask for no acknowledgement are not its ends, RFC 9002 7_6_2`() throws {
        var recovery = try sampled()
        recovery.sent(
            .application, size: 1200, isAckEliciting: false, isInFlight: true, content: SentContent(), at: after(200))
        recovery.send(at: after(800))
        recovery.send(at: after(1_400))
        recovery.send(at: after(2_000))
        try recovery.ack(4...4, at: after(2_100))
        #expect(recovery.statistics.packetsLost == 3)
        #expect(recovery.statistics.persistentCongestions == 0)
    }

    @Test func `a packet of another space that arrived in between prevents it, RFC 9002 7_6_2`() throws {
        var recovery = try sampled()
        recovery.send(at: after(200))
        recovery.send(.handshake, at: after(800))
        recovery.send(at: after(1_400))
        recovery.send(at: after(2_000))
        try recovery.ack(0...0, space: .handshake, at: after(900))
        try recovery.ack(3...3, at: after(2_100))
        #expect(recovery.statistics.packetsLost == 2)
        #expect(recovery.statistics.persistentCongestions == 0)
    }

    @Test func `a number left out does not end a run of losses`() throws {
        var recovery = try sampled()
        recovery.send(at: after(200))
        recovery.skipPacketNumber(.application)
        recovery.send(at: after(1_400))
        recovery.send(at: after(2_000))
        try recovery.ack(4...4, at: after(2_100))
        #expect(recovery.statistics.persistentCongestions == 1)
    }
}
