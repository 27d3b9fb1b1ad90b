import KithPixels
import KithVideo

/// The coded picture of a session's video: the rectangle of tiles around what moves.
///
/// It grows as soon as more moves, and is cut down to what moves once it has been twice too large for two seconds: each
/// change of it costs a key frame.
struct VideoPicture {
    /// The time that it stays larger than it needs to be.
    static let patience = Duration.seconds(2)

    private var place = PixelRectangle.empty
    /// When it was last not twice too large.
    private var needed: ContinuousClock.Instant?

    /// The place of the picture that shows what moves, whole tiles around `regions`; `nil` when no codec takes one.
    mutating func place(around regions: [PixelRectangle], at now: ContinuousClock.Instant) -> PixelRectangle? {
        let around = Self.even(regions.reduce(.empty) { $0.union($1) })
        let isRecent = needed.map { now - $0 < Self.patience } ?? false
        if place.contains(around) {
            if around.area * 2 >= place.area { needed = now }
            if isRecent { return place }
            place = around
        } else {
            let joined = Self.even(place.union(around))
            place = isRecent && VideoCodec.isAllowed(joined.size) ? joined : around
        }
        needed = now
        guard VideoCodec.isAllowed(place.size) else {
            place = .empty
            return nil
        }
        return place
    }

    /// The rectangle with even sides of at least those that codecs take; it may reach beyond the screen.
    private static func even(_ rectangle: PixelRectangle) -> PixelRectangle {
        let least = VideoCodec.sides.lowerBound
        return PixelRectangle(
            x: rectangle.x, y: rectangle.y, width: max(least, (rectangle.width + 1) / 2 * 2),
            height: max(least, (rectangle.height + 1) / 2 * 2))
    }
}
