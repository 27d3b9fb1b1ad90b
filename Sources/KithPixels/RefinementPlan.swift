/// Decides when tiles that a viewer has only as video are sent exactly.
///
/// A tile is left alone for 400 ms after its last change; from then on a share of those waiting is due at each call, so
/// that all were sent 700 ms after their last change, whatever their number. That leaves 300 ms to arrive: at rest, a
/// viewer's picture is the host's, bit for bit, no later than a second after the last change.
struct RefinementPlan {
    /// The quiet time before a tile is sent.
    static let quiet = Duration.milliseconds(400)
    /// The time after a tile's last change when it is sent at the latest.
    static let latest = Duration.milliseconds(700)
    /// The time between two calls while tiles wait.
    static let step = Duration.milliseconds(33)

    private var changedAt: [ContinuousClock.Instant?]
    private var waiting = 0
    private var lastStep: ContinuousClock.Instant?

    init(tiles: Int) { changedAt = Array(repeating: nil, count: tiles) }

    /// True when the viewer has all tiles exactly.
    var isEmpty: Bool { waiting == 0 }

    /// True when the viewer has a tile exactly.
    func isExact(_ tile: Int) -> Bool { changedAt[tile] == nil }

    /// Takes in that a tile changed and was sent as video.
    mutating func sentInexactly(_ tile: Int, at now: ContinuousClock.Instant) {
        if changedAt[tile] == nil { waiting += 1 }
        changedAt[tile] = now
    }

    /// Takes in that all of a tile was sent exactly.
    mutating func sentExactly(_ tile: Int) {
        if changedAt[tile] != nil { waiting -= 1 }
        changedAt[tile] = nil
    }

    /// The tiles to be sent exactly now, at most `limit` of those that are not `isSmall`; they no longer wait.
    ///
    /// On a link that is too slow for all of them in time they are late, the oldest first.
    mutating func due(
        at now: ContinuousClock.Instant, limit: Int = .max, isSmall: (Int) -> Bool = { _ in false }
    ) -> [Int] {
        guard waiting > 0 else { return [] }
        let ready = changedAt.indices.compactMap { tile in
            changedAt[tile].flatMap { now - $0 >= Self.quiet ? (tile: tile, at: $0) : nil }
        }.sorted { ($0.at, $0.tile) < ($1.at, $1.tile) }
        guard let oldest = ready.first else { return [] }
        // As many calls as are left until the oldest is late share the tiles, that one's own call included.
        let left = oldest.at + Self.latest - now - Self.step
        let calls = max(1, Int(left / Self.step))
        let count = (ready.count + calls - 1) / calls
        let late = ready.prefix { now - $0.at >= Self.latest - Self.step }.count
        let wanted = ready.prefix(max(count, late)).map(\.tile)
        var room = limit
        let due = wanted.filter { tile in
            if limit == .max || isSmall(tile) { return true }
            room -= 1
            return room >= 0
        }
        for tile in due { changedAt[tile] = nil }
        waiting -= due.count
        // What is late by the link's fault goes as soon as there is room again.
        lastStep = due.count < wanted.count ? nil : now
        return due
    }

    /// The time to ask again; `nil` when nothing waits.
    var nextDeadline: ContinuousClock.Instant? {
        guard waiting > 0, let oldest = changedAt.compactMap({ $0 }).min() else { return nil }
        let ready = oldest + Self.quiet
        return lastStep.map { max(ready, $0 + Self.step) } ?? ready
    }
}
