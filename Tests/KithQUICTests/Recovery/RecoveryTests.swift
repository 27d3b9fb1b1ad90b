import KithTesting
import Testing

@testable import KithQUIC

extension Recovery {
    mutating func send(
        _ space: PacketSpace = .application, size: Int = 1200, offset: UInt64 = 0, at now: Timestamp
    ) {
        var content = SentContent()
        content.add(stream: StreamID(rawValue: 0), offset: offset, length: size, isFinished: false)
        sent(space, size: size, isAckEliciting: true, isInFlight: true, content: content, at: now)
    }

    mutating func lostOffsets() -> [UInt64] {
        var result: [UInt64] = []
        while let lost = nextLost() { result.append(lost.content.stream?.offset ?? .max) }
        return result
    }

    mutating func acknowledgedOffsets() -> [UInt64] {
        var result: [UInt64] = []
        while let packet = nextAcknowledged() { result.append(packet.content.stream?.offset ?? .max) }
        return result
    }

    mutating func ack(
        _ ranges: ClosedRange<UInt64>..., space: PacketSpace = .application, delay: Int64 = 0, at now: Timestamp
    ) throws(AckViolation) {
        let ranges = ranges.map { AckRange(smallest: $0.lowerBound, largest: $0.upperBound) }
        try receivedAck(space, ranges: ranges, delay: delay, ecn: nil, at: now)
    }
}

@Suite struct RecoveryTests {
    let start = Timestamp(nanoseconds: .seconds(100))

    private func confirmed() -> Recovery {
        var recovery = Recovery(RecoveryConfiguration(), isClient: false)
        recovery.handshakeConfirmed()
        return recovery
    }

    @Test(arguments: [true, false])
    func `what waited while the process stood still is no sample of the round trip`(timerIsFirst: Bool) throws {
        var recovery = confirmed()
        recovery.send(offset: 0, at: start)
        try recovery.ack(0...0, at: start + .milliseconds(50))
        recovery.send(offset: 1, at: start + .milliseconds(60))
        let before = recovery.rtt
        let wake = start + .seconds(600)
        if timerIsFirst {
            #expect(recovery.timedOut(at: wake) == .probe(.application, packets: 2))
            recovery.send(offset: 1, at: wake)
        }
        try recovery.ack(1...1, at: wake)
        #expect(recovery.rtt == before)
        // From then on it is measured again.
        recovery.send(offset: 2, at: wake + .milliseconds(1))
        let number: UInt64 = timerIsFirst ? 3 : 2
        try recovery.ack(number...number, at: wake + .milliseconds(31))
        #expect(recovery.rtt.latest == .milliseconds(30))
    }

    @Test func `a round trip that is longer than the probe time-outs is a sample`() throws {
        var recovery = confirmed()
        recovery.send(offset: 0, at: start)
        try recovery.ack(0...0, at: start + .milliseconds(50))
        let sent = start + .milliseconds(60)
        recovery.send(offset: 1, at: sent)
        while let deadline = recovery.deadline, deadline < sent + .seconds(3) {
            _ = recovery.timedOut(at: deadline)
            recovery.send(offset: 1, at: deadline)
        }
        try recovery.ack(1...1, at: sent + .seconds(3))
        #expect(recovery.rtt.latest == .seconds(3))
    }

    @Test func `three packets acknowledged after it make a packet lost`() throws {
        var recovery = confirmed()
        for number in 0..<5 { recovery.send(offset: UInt64(number), at: start) }
        try recovery.ack(1...2, at: start + .milliseconds(50))
        #expect(recovery.lostOffsets() == [])
        try recovery.ack(1...3, at: start + .milliseconds(50))
        #expect(recovery.lostOffsets() == [0])
        #expect(recovery.acknowledgedOffsets() == [1, 2, 3])
        #expect(recovery.bytesInFlight == 1200)
    }

    @Test(arguments: CongestionControllerKind.allCases)
    func `a packet the system refused is neither in flight nor lost`(controller: CongestionControllerKind) throws {
        var configuration = RecoveryConfiguration()
        configuration.controller = controller
        var recovery = Recovery(configuration, isClient: false)
        recovery.handshakeConfirmed()
        var other = recovery
        for offset: UInt64 in 0...1 {
            recovery.send(offset: offset, at: start)
            other.send(offset: offset, at: start)
        }
        let before = recovery.beforePacket(.application)
        recovery.send(size: 65_507, offset: 2, at: start + .milliseconds(1))
        #expect(recovery.permission(at: start + .milliseconds(1)) == .congestionBlocked)
        recovery.takeBack(before)
        #expect(recovery.bytesInFlight == 2_400 && recovery.deadline == other.deadline)
        #expect(recovery.permission(at: start + .milliseconds(1)) == other.permission(at: start + .milliseconds(1)))
        // What follows is as if it had never been, but for its number.
        for offset: UInt64 in 3...6 {
            recovery.send(offset: offset, at: start + .milliseconds(2))
            other.send(offset: offset, at: start + .milliseconds(2))
        }
        try recovery.ack(3...6, 0...1, at: start + .milliseconds(52))
        try other.ack(0...5, at: start + .milliseconds(52))
        #expect(recovery.lostOffsets() == [] && recovery.acknowledgedOffsets() == [3, 4, 5, 6, 0, 1])
        #expect(recovery.bytesInFlight == 0 && recovery.statistics == other.statistics)
        #expect(recovery.congestionWindow == other.congestionWindow && recovery.pacingRate == other.pacingRate)
        #expect(throws: AckViolation.unsentPacket) { try recovery.ack(2...6, at: start + .milliseconds(53)) }
    }

    @Test func `nine eighths of a round trip make a packet lost`() throws {
        var recovery = confirmed()
        recovery.send(offset: 0, at: start)
        recovery.send(offset: 1, at: start + .milliseconds(1))
        try recovery.ack(1...1, at: start + .milliseconds(81))
        #expect(recovery.deadline == start + .milliseconds(90))
        #expect(recovery.timedOut(at: start + .milliseconds(89)) == .none)
        #expect(recovery.timedOut(at: start + .milliseconds(90)) == .lossDetected)
        #expect(recovery.lostOffsets() == [0])
        #expect(recovery.bytesInFlight == 0)
    }

    @Test func `the round trip is smoothed and freed of the peer's delay`() throws {
        var recovery = confirmed()
        recovery.send(at: start)
        try recovery.ack(0...0, delay: .milliseconds(20), at: start + .milliseconds(50))
        // RFC 9002 §5.3: the first sample counts whole.
        #expect(recovery.rtt.smoothed == .milliseconds(50))
        #expect(recovery.rtt.variance == .milliseconds(25))
        recovery.send(at: start + .milliseconds(100))
        try recovery.ack(1...1, delay: .milliseconds(20), at: start + .milliseconds(180))
        #expect(recovery.rtt.smoothed == .microseconds(51_250))
        #expect(recovery.rtt.minimum == .milliseconds(50))
        #expect(recovery.rtt.latest == .milliseconds(80))
    }

    @Test func `a probe is due after the time-out and backs off`() throws {
        var recovery = confirmed()
        recovery.send(at: start)
        try recovery.ack(0...0, at: start + .milliseconds(100))
        recovery.send(offset: 7, at: start + .milliseconds(200))
        // smoothed 100 + 4 × 50 + the peer's 25.
        let due = start + .milliseconds(525)
        #expect(recovery.deadline == due)
        #expect(recovery.timedOut(at: due) == .probe(.application, packets: 2))
        #expect(recovery.lostOffsets() == [7])
        #expect(recovery.statistics.packetsLost == 0)
        #expect(recovery.deadline == start + .milliseconds(200 + 650))
        try recovery.ack(1...1, at: due)
        recovery.send(at: due)
        #expect(recovery.deadline.map { $0 - due < .milliseconds(1_000) } == true)
    }

    @Test func `a probe is not put off by what is sent meanwhile`() throws {
        var recovery = confirmed()
        recovery.send(at: start)
        try recovery.ack(0...0, at: start + .milliseconds(100))
        for number in 1...4 {
            recovery.send(offset: UInt64(number), at: start + .milliseconds(100 + 100 * Int64(number)))
        }
        // smoothed 100 + 4 × 50 + the peer's 25, since the first of them.
        let due = start + .milliseconds(525)
        #expect(recovery.deadline == due)
        #expect(recovery.timedOut(at: due) == .probe(.application, packets: 2))
        #expect(recovery.lostOffsets() == [1, 2])
        // The next is counted from the probe, and doubled.
        recovery.send(offset: 1, at: due)
        for number in 5...9 {
            recovery.send(offset: UInt64(number), at: start + .milliseconds(100 + 100 * Int64(number)))
        }
        #expect(recovery.deadline == due + .milliseconds(650))
    }

    @Test func `an acknowledgement begins the probe time-out anew`() throws {
        var recovery = confirmed()
        recovery.send(at: start)
        try recovery.ack(0...0, at: start + .milliseconds(100))
        recovery.send(at: start + .milliseconds(200))
        try recovery.ack(1...1, at: start + .milliseconds(300))
        // smoothed 100 + 4 × 37.5 + the peer's 25.
        for time in [400, 500] as [Int64] { recovery.send(at: start + .milliseconds(time)) }
        #expect(recovery.deadline == start + .milliseconds(400 + 275))
    }

    @Test func `a client keeps probing while the server may be held back by amplification`() throws {
        var recovery = Recovery(RecoveryConfiguration(), isClient: true)
        recovery.send(.initial, at: start)
        try recovery.ack(0...0, space: .initial, at: start + .milliseconds(10))
        let due = try #require(recovery.deadline)
        #expect(recovery.timedOut(at: due) == .probe(.initial, packets: 1))
        recovery.handshakeKeysAvailable()
        let next = try #require(recovery.deadline)
        #expect(recovery.timedOut(at: next) == .probe(.handshake, packets: 1))
        recovery.addressValidated()
        #expect(recovery.deadline == nil)
    }

    @Test func `a server held back by amplification does not probe`() {
        var recovery = Recovery(RecoveryConfiguration(), isClient: false)
        recovery.send(.initial, at: start)
        recovery.isAmplificationBlocked = true
        #expect(recovery.deadline == nil)
        recovery.isAmplificationBlocked = false
        #expect(recovery.deadline != nil)
    }

    @Test func `one-RTT packets are not probed for before confirmation`() {
        var recovery = Recovery(RecoveryConfiguration(), isClient: false)
        recovery.send(.application, at: start)
        #expect(recovery.deadline == nil)
        recovery.handshakeConfirmed()
        #expect(recovery.deadline != nil)
    }

    @Test func `a discarded space leaves nothing in flight`() {
        var recovery = Recovery(RecoveryConfiguration(), isClient: false)
        recovery.send(.initial, at: start)
        recovery.send(.handshake, at: start)
        recovery.discard(.initial, at: start)
        #expect(recovery.bytesInFlight == 1200)
        recovery.discard(.handshake, at: start)
        #expect(recovery.bytesInFlight == 0)
        #expect(recovery.deadline == nil)
    }

    @Test func `a packet found again is acknowledged and makes us more patient`() throws {
        var recovery = confirmed()
        for number in 0..<8 { recovery.send(offset: UInt64(number), at: start) }
        try recovery.ack(5...5, at: start + .milliseconds(50))
        #expect(recovery.lostOffsets() == [0, 1, 2])
        _ = recovery.acknowledgedOffsets()
        try recovery.ack(0...5, at: start + .milliseconds(51))
        #expect(recovery.acknowledgedOffsets().sorted() == [0, 1, 2, 3, 4])
        #expect(recovery.statistics.spuriousLosses == 3)
        for number in 8..<16 { recovery.send(offset: UInt64(number), at: start + .milliseconds(60)) }
        try recovery.ack(13...13, 0...5, at: start + .milliseconds(110))
        #expect(recovery.lostOffsets() == [6, 7])
    }

    @Test func `acknowledgements alone are never waited for`() {
        var recovery = confirmed()
        for _ in 0..<10_000 {
            var content = SentContent()
            content.largestAcknowledged = 3
            recovery.sent(
                .application, size: 40, isAckEliciting: false, isInFlight: false, content: content, at: start)
        }
        #expect(recovery.deadline == nil)
        #expect(recovery.bytesInFlight == 0)
        #expect(recovery.bookkeeping <= 64)
    }

    @Test func `acknowledging what was never sent is a violation`() {
        var recovery = confirmed()
        recovery.send(at: start)
        #expect(throws: AckViolation.unsentPacket) { try recovery.ack(0...1, at: start) }
    }

    @Test func `losing everything for long is persistent congestion`() throws {
        var recovery = confirmed()
        recovery.send(at: start)
        try recovery.ack(0...0, at: start + .milliseconds(10))
        for number in 1...20 { recovery.send(offset: UInt64(number), at: start + .milliseconds(100 * Int64(number))) }
        try recovery.ack(20...20, at: start + .milliseconds(2_010))
        #expect(recovery.statistics.persistentCongestions == 1)
        #expect(recovery.congestionWindow <= 5 * 1200)
    }

    @Test(arguments: 0..<30) func `every packet ends acknowledged or lost, and nothing stays in flight`(round: UInt64)
        throws
    {
        var random = SeededRandom(seed: 0x4EC0_7E4 &+ round)
        var recovery = confirmed()
        var now = start
        var settled = Set<UInt64>()
        var sent: UInt64 = 0
        var received = OffsetRanges()
        for step in 0..<1_500 {
            now = now + Int64.random(in: 0...3_000_000, using: &random)
            if step < 1_300, random.chance(0.7) {
                if random.chance(0.02) { recovery.skipPacketNumber(.application) }
                let number = recovery.nextPacketNumber(.application)
                recovery.send(offset: sent, at: now)
                sent += 1
                if !random.chance(0.15) { received.insert(number..<number + 1) }
            }
            if random.chance(0.3), received.count > 0 {
                var ranges: [AckRange] = []
                for position in (max(0, received.count - 20)..<received.count).reversed() {
                    let range = received[position]
                    ranges.append(AckRange(smallest: range.lowerBound, largest: range.upperBound - 1))
                }
                try recovery.receivedAck(.application, ranges: ranges, delay: 0, ecn: nil, at: now)
            }
            if let deadline = recovery.deadline, deadline <= now { _ = recovery.timedOut(at: now) }
            settled.formUnion(recovery.lostOffsets())
            settled.formUnion(recovery.acknowledgedOffsets())
        }
        // Then one more gets through.
        let last = recovery.nextPacketNumber(.application)
        for _ in 0..<400 {
            recovery.send(offset: sent, at: now)
            sent += 1
        }
        now = now + .milliseconds(100)
        try recovery.ack(last...last + 399, at: now)
        settled.formUnion(recovery.lostOffsets())
        settled.formUnion(recovery.acknowledgedOffsets())
        #expect(settled.count == Int(sent), "\(random)")
        #expect(recovery.bytesInFlight == 0, "\(random)")
        #expect(recovery.bookkeeping < 4_096, "\(random)")
    }
}
