import KithWire
import Testing

@Suite struct TokenBucketTests {
    @Test func `no more passes than the rate says, and what was taken ahead is waited for`() {
        let start = ContinuousClock.now
        var bucket = TokenBucket(rate: 1_000, at: start)
        #expect(bucket.take(100, at: start) == .zero)
        #expect(bucket.take(500, at: start) == .milliseconds(500))
        #expect(bucket.take(100, at: start + .milliseconds(500)) == .milliseconds(100))
        // Idling saves up a tenth of a second, no more.
        #expect(bucket.take(100, at: start + .seconds(60)) == .zero)
        #expect(bucket.take(1_000, at: start + .seconds(60)) == .seconds(1))
    }

    @Test func `what is refused costs nothing, and time that goes back gives nothing`() {
        let start = ContinuousClock.now
        var bucket = TokenBucket(perSecond: 2, burst: 3, at: start)
        func take(_ count: Int, at now: ContinuousClock.Instant) -> Bool { bucket.takeIfThere(count, at: now) }
        #expect(!take(4, at: start))
        #expect(take(3, at: start) && !take(1, at: start))
        #expect(!take(1, at: start + .milliseconds(400)) && !take(1, at: start))
        #expect(take(1, at: start + .milliseconds(600)))
        #expect(!bucket.isFull(at: start + .seconds(1)) && bucket.isFull(at: start + .seconds(2)))
    }
}
