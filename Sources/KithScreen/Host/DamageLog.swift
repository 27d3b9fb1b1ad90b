import KithPixels

/// What has changed on a screen since it was captured last, and when.
///
/// On a slow way several changes become one frame; each of them counts for what is motion.
struct DamageLog {
    /// The most changes that are told apart.
    static let limit = 16

    /// All that has changed.
    private(set) var region = PixelRegion()
    /// The changes, the newest last.
    private(set) var changes: [(region: PixelRegion, at: ContinuousClock.Instant)] = []

    /// Notes a change.
    mutating func note(_ change: PixelRegion, at time: ContinuousClock.Instant) {
        region.formUnion(change)
        changes.append((change, time))
        if changes.count > Self.limit { changes.removeFirst() }
    }

    /// Adds what came later.
    mutating func append(_ other: DamageLog) {
        region.formUnion(other.region)
        changes = (changes + other.changes).suffix(Self.limit)
    }

    /// Takes out what is not on the screen.
    mutating func clip(to screen: PixelRectangle) { region.clip(to: screen) }
}
