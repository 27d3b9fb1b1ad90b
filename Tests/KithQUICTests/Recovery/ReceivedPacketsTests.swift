import KithTesting
import Testing

@testable import KithQUIC

/// An ACK frame read back by the letter of RFC 9000 §19.3, independent of the engine's parser.
struct ReadAck {
    var ranges: [AckRange] = []
    var delay: UInt64 = 0
    var ecn: [UInt64] = []

    init?(_ bytes: [UInt8]) {
        var position = 1
        func varint() -> UInt64 {
            let length = 1 << Int(bytes[position] >> 6)
            var value = UInt64(bytes[position] & 0x3F)
            for index in 1..<max(length, 1) where length > 1 { value = value << 8 | UInt64(bytes[position + index]) }
            position += length
            return value
        }
        guard bytes.first == 2 || bytes.first == 3 else { return nil }
        let largest = varint()
        delay = varint()
        let count = varint()
        var smallest = largest - varint()
        ranges.append(AckRange(smallest: smallest, largest: largest))
        for _ in 0..<count {
            let gap = varint()
            let top = smallest - gap - 2
            smallest = top - varint()
            ranges.append(AckRange(smallest: smallest, largest: top))
        }
        if bytes[0] == 3 { ecn = [varint(), varint(), varint()] }
        guard position == bytes.count else { return nil }
    }
}

extension ReceivedPackets {
    func ack(room: Int = 1200, exponent: Int = 3, at now: Timestamp = .zero) -> ReadAck? {
        var bytes = [UInt8](repeating: 0, count: room)
        let count = bytes.withUnsafeMutableBytes { writeAck(into: $0, delayExponent: exponent, at: now) }
        return ReadAck(Array(bytes[..<count]))
    }
}

@Suite struct ReceivedPacketsTests {
    @Test func `every second packet is acknowledged, and a lone one after the delay`() {
        var packets = ReceivedPackets(space: .application)
        let start = Timestamp(nanoseconds: 1_000)
        packets.received(0, isAckEliciting: true, ecn: 0, at: start)
        #expect(!packets.shouldAcknowledgeNow(at: start))
        #expect(packets.deadline == start + .milliseconds(25))
        #expect(packets.shouldAcknowledgeNow(at: start + .milliseconds(25)))
        packets.received(1, isAckEliciting: true, ecn: 0, at: start)
        #expect(packets.shouldAcknowledgeNow(at: start))
        packets.acknowledgementSent()
        #expect(packets.deadline == nil)
        #expect(!packets.hasUnacknowledged)
    }

    @Test func `a hole is reported at once`() {
        var packets = ReceivedPackets(space: .application)
        packets.received(0, isAckEliciting: true, ecn: 0, at: .zero)
        packets.acknowledgementSent()
        packets.received(2, isAckEliciting: true, ecn: 0, at: .zero)
        #expect(packets.shouldAcknowledgeNow(at: .zero))
    }

    @Test func `what brings nothing new is acknowledged again, more often each time`() {
        var packets = ReceivedPackets(space: .application)
        var now = Timestamp.zero
        packets.received(0, isAckEliciting: true, ecn: 0, at: now)
        packets.acknowledgementSent()

        /// The number of times until nothing is waited for any more, each 2 ms after the one before.
        func repeats() -> Int {
            var count = 0
            while let time = packets.deadline {
                let isEarly = packets.repeatIfDue(at: now)
                #expect(time == now + .milliseconds(2) && !isEarly)
                now = time
                let isDue = packets.repeatIfDue(at: now)
                #expect(isDue && packets.hasUnacknowledged && !packets.shouldAcknowledgeNow(at: now))
                packets.acknowledgementSent()
                #expect(!packets.hasUnacknowledged)
                count += 1
            }
            return count
        }
        for (index, count) in [0, 4, 8, 16, 16].enumerated() {
            packets.received(UInt64(index) + 1, isAckEliciting: true, isRepetition: true, ecn: 0, at: now)
            #expect(packets.shouldAcknowledgeNow(at: now))
            packets.acknowledgementSent()
            #expect(repeats() == count)
        }
        // Something new ends it, and begins again from few.
        packets.received(7, isAckEliciting: true, isRepetition: true, ecn: 0, at: now)
        packets.received(8, isAckEliciting: true, ecn: 0, at: now)
        packets.acknowledgementSent()
        let isDue = packets.repeatIfDue(at: .distantFuture)
        #expect(packets.deadline == nil && !isDue)
        for number in [9, 10] as [UInt64] {
            packets.received(number, isAckEliciting: true, isRepetition: true, ecn: 0, at: now)
            packets.acknowledgementSent()
        }
        #expect(repeats() == 4)
    }

    @Test func `acknowledgements elicit none`() {
        var packets = ReceivedPackets(space: .application)
        packets.received(0, isAckEliciting: false, ecn: 0, at: .zero)
        packets.received(5, isAckEliciting: false, ecn: 0, at: .zero)
        #expect(!packets.shouldAcknowledgeNow(at: .distantFuture))
        #expect(packets.deadline == nil)
    }

    @Test func `the delay counts from the largest packet in units of the exponent`() {
        var packets = ReceivedPackets(space: .application)
        packets.received(9, isAckEliciting: true, ecn: 0, at: .zero)
        packets.received(3, isAckEliciting: true, ecn: 0, at: Timestamp(nanoseconds: .milliseconds(7)))
        #expect(packets.ack(at: Timestamp(nanoseconds: .milliseconds(8)))?.delay == 1_000)
    }

    @Test func `marks are counted`() {
        var packets = ReceivedPackets(space: .application)
        for (number, ecn) in [UInt8(2), 2, 3, 1].enumerated() {
            packets.received(UInt64(number), isAckEliciting: true, ecn: ecn, at: .zero)
        }
        #expect(packets.ack()?.ecn == [2, 1, 1])
    }

    @Test(arguments: 0..<40) func `the frame says what was received, newest first`(round: UInt64) throws {
        var random = SeededRandom(seed: 0xACED &+ round)
        var packets = ReceivedPackets(space: .application)
        var model = Set<UInt64>()
        var next: UInt64 = 0
        for _ in 0..<600 {
            next += random.chance(0.2) ? UInt64.random(in: 1...5, using: &random) : 1
            let number = random.chance(0.2) ? next - min(next, UInt64.random(in: 0...20, using: &random)) : next
            // Below the floor everything counts as received.
            #expect(!model.contains(number) || packets.isDuplicate(number), "\(random)")
            if packets.isDuplicate(number) { continue }
            packets.received(number, isAckEliciting: true, ecn: 0, at: .zero)
            model.insert(number)
            #expect(packets.rangeCount <= ReceivedPackets.maximumRanges)
        }
        let room = Int.random(in: 12...400, using: &random)
        let ack = try #require(packets.ack(room: room))
        #expect(ack.ranges.first?.largest == model.max(), "\(random)")
        for range in ack.ranges {
            #expect((range.smallest...range.largest).allSatisfy(model.contains), "\(random)")
            #expect(!model.contains(range.largest + 1), "\(random)")
        }
        packets.acknowledgementAcknowledged(upTo: next / 2)
        #expect(packets.isDuplicate(next / 2) || !model.contains(next / 2), "\(random)")
        #expect(packets.largest == model.max(), "\(random)")
    }
}
