/// A bucket that refills at a rate, and that each use takes something out of.
package struct TokenBucket: Hashable, Sendable {
    private let rate: Double
    /// What may pass at once.
    private let capacity: Double
    private var tokens: Double
    private var last: ContinuousClock.Instant

    /// Begins with a full bucket; `rate` is per second, `burst` what may pass at once.
    ///
    /// One that never refills is for ``takeIfThere(_:at:)`` alone.
    package init(perSecond rate: Double, burst: Double, at now: ContinuousClock.Instant) {
        self.rate = rate
        capacity = max(burst, 1)
        tokens = capacity
        last = now
    }

    /// Begins with a full bucket; `rate` is bytes per second, at least one, `burst` what may pass at once: a tenth of a
    /// second's worth when it is not said.
    package init(rate: UInt64, burst: UInt64? = nil, at now: ContinuousClock.Instant) {
        self.init(perSecond: Double(rate), burst: burst.map { Double($0) } ?? Double(rate) / 10, at: now)
    }

    /// True when nothing is owed, and as much may pass at once as ever.
    package func isFull(at now: ContinuousClock.Instant) -> Bool { level(at: now) >= capacity }

    /// Takes `count` out, and returns how long to wait before that may pass.
    ///
    /// What was taken beyond what was there is owed: whoever comes next waits until it is paid.
    package mutating func take(_ count: Int, at now: ContinuousClock.Instant) -> Duration {
        precondition(rate > 0, "nothing would ever pass")
        refill(at: now)
        tokens -= Double(count)
        return tokens >= 0 ? .zero : .seconds(-tokens / rate)
    }

    /// Takes `count` out if it is there; what is refused costs nothing.
    package mutating func takeIfThere(_ count: Int = 1, at now: ContinuousClock.Instant) -> Bool {
        refill(at: now)
        guard tokens >= Double(count) else { return false }
        tokens -= Double(count)
        return true
    }

    private mutating func refill(at now: ContinuousClock.Instant) {
        tokens = level(at: now)
        last = max(last, now)
    }

    private func level(at now: ContinuousClock.Instant) -> Double {
        min(capacity, tokens + max(0, (now - last) / .seconds(1)) * rate)
    }
}
