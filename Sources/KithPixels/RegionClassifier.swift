/// Tells text, still pictures and motion apart, tile by tile.
///
///     text ──many colours──▶ still ──8 changes within 500 ms──▶ motion
///       ▲                      ▲                                  │ 400 ms without a change
///       └────few colours───────┴──────────────────────────────────┘
///
/// What scrolls or is typed has few colours and never becomes motion, however often it changes. It takes eight changes to
/// begin and a pause to end, so that a video that stutters does not go to and fro.
struct RegionClassifier {
    /// What a tile shows.
    enum Kind: UInt8, Hashable { case text, still, motion }

    /// The changes that make motion, and the time they may take.
    static let changesToMotion = 8
    static let changesWithin = Duration.milliseconds(500)
    /// The pause that ends motion.
    static let pause = Duration.milliseconds(400)

    private struct Tile {
        var kind = Kind.text
        var changes = 0
        var first: ContinuousClock.Instant?
        var last: ContinuousClock.Instant?
    }
    private var tiles: [Tile]

    init(tiles: Int) { self.tiles = Array(repeating: Tile(), count: tiles) }

    /// The kind a tile has.
    func kind(_ tile: Int) -> Kind { tiles[tile].kind }

    /// Notes how many colours a tile had when it was last sent exactly.
    mutating func note(_ tile: Int, isComplex: Bool) {
        if tiles[tile].kind != .motion || !isComplex { tiles[tile].kind = isComplex ? .still : .text }
    }

    /// Takes in that a tile changed, and answers what it is now.
    mutating func changed(_ tile: Int, at now: ContinuousClock.Instant) -> Kind {
        if let last = tiles[tile].last, now - last >= Self.pause { rested(tile, at: now) }
        tiles[tile].last = now
        if let first = tiles[tile].first, now - first <= Self.changesWithin {
            tiles[tile].changes += 1
        } else if tiles[tile].kind != .motion {
            tiles[tile].first = now
            tiles[tile].changes = 1
        }
        if tiles[tile].kind == .still, tiles[tile].changes >= Self.changesToMotion { tiles[tile].kind = .motion }
        return tiles[tile].kind
    }

    /// Takes in that a tile has been at rest.
    mutating func rested(_ tile: Int, at now: ContinuousClock.Instant) {
        guard tiles[tile].last.map({ now - $0 >= Self.pause }) ?? true else { return }
        if tiles[tile].kind == .motion { tiles[tile].kind = .still }
        tiles[tile].changes = 0
        tiles[tile].first = nil
    }
}
