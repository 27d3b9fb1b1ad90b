/// The way in which a request finds its provider, and what is done when that fails.
///
/// A value, set for a pattern of paths (`Node.setPolicy`) or for one request (``CallOptions/policy``).
public struct RequestPolicy: Hashable, Sendable, Codable {
    /// The choice among several providers.
    @nonexhaustive
    public enum Strategy: Hashable, Sendable, Codable {
        /// One after the other.
        case roundRobin
        /// Of two that are drawn, the one that is expected to answer sooner.
        case leastLatency
        /// Always the same for the same key, as long as it is there.
        case sticky(String)
    }

    /// The choice among several providers.
    public var strategy = Strategy.leastLatency
    /// True when this device answers itself what it can.
    public var prefersThisDevice = true
    /// True when a request that may be repeated goes to another provider if the first one fails.
    public var failsOver = true
    /// How often a request that may be repeated is tried again when all providers have failed.
    public var retries: UInt32 = 2
    /// The longest wait before the first of these tries, in milliseconds; it doubles, and a random part of it is waited.
    public var retryDelay: UInt32 = 50
    /// The longest wait before any try, in milliseconds.
    public var longestRetryDelay: UInt32 = 2_000
    /// The time for the whole request, in milliseconds; `nil`: what its options say.
    public var timeout: UInt32?
    /// The time for one try of a request that may be repeated, in milliseconds; `nil`: the time for the whole.
    public var tryTimeout: UInt32?
    /// The failures in a row after which a provider gets no more requests for a while; 0: never.
    public var breakerFailures: UInt32 = 5
    /// That while, in milliseconds; then one request tries again.
    public var breakerPause: UInt32 = 5_000
    /// The share of failures, in percent, with which a provider gets none for that while if others do better; 0: never.
    public var outlierShare: UInt32 = 50
    /// The most requests that one provider is doing at once; `nil`: as many as there are.
    public var concurrency: UInt32?

    /// The defaults.
    public init() {}
}
