import KithIdentity
import KithQUIC
import KithWire
import Testing

@testable import KithNet

@Suite struct ChunkQueueTests {
    @Test func `bytes come out in the order they went in, whatever the sizes`() {
        let seed = UInt64.random(in: .min ... .max)
        print("seed \(seed)")
        var random = SplitMix(seed: seed)
        for _ in 0..<200 {
            var queue = ChunkQueue()
            var expected: [UInt8] = []
            var seen: [UInt8] = []
            for _ in 0..<Int.random(in: 1...80, using: &random) {
                let size = Int.random(in: 0...5000, using: &random)
                let bytes = random.bytes(size)
                switch Int.random(in: 0..<4, using: &random) {
                case 0:
                    queue.append(bytes)
                    expected += bytes
                case 1:
                    bytes.withUnsafeBytes { queue.append(copying: $0, joiningBelow: 2000) }
                    expected += bytes
                case 2:
                    if let taken = queue.take(upTo: max(1, size)) {
                        #expect(!taken.isEmpty && taken.count <= max(1, size))
                        seen += taken
                    } else {
                        #expect(queue.isEmpty)
                    }
                default:
                    let amount = min(size, queue.count)
                    let rest = expected[seen.count..<seen.count + amount]
                    queue.drop(amount)
                    seen += rest
                }
                #expect(queue.count == expected.count - seen.count)
                if let (chunk, offset) = queue.first { #expect(chunk[offset] == expected[seen.count]) }
            }
            while let taken = queue.take(upTo: 3000) { seen += taken }
            #expect(seen == expected)
        }
    }

    @Test func `a large chunk is handed over whole`() {
        var queue = ChunkQueue()
        queue.append([UInt8](repeating: 1, count: 100_000))
        queue.append([2])
        #expect(queue.take(upTo: 256 << 10)?.count == 100_000)
        #expect(queue.take(upTo: 256 << 10) == [2])
        #expect(queue.take(upTo: 1) == nil)
    }
}

@Suite struct PeerTableTests {
    private final class Item {}

    private let small: DeviceID
    private let large: DeviceID

    init() {
        let ids = [DeviceKey().id, DeviceKey().id].sorted()
        (small, large) = (ids[0], ids[1])
    }

    @Test(arguments: [true, false])
    func `of two crossing dials both ends keep the smaller id's, in whatever order they see them`(smallFirst: Bool) {
        var table = PeerTable<Item>()
        let (bySmall, byLarge) = (Item(), Item())
        let order = smallFirst ? [(bySmall, small), (byLarge, large)] : [(byLarge, large), (bySmall, small)]
        for (index, (item, dialer)) in order.enumerated() {
            table.add(item, to: large, dialedBy: dialer, at: Timestamp(nanoseconds: Int64(index) * 1_000_000))
        }
        #expect(table.current(large) === bySmall)
        #expect(table.count == 2 && table.all(large).count == 2)
    }

    @Test func `of two dialed by one end the newer wins, and the older returns when it ends`() {
        var table = PeerTable<Item>()
        let (old, new) = (Item(), Item())
        table.add(old, to: large, dialedBy: large, at: Timestamp(nanoseconds: 0))
        table.add(new, to: large, dialedBy: large, at: Timestamp(nanoseconds: 1))
        #expect(table.current(large) === new)
        table.remove(new, to: large)
        #expect(table.current(large) === old)
        table.remove(new, to: large)
        table.remove(old, to: large)
        #expect(table.current(large) == nil && table.count == 0)
    }

    @Test func `a dial long after the first means the other end has lost it`() {
        var table = PeerTable<Item>()
        let (bySmall, byLarge) = (Item(), Item())
        table.add(bySmall, to: large, dialedBy: small, at: Timestamp(nanoseconds: 0))
        table.add(byLarge, to: large, dialedBy: large, at: Timestamp(nanoseconds: 6_000_000_000))
        #expect(table.current(large) === byLarge)
    }
}

@Suite struct AcceptLimiterTests {
    private let host: [UInt8] = [192, 0, 2, 1]

    @Test func `handshakes under way are bounded`() {
        var limiter = AcceptLimiter(maxHalfOpen: 2, perSecond: 1000, at: Timestamp(nanoseconds: 0))
        let now = Timestamp(nanoseconds: 1)
        let verdicts = (0..<3).map { _ in limiter.begin(with: host, isProven: false, at: now) }
        #expect(verdicts == [.accept, .accept, .drop])
        limiter.end(AcceptLimiter.slot(of: host, isProven: false))
        let fourth = limiter.begin(with: host, isProven: false, at: now)
        #expect(fourth == .accept)
    }

    @Test func `handshakes per second are bounded and refill evenly`() {
        var limiter = AcceptLimiter(maxHalfOpen: 1000, perSecond: 10, at: Timestamp(nanoseconds: 0))
        func begin(at time: Int64) -> Bool {
            limiter.begin(with: host, isProven: true, at: Timestamp(nanoseconds: time)) == .accept
        }
        #expect(accepted(20) { begin(at: 0) } == 10)
        #expect(accepted(20) { begin(at: 300_000_000) } == 3)
        #expect(accepted(50) { begin(at: 100_000_000_000) } == 10)
    }

    @Test func `clients prove their address once there are many of them, or they come fast`() {
        let now = Timestamp(nanoseconds: 1)
        var limiter = AcceptLimiter(maxHalfOpen: 4, retryAbove: 2, perSecond: 1000, at: now)
        let verdicts = (0..<4).map { _ in limiter.begin(with: host, isProven: false, at: now) }
        #expect(verdicts == [.accept, .accept, .retry, .retry])
        let proven = (0..<3).map { _ in limiter.begin(with: host, isProven: true, at: now) }
        #expect(proven == [.accept, .accept, .drop])
        #expect(limiter.halfOpen == 4)

        var fast = AcceptLimiter(maxHalfOpen: 1000, retryAbove: 1000, perSecond: 10, at: now)
        let burst = (0..<8).map { _ in fast.begin(with: host, isProven: false, at: now) }
        #expect(burst == Array(repeating: .accept, count: 6) + [.retry, .retry])
    }

    @Test func `one host has so many places and no more`() {
        let now = Timestamp(nanoseconds: 1)
        let other: [UInt8] = [192, 0, 2, 2]
        var limiter = AcceptLimiter(maxHalfOpen: 100, retryAbove: 0, maxPerHost: 2, perSecond: 1000, at: now)
        let own = (0..<3).map { _ in limiter.begin(with: host, isProven: true, at: now) }
        #expect(own == [.accept, .accept, .drop])
        let others = limiter.begin(with: other, isProven: true, at: now)
        #expect(others == .accept)
        limiter.end(AcceptLimiter.slot(of: host, isProven: true))
        let again = (0..<2).map { _ in limiter.begin(with: host, isProven: true, at: now) }
        #expect(again == [.accept, .drop])
        for _ in 0..<2 { limiter.end(AcceptLimiter.slot(of: host, isProven: true)) }
        limiter.end(AcceptLimiter.slot(of: other, isProven: true))
        // Not even a hash table entry stays.
        #expect(limiter.halfOpen == 0 && limiter.hostCount == 0)
    }

    @Test func `answers to strays are bounded per second`() {
        var limiter = AnswerLimiter(perSecond: 3, at: Timestamp(nanoseconds: 0))
        #expect(accepted(10) { limiter.allows(at: Timestamp(nanoseconds: 5)) } == 3)
        #expect(accepted(10) { limiter.allows(at: Timestamp(nanoseconds: 1_000_000_000)) } == 3)
    }
}

/// How many of `tries` succeed.
private func accepted(_ tries: Int, _ body: () -> Bool) -> Int {
    (0..<tries).count { _ in body() }
}

@Suite struct SleepWatchTests {
    private let start = Timestamp(nanoseconds: 1_000_000_000_000)

    /// The answers of a watch to the time asleep, by the time it is asked.
    private func answers(_ questions: [(suspended: Int64, at: Int64)]) -> [Bool] {
        var watch = SleepWatch(7, at: start)
        return questions.map { watch.hasSlept($0.suspended, at: start.advanced(nanoseconds: .seconds($0.at))) }
    }

    @Test func `a machine that was suspended has slept, once`() {
        #expect(answers([(400_000_007, 1), (1_000_000_007, 2), (1_000_000_007, 3)]) == [false, true, false])
    }

    @Test func `a process that stood still has slept, and one that waited for a processor has not`() {
        #expect(answers([(7, 1), (7, 6), (7, 606), (7, 607)]) == [false, false, true, false])
    }
}
