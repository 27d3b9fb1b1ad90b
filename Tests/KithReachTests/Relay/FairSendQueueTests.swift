import KithIdentity
import KithReach
import KithTesting
import Testing

@Suite("The send queue of a relay") struct FairSendQueueTests {
    private let start = ContinuousClock.now
    private let one = DeviceKey().id
    private let two = DeviceKey().id
    private var queue = FairSendQueue<Int>()

    private mutating func drained(at now: ContinuousClock.Instant) -> [Int] {
        var items: [Int] = []
        while let item = queue.next(at: now) { items.append(item) }
        return items
    }

    @Test mutating func `a sender's datagrams stay in order, whatever their sizes`() {
        for item in 0..<100 { queue.append(item, size: item % 3 == 0 ? 40 : 1_200, from: one, at: start) }
        #expect(drained(at: start) == Array(0..<100))
        #expect(queue.isEmpty)
        #expect(queue.bytes == 0)
    }

    @Test mutating func `a small datagram comes before the bulk of others`() {
        for item in 0..<50 { queue.append(item, size: 1_200, from: one, at: start) }
        queue.append(1_000, size: 50, from: two, at: start)
        #expect(queue.next(at: start) == 1_000)
    }

    @Test mutating func `two senders of bulk get the same number of bytes`() {
        for item in 0..<100 { queue.append(item, size: 600, from: one, at: start) }
        for item in 0..<100 { queue.append(1_000 + item, size: 1_200, from: two, at: start) }
        var bytes = [0, 0]
        for _ in 0..<90 {
            guard let item = queue.next(at: start) else { break }
            bytes[item / 1_000] += item < 1_000 ? 600 : 1_200
        }
        #expect(abs(bytes[0] - bytes[1]) <= 2 * 4_096, "\(bytes)")
    }

    @Test mutating func `a flood of small ones does not starve bulk`() {
        for item in 0..<10 { queue.append(item, size: 1_200, from: two, at: start) }
        for item in 0..<1_500 { queue.append(1_000 + item, size: 60, from: one, at: start) }
        let order = drained(at: start)
        let last = order.lastIndex { $0 < 10 } ?? .max
        #expect(last < 700, "the last of ten was the \(last)th")
    }

    @Test mutating func `when full it drops the oldest of whoever has the most`() {
        queue.append(-1, size: 1_000, from: two, at: start)
        for item in 0..<1_000 { queue.append(item, size: 1_200, from: one, at: start) }
        #expect(queue.bytes <= 256 << 10)
        #expect(queue.dropped > 700)
        let order = drained(at: start)
        #expect(order.contains(-1))
        #expect(order.last == 999)
        #expect(!order.contains(0))
    }

    @Test mutating func `what has waited too long is dropped`() {
        queue.append(1, size: 1_200, from: one, at: start)
        queue.append(2, size: 1_200, from: one, at: start + .milliseconds(200))
        #expect(drained(at: start + .milliseconds(300)) == [2])
        #expect(queue.dropped == 1)
    }

    @Test mutating func `one that never fits is dropped alone`() {
        queue.append(1, size: 100, from: one, at: start)
        queue.append(2, size: 300 << 10, from: one, at: start)
        #expect(drained(at: start) == [1])
    }

    @Test(arguments: 0..<20) func `whatever happens, the books balance`(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var limits = SendQueueLimits()
        limits.bytes = 20_000
        var queue = FairSendQueue<Int>(limits: limits)
        let senders = (0..<6).map { _ in DeviceKey().id }
        var (added, taken, now) = (0, 0, start)
        var last: [Int: Int] = [:]
        for item in 0..<3_000 {
            if Bool.random(using: &random) {
                let sender = Int.random(in: 0..<6, using: &random)
                queue.append(
                    item * 6 + sender, size: Int.random(in: 1...6_000, using: &random), from: senders[sender], at: now)
                added += 1
            } else if let item = queue.next(at: now) {
                #expect(item / 6 > last[item % 6] ?? -1, "in order, \(random)")
                last[item % 6] = item / 6
                taken += 1
            }
            now += .milliseconds(Int.random(in: 0...20, using: &random))
            #expect(queue.bytes <= limits.bytes)
            #expect(UInt64(added) == UInt64(taken) + UInt64(queue.count) + queue.dropped, "\(random)")
        }
        while queue.next(at: now) != nil { taken += 1 }
        #expect(queue.bytes == 0)
        #expect(UInt64(added) == UInt64(taken) + queue.dropped, "\(random)")
    }
}
