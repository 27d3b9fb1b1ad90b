import KithTesting
import Testing

@testable import KithIO

/// Real time is the subject: nothing else moves the queue.
@Suite(.timeLimit(.minutes(4))) struct TimerQueueTests {
    @Test func `call-backs come in the order of their times, and not before them`() async throws {
        let timers = TimerQueue()
        let start = ContinuousClock.now
        let (arrivals, continuation) = AsyncStream.makeStream(of: (Int, Duration).self)
        for number in [3, 1, 2] {
            _ = timers.schedule(at: start + .milliseconds(20 * number)) {
                continuation.yield((number, ContinuousClock.now - start))
            }
        }
        var iterator = arrivals.makeAsyncIterator()
        for expected in 1...3 {
            let (number, time) = try #require(await iterator.next())
            #expect(number == expected)
            #expect(time >= .milliseconds(20 * number))
        }
        #expect(timers.count == 0)
    }

    @Test func `a time that has passed is now`() async {
        let timers = TimerQueue()
        let event = AsyncEvent()
        _ = timers.schedule(at: .now - .seconds(1)) { event.happen() }
        #expect(await event.wait())
    }

    @Test func `what was cancelled is not called, and what comes later is`() async {
        let timers = TimerQueue()
        let start = ContinuousClock.now
        let (cancelled, last) = (AsyncEvent(), AsyncEvent())
        let ticket = timers.schedule(at: start + .milliseconds(10)) { cancelled.happen() }
        _ = timers.schedule(at: start + .milliseconds(30)) { last.happen() }
        timers.cancel(ticket)
        timers.cancel(ticket)
        #expect(await last.wait())
        #expect(!cancelled.hasHappened)
    }

    @Test func `a hundred thousand deadlines that are called off leave nothing`() async {
        let timers = TimerQueue()
        weak var last: Holder?
        for number in 0..<100_000 {
            let kept = Holder()
            last = kept
            let ticket = timers.schedule(at: .now + .seconds(60 + number % 7)) { withExtendedLifetime(kept) {} }
            timers.cancel(ticket)
        }
        #expect(timers.count == 0)
        #expect(timers.heapCount <= 64)
        #expect(last == nil)
    }

    @Test func `deadlines from many tasks all come, or are called off`() async {
        let timers = TimerQueue()
        let counts = await withTaskGroup(of: (called: Int, cancelled: Int).self) { group in
            for seed in 0..<8 {
                group.addTask {
                    var random = SeededRandom(seed: UInt64(seed))
                    var (called, cancelled) = (0, 0)
                    for _ in 0..<200 {
                        let event = AsyncEvent()
                        let ticket = timers.schedule(at: .now + .microseconds(.random(in: 0..<500, using: &random))) {
                            event.happen()
                        }
                        if Bool.random(using: &random) {
                            timers.cancel(ticket)
                            cancelled += 1
                        } else if await event.wait() {
                            called += 1
                        }
                    }
                    return (called, cancelled)
                }
            }
            return await group.reduce(into: (called: 0, cancelled: 0)) {
                $0.called += $1.called
                $0.cancelled += $1.cancelled
            }
        }
        #expect(counts.called + counts.cancelled == 1600)
        #expect(timers.count == 0)
    }

    private final class Holder: Sendable {}
}
