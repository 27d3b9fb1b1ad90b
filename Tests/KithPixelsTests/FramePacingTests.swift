import KithPixels
import KithTesting
import Testing

@Suite struct FramePacingTests {
    private let start = ContinuousClock.now

    /// Correctness property 1: 60 frames a second are shown for any sequence of frames that has them, on a display of 60
    /// as of 120 Hz.
    @Test(arguments: [60, 120])
    func `of any sixty frames a second that come unevenly, sixty are shown, none later than two refreshes`(
        refreshes: Int
    ) {
        var random = SeededRandom.fromEnvironment()
        for _ in 0..<40 {
            var pacing = FramePacing(rates: refreshes == 60 ? 60...60 : 10...120)
            let phase = Double.random(in: 0..<1, using: &random)
            let jitter = Double.random(in: 0...0.95, using: &random)
            var arrivals = (0..<600 as Range<Int>).map { frame in
                (Double(frame) + phase + jitter * Double.random(in: 0..<1, using: &random)) / 60
            }
            arrivals.sort()
            var (next, shown, order) = (0, 0, UInt64(0))
            var isOrdered = true
            for refresh in 0..<10 * refreshes {
                let time = Double(refresh) / Double(refreshes)
                while next < arrivals.count, arrivals[next] <= time {
                    next += 1
                    _ = pacing.arrived(frame: UInt64(next), at: start + .seconds(arrivals[next - 1]))
                }
                if let frame = pacing.refresh(at: start + .seconds(time)) {
                    isOrdered = isOrdered && frame > order
                    (shown, order) = (shown + 1, frame)
                }
            }
            #expect(shown >= 590, "\(random): 59 of 60 and better")
            #expect(isOrdered && pacing.statistics.shown == shown, "\(random)")
            #expect(pacing.statistics.longestWait <= .seconds(2.0 / Double(refreshes)) + .milliseconds(1), "\(random)")
        }
    }

    @Test func `of more frames than refreshes the newer are shown, and none waits for long`() {
        var random = SeededRandom.fromEnvironment()
        for _ in 0..<20 {
            var pacing = FramePacing()
            let perSecond = Int.random(in: 70...400, using: &random)
            var next = 0
            for refresh in 0..<300 {
                let time = Double(refresh) / 60
                while Double(next) / Double(perSecond) <= time {
                    _ = pacing.arrived(frame: UInt64(next), at: start + .seconds(Double(next) / Double(perSecond)))
                    next += 1
                }
                _ = pacing.refresh(at: start + .seconds(time))
            }
            #expect(pacing.statistics.shown == 300, "\(random)")
            #expect(pacing.statistics.longestWait <= .milliseconds(34), "\(random)")
        }
    }

    @Test(arguments: [(24, 24), (30, 30), (60, 60), (120, 120), (50, 60), (90, 120), (5, 10)])
    func `a display is asked for a rate that its frames fit into evenly`(perSecond: Int, expected: Int) {
        var pacing = FramePacing(rates: 10...120)
        var now = start
        for frame in 0..<200 as Range<UInt64> {
            now += .seconds(1) / perSecond
            _ = pacing.arrived(frame: frame, at: now)
            _ = pacing.refresh(at: now)
        }
        #expect(pacing.preferredRate(at: now) == expected)
        #expect(pacing.preferredRate(at: now + .seconds(2)) == 10)
    }
}
