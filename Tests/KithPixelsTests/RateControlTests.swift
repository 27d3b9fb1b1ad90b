import KithPixels
import KithTesting
import Testing

/// A link with a queue, on which frames go one behind the other.
private struct Link {
    var bytesPerSecond: Double
    let delay: Duration
    var freeAt: ContinuousClock.Instant

    /// The times a frame's first packet and its last arrive, and how long it waited behind others.
    mutating func send(
        _ bytes: Int, at now: ContinuousClock.Instant
    ) -> (first: ContinuousClock.Instant, last: ContinuousClock.Instant, wait: Duration) {
        let wait = max(.zero, freeAt - now)
        let first = max(now, freeAt) + .seconds(Double(min(bytes, 1200)) / bytesPerSecond)
        freeAt = max(now, freeAt) + .seconds(Double(bytes) / bytesPerSecond)
        return (first + delay, freeAt + delay, wait)
    }
}

@Suite struct RateControlTests {
    private let start = ContinuousClock.now

    private struct Outcome {
        var sent = 0
        var bytes = 0
        var longestWait = Duration.zero
        var decreasing = false
        var oldest = Duration.zero
    }

    /// Captures 60 frames a second of at least `least` bytes, as large as they may be up to `most`; what happens after
    /// two seconds counts.
    private func run(
        _ link: inout Link, seconds: Int, least: Int, most: Int, slowdown: Double? = nil,
        skew: Duration = .seconds(1234)
    ) -> Outcome {
        var control = RateControl(at: start)
        var outcome = Outcome()
        var acknowledgements: [(at: ContinuousClock.Instant, frame: UInt64, first: Duration, last: Duration)] = []
        var waiting: (frame: UInt64, at: ContinuousClock.Instant)?
        var last: UInt64 = 0
        for millisecond in 0..<seconds * 1000 {
            let now = start + .milliseconds(millisecond)
            if let slowdown, millisecond == seconds * 500 { link.bytesPerSecond *= slowdown }
            while let first = acknowledgements.first, first.at <= now {
                control.acknowledged(frame: first.frame, first: first.first, last: first.last, at: now)
                acknowledgements.removeFirst()
            }
            if millisecond % 16 == 0 { waiting = (UInt64(millisecond / 16 + 1), now) }
            guard let frame = waiting else { continue }
            switch control.offer(frame: frame.frame, capturedAt: frame.at, at: now) {
            case .send(let allowed):
                let bytes = min(max(allowed, least), most)
                control.sent(frame: frame.frame, bytes: bytes, at: now)
                let arrival = link.send(bytes, at: now)
                acknowledgements.append(
                    (arrival.last + link.delay, frame.frame, arrival.first - start + skew, arrival.last - start + skew))
                outcome.decreasing = outcome.decreasing || frame.frame <= last
                last = frame.frame
                waiting = nil
                let isSettled =
                    slowdown == nil ? millisecond > 2000 : !(seconds * 500..<seconds * 500 + 2000 ~= millisecond)
                if isSettled, millisecond > 2000 {
                    outcome.longestWait = max(outcome.longestWait, arrival.wait)
                    outcome.oldest = max(outcome.oldest, now - frame.at)
                    outcome.bytes += bytes
                    outcome.sent += 1
                }
            case .wait(let until): #expect(until > now)
            case .drop: waiting = nil
            }
        }
        return outcome
    }

    @Test(arguments: [1.0, 5, 20, 100], [5, 40, 100])
    func `the queue on a link stays below 150 ms, and the link is used`(megabits: Double, delay: Int) {
        var link = Link(bytesPerSecond: megabits * 125_000, delay: .milliseconds(delay), freeAt: start)
        let outcome = run(&link, seconds: 12, least: 500, most: 400_000)
        #expect(outcome.longestWait < .milliseconds(150))
        #expect(Double(outcome.bytes) > 10 * megabits * 125_000 * 0.6)
        #expect(!outcome.decreasing && outcome.oldest <= RateControl.lateAfter)
    }

    @Test func `a link that becomes ten times slower is followed within two seconds`() {
        var link = Link(bytesPerSecond: 1_250_000, delay: .milliseconds(20), freeAt: start)
        let outcome = run(&link, seconds: 16, least: 500, most: 100_000, slowdown: 0.1)
        #expect(outcome.longestWait < .milliseconds(150))
    }

    @Test func `frames that come at once, after a wait, do not make a slow link a fast one`() {
        var control = RateControl(at: start)
        var now = start
        // 125 kB a second.
        control.sent(frame: 1, bytes: 250_000, at: now)
        control.acknowledged(frame: 1, first: .zero, last: .seconds(2), at: now + .seconds(2))
        for frame in 2..<200 as Range<UInt64> {
            now = start + .milliseconds(1_900 + 100 * Int(frame))
            control.sent(frame: frame, bytes: 12_500, at: now)
            // Every fifth waits for what was lost, and so do those behind it.
            let arrival = Duration.milliseconds(2_000 + 500 * Int((frame + 4) / 5))
            control.acknowledged(frame: frame, first: arrival, last: arrival + .microseconds(50), at: start + arrival)
            #expect(control.rate < 250_000)
        }
    }

    @Test func `frames that are confirmed late tell how slow the link is`() {
        var control = RateControl(at: start)
        control.sent(frame: 1, bytes: 100_000, at: start)
        control.acknowledged(frame: 1, first: .zero, last: .milliseconds(10), at: start + .milliseconds(40))
        #expect(control.rate > 5_000_000)
        var (now, frame, arrival) = (start + .seconds(1), 2 as UInt64, Duration.seconds(1))
        var waiting: [(frame: UInt64, first: Duration, last: Duration)] = []
        // A hundredth of that now: all of a burst comes when it counts as on its way no more.
        while now < start + .seconds(20) {
            while let first = waiting.first, start + first.last <= now {
                control.acknowledged(frame: first.frame, first: first.first, last: first.last, at: now)
                waiting.removeFirst()
            }
            if case .send(let most) = control.offer(frame: frame, capturedAt: now, at: now) {
                let bytes = min(most, 20_000)
                control.sent(frame: frame, bytes: bytes, at: now)
                let first = max(arrival, now - start)
                arrival = first + .seconds(Double(bytes) / 100_000)
                waiting.append((frame, first, arrival))
            }
            frame += 1
            now += .milliseconds(16)
        }
        #expect(control.rate < 150_000 && control.rate > 25_000)
        #expect(waiting.reduce(.zero) { $0 + ($1.last - $1.first) } < .milliseconds(400))
    }

    @Test func `of frames that wait the newest counts, and one too old is dropped`() {
        var control = RateControl(at: start)
        #expect(control.offer(frame: 5, capturedAt: start, at: start) != .drop)
        #expect(control.offer(frame: 4, capturedAt: start, at: start) == .drop)
        let late = start + RateControl.lateAfter + .milliseconds(1)
        #expect(control.offer(frame: 6, capturedAt: start, at: late) == .drop)
        control.sent(frame: 7, bytes: 1_000_000, at: late)
        guard case .wait = control.offer(frame: 8, capturedAt: late, at: late) else {
            Issue.record("a frame waits while one is on the way")
            return
        }
        control.acknowledged(frame: 7, first: .seconds(3), last: .seconds(4), at: late + .milliseconds(50))
        guard case .send = control.offer(frame: 8, capturedAt: late, at: late + .milliseconds(50)) else {
            Issue.record("and goes when that has arrived")
            return
        }
    }

    @Test func `a viewer that confirms nothing, or nonsense, neither stops the picture for good nor costs memory`() {
        var random = SeededRandom.fromEnvironment()
        var control = RateControl(at: start)
        var (sent, now) = (0, start)
        for frame in 0..<3000 as Range<UInt64> {
            now += .milliseconds(16)
            if case .send = control.offer(frame: frame, capturedAt: now, at: now) {
                control.sent(frame: frame, bytes: 50_000, at: now)
                sent += 1
            }
            if random.chance(0.2) {
                let times = (0..<2).map { _ in Duration.seconds(Int.random(in: Int.min...Int.max, using: &random)) }
                let isNear = random.chance(0.5)
                control.acknowledged(
                    frame: frame &- random.next() % 40, first: isNear ? .seconds(5) : times[0],
                    last: isNear ? .seconds(5) : times[1], at: now)
            }
            #expect(control.rate >= 10_000 && control.rate <= 125_000_000 && control.bytesInFlight <= 256 * 50_000)
        }
        #expect(sent >= 10, "\(random)")
    }

    @Test func `what is exact does not wait for video, and video waits for all`() {
        func isSent(_ answer: RateControl.Answer) -> Bool {
            if case .send = answer { true } else { false }
        }
        var control = RateControl(at: start)
        #expect(isSent(control.offer(frame: 1, isVideo: true, capturedAt: start, at: start)))
        control.sent(frame: 1, isVideo: true, bytes: 100_000, at: start)
        let now = start + .milliseconds(10)
        #expect(!isSent(control.offer(frame: 2, isVideo: true, capturedAt: now, at: now)))
        #expect(isSent(control.offer(frame: 2, capturedAt: now, at: now)))
        control.sent(frame: 2, bytes: 50_000, at: now)
        #expect(!isSent(control.offer(frame: 3, capturedAt: now, at: now)))
        // It has overtaken the video, whose last part is still on its way.
        control.acknowledged(frame: 2, first: .zero, last: .milliseconds(1), at: now + .milliseconds(5))
        #expect(control.bytesInFlight == 100_000)
        control.acknowledged(frame: 1, first: .zero, last: .milliseconds(9), at: now + .milliseconds(9))
        #expect(control.bytesInFlight == 0)
    }
}
