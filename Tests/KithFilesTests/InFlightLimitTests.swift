import KithWire
import Testing

@testable import KithFiles

@Suite struct InFlightLimitTests {
    /// Sends for some seconds over a path; returns the most that was on its way in the second half, the least that a full
    /// window held, and the rate.
    ///
    /// `rate` in bytes a second and `delay` in seconds, there and back, by the time.
    private func run(
        seconds: Double, isAnswered: Bool = false, rate: (Double) -> Double, delay: (Double) -> Double
    ) throws -> (most: UInt64, least: UInt64, rate: Double) {
        var window = InFlightLimit()
        let begin = ContinuousClock.now
        if isAnswered { window.answered(after: .seconds(delay(0)), at: begin) }
        let block = 256 << 10
        /// When the path is free again, and what the receiver will have said by when.
        var (now, free) = (0.0, 0.0)
        var words: [(time: Double, total: UInt64)] = []
        var (most, total, before): (UInt64, UInt64, UInt64) = (0, 0, 0)
        var least = UInt64.max
        while now < seconds {
            while let word = words.first, word.time <= now {
                words.removeFirst()
                try window.acknowledged(word.total, at: begin + .seconds(word.time))
            }
            // How far it is filled after the first moments, when it is to be full.
            if !window.hasRoom, now > 0.5 { least = min(least, window.written - window.taken) }
            guard window.hasRoom else {
                now = try #require(words.first).time
                continue
            }
            window.sent(block, at: begin + .seconds(now))
            total += UInt64(block)
            free = max(free, now) + Double(block) / rate(now)
            words.append((free + delay(now), total))
            if now > seconds / 2 {
                most = max(most, window.written - window.taken)
                if before == 0 { before = window.taken }
            }
            // As fast as a disk gives it.
            now += Double(block) / 2e9
        }
        return (most, least, Double(window.taken - before) / (seconds / 2))
    }

    @Test(arguments: [(600e6, 0.0005), (100e6, 0.002), (12.5e6, 0.05), (125e6, 0.2), (1e6, 0.3), (0.2e6, 0.02)])
    func `a path is kept full with little on its way`(rate: Double, delay: Double) throws {
        let result = try run(seconds: 60, rate: { _ in rate }, delay: { _ in delay })
        // What is counted is counted by blocks, over half a minute.
        #expect(result.rate > rate * 0.97 - 262_144 / 30, "\(result)")
        // A block's own time on the path counts as delay; and one is written while there is room for a byte.
        let block = 262_144.0
        let full = rate * delay + 2 * block
        let most = max(Double(InFlightLimit.longMinimum), (delay < 0.02 ? 2 : 5) * full + 1_048_576) + 2 * block
        #expect(Double(result.most) <= most, "\(result) \(most)")
    }

    @Test func `with the answer to a hello nothing is held back to know the path`() throws {
        // Two seconds on a link of 100 Mbit/s: with no answer the first second's end is waited for.
        let (rate, delay) = (12.5e6, 0.05)
        let known = try run(seconds: 3, isAnswered: true, rate: { _ in rate }, delay: { _ in delay })
        let unknown = try run(seconds: 3, rate: { _ in rate }, delay: { _ in delay })
        #expect(known.least >= InFlightLimit.longMinimum - 524_288, "\(known)")
        #expect(unknown.least < 1 << 20, "\(unknown)")
    }

    @Test func `a path that becomes longer is full again when the old delay is forgotten`() throws {
        let result = try run(seconds: 120, rate: { _ in 50e6 }, delay: { $0 < 10 ? 0.005 : 0.3 })
        #expect(result.rate > 50e6 * 0.95, "\(result)")
    }

    @Test func `a path that becomes slower holds less`() throws {
        let result = try run(seconds: 60, rate: { $0 < 5 ? 100e6 : 2e6 }, delay: { _ in 0.1 })
        #expect(result.rate > 2e6 * 0.95 && result.most <= 5 << 20, "\(result)")
    }

    @Test func `a receiver that has more than was sent, or less than before, is refused`() throws {
        var window = InFlightLimit()
        let now = ContinuousClock.now
        window.sent(1_000, at: now)
        try window.acknowledged(600, at: now)
        #expect(throws: KithError(.invalid, "")) { try window.acknowledged(1_001, at: now) }
        #expect(throws: KithError(.invalid, "")) { try window.acknowledged(599, at: now) }
        try window.acknowledged(1_000, at: now)
    }

    @Test func `a writer goes on when there is room, when the receiver has ended, and when it is cancelled`()
        async throws
    {
        let gate = InFlightGate()
        gate.sent(64 << 20)
        // Nobody has said that anything will be confirmed.
        await gate.waitForRoom()
        gate.begin()
        let waiting = Task { await gate.waitForRoom() }
        try gate.acknowledged(64 << 20)
        await waiting.value
        gate.sent(64 << 20)
        let cancelled = Task { await gate.waitForRoom() }
        cancelled.cancel()
        await cancelled.value
        let left = Task { await gate.waitForRoom() }
        gate.end()
        await left.value
    }
}
