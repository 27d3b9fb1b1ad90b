import KithTesting
import Testing

@testable import KithQUIC

@Suite struct ECNTests {
    let start = Timestamp(nanoseconds: .seconds(100))

    private func after(_ milliseconds: Int64) -> Timestamp { start + .milliseconds(milliseconds) }

    /// A validation that has sent so many packets, in batches of one.
    private func sent(_ count: Int) -> ECNValidation {
        var validation = ECNValidation(isEnabled: true)
        for _ in 0..<count {
            if validation.isMarking { validation.sent(.application) }
            validation.batchEnded()
        }
        return validation
    }

    @Test func `ten packets are marked, then none until the counts are seen, RFC 9000 A_4`() {
        var validation = sent(9)
        #expect(validation.isMarking && validation.state == .testing)
        validation.sent(.application)
        #expect(validation.isMarking, "a batch is marked alike to its end")
        validation.batchEnded()
        #expect(!validation.isMarking && validation.state == .unknown)
        let marks = validation.acknowledged(
            .application, counts: ECNCounts(ect0: 4), newlyAcknowledged: 4, oldestSentAt: start)
        validation.batchEnded()
        #expect(marks == 0 && validation.isMarking && validation.state == .capable)
    }

    @Test func `counts that grow by less than arrived mean that marks are removed, RFC 9000 13_4_2_1`() {
        var validation = sent(10)
        _ = validation.acknowledged(
            .application, counts: ECNCounts(ect0: 3), newlyAcknowledged: 4, oldestSentAt: start)
        #expect(validation.state == .failed && !validation.isMarking)
    }

    @Test func `an acknowledgement without counts ends marking, RFC 9000 13_4_2_1`() {
        var validation = sent(10)
        // Nothing marked was acknowledged: that proves nothing.
        _ = validation.acknowledged(.application, counts: nil, newlyAcknowledged: 0, oldestSentAt: start)
        #expect(validation.state == .unknown)
        _ = validation.acknowledged(.application, counts: nil, newlyAcknowledged: 1, oldestSentAt: start)
        #expect(validation.state == .failed)
    }

    @Test(arguments: [ECNCounts(ect0: 9, ect1: 1), ECNCounts(ect0: 11), ECNCounts(ect0: 8, ce: 3)])
    func `counts of what was never sent end marking, RFC 9000 13_4_2_1`(counts: ECNCounts) {
        var validation = sent(10)
        _ = validation.acknowledged(.application, counts: counts, newlyAcknowledged: 8, oldestSentAt: start)
        #expect(validation.state == .failed)
    }

    @Test func `counts that shrink end marking`() {
        var validation = sent(10)
        _ = validation.acknowledged(
            .application, counts: ECNCounts(ect0: 4), newlyAcknowledged: 4, oldestSentAt: start)
        _ = validation.acknowledged(
            .application, counts: ECNCounts(ect0: 3, ce: 2), newlyAcknowledged: 1, oldestSentAt: start)
        #expect(validation.state == .failed)
    }

    @Test func `a path that marks everything is not believed`() {
        var validation = sent(10)
        _ = validation.acknowledged(
            .application, counts: ECNCounts(ce: 4), newlyAcknowledged: 4, oldestSentAt: start)
        #expect(validation.state == .unknown)
        let marks = validation.acknowledged(
            .application, counts: ECNCounts(ce: 10), newlyAcknowledged: 6, oldestSentAt: start)
        #expect(validation.state == .failed && marks == 0)
    }

    @Test func `a path that drops every marked packet is found by losses and by time-outs, RFC 9000 A_4`() {
        var byLoss = sent(10)
        for _ in 0..<9 { byLoss.lost(sentAt: start) }
        #expect(byLoss.state == .unknown)
        byLoss.lost(sentAt: start)
        #expect(byLoss.state == .failed)
        var byTime = sent(2)
        byTime.timedOut(count: 1)
        #expect(byTime.state == .unknown && !byTime.isMarking)
        byTime.timedOut(count: 2)
        #expect(byTime.state == .failed)
    }

    @Test func `another path is tested anew, RFC 9000 9_4`() {
        var validation = sent(10)
        _ = validation.acknowledged(.application, counts: nil, newlyAcknowledged: 1, oldestSentAt: start)
        validation = validation.successor(isEnabled: true, at: after(100))
        #expect(validation.state == .testing && validation.isMarking)
        // What was sent on the old path proves nothing about the new one.
        _ = validation.acknowledged(.application, counts: nil, newlyAcknowledged: 1, oldestSentAt: after(50))
        #expect(validation.state == .testing)
        _ = validation.acknowledged(.application, counts: nil, newlyAcknowledged: 1, oldestSentAt: after(150))
        #expect(validation.state == .failed)
    }

    @Test func `frames that arrive out of order prove nothing, RFC 9000 13_4_2_1`() throws {
        var recovery = Recovery(RecoveryConfiguration(), isClient: false)
        recovery.handshakeConfirmed()
        for _ in 0..<4 {
            recovery.sent(
                .application, size: 1200, isAckEliciting: true, isInFlight: true, isMarkable: true,
                content: SentContent(), at: start)
        }
        func ack(_ range: ClosedRange<UInt64>, _ counts: ECNCounts?, at time: Timestamp) throws {
            try recovery.receivedAck(
                .application, ranges: [AckRange(smallest: range.lowerBound, largest: range.upperBound)], delay: 0,
                ecn: counts, at: time)
        }
        try ack(2...3, ECNCounts(ect0: 4), at: after(50))
        #expect(recovery.path.ecn.state == .capable)
        try ack(0...1, ECNCounts(ect0: 2), at: after(51))
        #expect(recovery.path.ecn.state == .capable)
    }

    @Test(arguments: CongestionControllerKind.allCases)
    func `a mark makes every controller send less, RFC 9002 7_1`(kind: CongestionControllerKind) throws {
        var transfer = LinkTransfer()
        transfer.controller = kind
        transfer.size = 8 << 20
        // Marks come at a tenth of the queue: nothing needs to be dropped.
        transfer.conditions.queue = 2_500_000
        transfer.conditions.markingQueue = 100_000
        let result = try transfer.run()
        print("link marking, \(kind): \(result.megabits) Mbit/s, \(result.sender)")
        #expect(result.isComplete && result.congestionMarks > 0)
        #expect(result.sender.congestionMarks > 0)
        #expect(result.sender.packetsLost == 0)
        #expect(result.megabits > 30)
    }

    @Test(arguments: [
        NetworkConditions.Marks.kept, .cleared, .alwaysCongested, .swapped, .dropped,
    ])
    func `a transfer gets through whatever the network does to marks`(marks: NetworkConditions.Marks) throws {
        var transfer = LinkTransfer()
        transfer.size = 2 << 20
        transfer.conditions.marks = marks
        var isMarking = false
        let result = try transfer.run(observe: { isMarking = $0.client.recovery.isMarkingECN })
        #expect(result.isComplete)
        #expect(isMarking == (marks == .kept))
        #expect(result.seconds < 4)
    }

    @Test func `a configuration without ECN marks nothing`() throws {
        var transfer = LinkTransfer()
        transfer.size = 1 << 20
        transfer.conditions.markingQueue = 2_000
        #expect(try transfer.run().congestionMarks > 0)
        #expect(try transfer.run(change: { $0.usesECN = false }).congestionMarks == 0)
    }
}
