import KithWire

/// A bucket of tokens for each of many.
///
/// At most ``limit`` are remembered. When there are more, the full ones are forgotten, which changes nothing; were all in
/// use, all start anew.
struct TokenBuckets<Key: Hashable> {
    private let rate: DirectoryLimits.Rate
    private let limit: Int
    private var buckets: [Key: TokenBucket] = [:]

    /// The number remembered.
    var count: Int { buckets.count }

    init(_ rate: DirectoryLimits.Rate, limit: Int = 65_536) {
        self.rate = rate
        self.limit = limit
    }

    /// Takes a token; false when there is none.
    mutating func take(_ key: Key, at now: ContinuousClock.Instant) -> Bool {
        if buckets[key] == nil, buckets.count >= limit {
            buckets = buckets.filter { !$0.value.isFull(at: now) }
            if buckets.count >= limit { buckets = [:] }
        }
        let full = TokenBucket(perSecond: rate.perSecond, burst: rate.burst, at: now)
        return buckets[key, default: full].takeIfThere(at: now)
    }
}
