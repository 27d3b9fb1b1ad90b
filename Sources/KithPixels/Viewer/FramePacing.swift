/// Decides which frame a display shows at each of its refreshes.
///
/// A frame is shown at the first refresh after it came. When two came between two refreshes, the later one waits for the
/// next: a source as fast as the display is then shown evenly although its frames come unevenly. Of more than two, the
/// oldest is dropped, so that no frame waits for more than one refresh beyond its own.
package struct FramePacing {
    /// A frame that waits.
    private struct Waiting {
        var frame: UInt64
        var at: ContinuousClock.Instant
    }

    /// The numbers of a session so far.
    package struct Statistics: Hashable, Sendable {
        /// Frames shown.
        package var shown = 0
        /// Frames that a newer one replaced.
        package var dropped = 0
        /// Refreshes without a new frame.
        package var repeated = 0
        /// The longest time from a frame's coming to the refresh that showed it.
        package var longestWait = Duration.zero
    }

    /// What was counted.
    package private(set) var statistics = Statistics()
    private let rates: ClosedRange<Int>
    private var waiting: [Waiting] = []
    private var lastArrival: ContinuousClock.Instant?
    /// Seconds between frames, smoothed.
    private var interval: Double?

    /// For a display that refreshes so many times a second: 60…60, or 10…120 (ProMotion).
    package init(rates: ClosedRange<Int> = 60...60) {
        self.rates = max(1, rates.lowerBound)...max(1, rates.upperBound)
    }

    /// Takes in a decoded frame; returns one that will not be shown.
    package mutating func arrived(frame: UInt64, at now: ContinuousClock.Instant) -> UInt64? {
        if let lastArrival {
            let seconds = min(max(0, (now - lastArrival) / .seconds(1)), 1)
            interval = interval.map { $0 * 0.9 + seconds * 0.1 } ?? seconds
        }
        lastArrival = now
        waiting.append(Waiting(frame: frame, at: now))
        guard waiting.count > 2 else { return nil }
        statistics.dropped += 1
        return waiting.removeFirst().frame
    }

    /// The frame to show at a refresh; `nil` to leave the picture as it is.
    package mutating func refresh(at now: ContinuousClock.Instant) -> UInt64? {
        guard let next = waiting.first else {
            statistics.repeated += 1
            return nil
        }
        waiting.removeFirst()
        statistics.shown += 1
        statistics.longestWait = max(statistics.longestWait, now - next.at)
        return next.frame
    }

    /// The refresh rate to ask the display for: enough for what comes, the lowest when nothing does.
    ///
    /// It is the display's highest divided by a whole number, so that frames are shown for equal times.
    package func preferredRate(at now: ContinuousClock.Instant) -> Int {
        guard let interval, let lastArrival, now - lastArrival < .milliseconds(500), interval > 0 else {
            return rates.lowerBound
        }
        // Frames come unevenly: what is nearly a rate is that rate.
        let wanted = 1 / interval * 0.95
        var rate = rates.upperBound
        var divisor = 2
        while rates.upperBound / divisor >= rates.lowerBound, Double(rates.upperBound / divisor) >= wanted {
            rate = rates.upperBound / divisor
            divisor += 1
        }
        return rate
    }
}
