import KithWire
import Synchronization
import Testing

@testable import KithRelayServer

@Suite("The work that clients of a relay make") struct RelayWorkTests {
    @Test(arguments: [
        (1_200, nil, 0), (1_023, nil, 1), (1, nil, 1), (65_500, 1_200, 0), (2_000, 1_024, 0), (900, 1_200, 1),
        (3_000, 300, 10), (8, 1, 8), (2_040, 255, 8),
    ])
    func `a small datagram counts, also one of many in a frame`(length: Int, segmentSize: Int?, cost: Int) {
        #expect(RelayWork.cost(of: length, segmentSize: segmentSize) == cost)
    }

    @Test(arguments: [(9, 1), (65_500, 1), (2_041, 255)])
    func `many short datagrams do not travel in one frame`(length: Int, segmentSize: Int) {
        #expect(RelayWork.cost(of: length, segmentSize: segmentSize) == nil)
    }

    @Test func `the datagrams in a frame are counted up to the last`() {
        for (length, size, count) in [(1, nil, 1), (10, 10, 1), (11, 10, 2), (20, 10, 2), (21, 10, 3), (5, 10, 1)] {
            #expect(RelayWork.datagrams(in: length, segmentSize: size) == count)
        }
    }

    @Test func `who is over its rate waits, and who is far over it is closed`() {
        let start = ContinuousClock.now
        var work = RelayWork(rate: 100, at: start)
        func take(_ cost: Int, at now: ContinuousClock.Instant) -> RelayWork.Verdict { work.take(cost, at: now) }
        #expect(take(200, at: start) == .goesOn)
        #expect(take(0, at: start) == .goesOn)
        #expect(take(50, at: start) == .waits(.milliseconds(500)))
        #expect(take(50, at: start + .seconds(1)) == .goesOn)
        #expect(take(1_000, at: start + .seconds(1)) == .waits(.seconds(10)))
        #expect(take(1, at: start + .seconds(1)) == .ends)
    }

    @Test func `where nobody can wait what is too much is refused, and who goes on is closed`() {
        let start = ContinuousClock.now
        var work = RelayWork(rate: 100, at: start)
        func take(_ cost: Int, at now: ContinuousClock.Instant) -> RelayWork.Verdict { work.takeIfThere(cost, at: now) }
        #expect(take(200, at: start) == .goesOn)
        for _ in 0..<1_000 { #expect(take(1, at: start) == .waits(.zero)) }
        #expect(take(1, at: start) == .ends)
        // What was refused is not owed.
        #expect(take(1, at: start + .milliseconds(20)) == .goesOn)
    }

    @Test func `no more is held than may be, and what began first goes first`() {
        let closed = Mutex<[Int]>([])
        let messages = UnfinishedMessages(limit: 100)
        func begin(_ bytes: Int, _ name: Int) -> UInt64 {
            messages.begin(bytes) { closed.withLock { $0.append(name) } }
        }
        let first = begin(40, 1)
        let second = begin(40, 2)
        messages.update(first, 60)
        #expect(closed.withLock { $0 } == [] && messages.bytes == 100)
        messages.end(second)
        #expect(messages.bytes == 60)
        let third = begin(41, 3)
        #expect(closed.withLock { $0 } == [1] && messages.bytes == 41)
        // It is gone already.
        messages.update(first, 99)
        messages.end(first)
        #expect(messages.bytes == 41)
        messages.update(third, 101)
        #expect(closed.withLock { $0 } == [1, 3] && messages.bytes == 0)
    }
}
