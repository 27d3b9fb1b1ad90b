/// Makes a finger's movement a pointer's: slow ones exact, fast ones long.
///
/// The gain grows from 0.6 at rest to 3.5 at 1500 points a second, evenly between; it follows the speed over some 50 ms, so
/// that one late touch does not throw the pointer.
package struct PointerAcceleration: Sendable {
    private var speed = 0.0
    private var last: ContinuousClock.Instant?

    /// Begins at rest.
    package init() {}

    /// The pointer's movement for a finger's, in points; `speed` is the person's choice, kept within 0.25…4.
    package mutating func moved(
        x: Double, y: Double, speed choice: Double, at now: ContinuousClock.Instant
    ) -> (x: Double, y: Double) {
        let length = (x * x + y * y).squareRoot()
        guard length.isFinite else { return (0, 0) }
        let seconds = last.map { min(max((now - $0) / .seconds(1), 0.001), 0.1) } ?? 0.016
        last = now
        let weight = min(1, seconds / 0.05)
        speed += (length / seconds - speed) * weight
        let gain = (0.6 + 2.9 * min(1, speed / 1500)) * min(max(choice.isFinite ? choice : 1, 0.25), 4)
        return (x * gain, y * gain)
    }
}

/// The pointer of a trackpad: a place in the picture that movements add up to, fractions included.
package struct TrackpadPointer: Hashable, Sendable {
    private var place: ViewPoint
    private let picture: PixelSize

    /// Begins in the middle of a picture that has pixels.
    package init(picture: PixelSize) {
        precondition(picture.area > 0, "a pointer needs a picture")
        self.picture = picture
        place = ViewPoint(x: Double(picture.width) / 2, y: Double(picture.height) / 2)
    }

    /// The pixel it points at.
    package var pixel: (x: Int, y: Int) { (Int(place.x), Int(place.y)) }

    /// Moves by points of a window in which one pixel of the picture is `scale` points; stays in the picture.
    package mutating func move(x: Double, y: Double, scale: Double) {
        guard scale > 0, x.isFinite, y.isFinite else { return }
        place.x = min(max(place.x + x / scale, 0), Double(picture.width).nextDown)
        place.y = min(max(place.y + y / scale, 0), Double(picture.height).nextDown)
    }

    /// Goes to a pixel, or to the nearest there is.
    package mutating func jump(x: Int, y: Int) {
        place = ViewPoint(
            x: Double(min(max(x, 0), picture.width - 1)) + 0.5, y: Double(min(max(y, 0), picture.height - 1)) + 0.5)
    }
}
