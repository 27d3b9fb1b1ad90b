/// The time of a router, by which it shows that it was started anew and knows no mapping of before.
struct GatewayEpoch: Sendable {
    private var last: (seconds: Int64, at: ContinuousClock.Instant)?

    /// Takes an epoch in; returns false when it does not go on from the one before (RFC 6887 §8.5).
    mutating func goesOn(_ epoch: UInt32, at now: ContinuousClock.Instant) -> Bool {
        let seconds = Int64(epoch)
        defer { last = (seconds, now) }
        guard let last else { return true }
        // It may step back by a second, as answers overtake each other.
        guard seconds >= last.seconds - 1 else { return false }
        let here = (now - last.at).components.seconds
        let there = seconds - last.seconds
        return here + 2 >= there - there / 16 && there + 2 >= here - here / 16
    }
}
