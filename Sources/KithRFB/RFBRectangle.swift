/// A rectangle of pixels; the origin is the picture's upper left corner.
package struct RFBRectangle: Hashable, Sendable, CustomStringConvertible {
    package var x: Int
    package var y: Int
    package var width: Int
    package var height: Int

    package init(x: Int, y: Int, width: Int, height: Int) {
        self.x = x
        self.y = y
        self.width = width
        self.height = height
    }

    /// The first column to its right.
    package var endX: Int { x + width }
    /// The first row below it.
    package var endY: Int { y + height }
    /// The number of its pixels.
    package var area: Int { isEmpty ? 0 : width * height }
    /// True when there is no pixel in it.
    package var isEmpty: Bool { width <= 0 || height <= 0 }
    package var description: String { "\(width)×\(height)+\(x)+\(y)" }

    /// The pixels that are in both.
    package func intersection(_ other: RFBRectangle) -> RFBRectangle {
        let (left, top) = (max(x, other.x), max(y, other.y))
        return RFBRectangle(
            x: left, y: top, width: max(0, min(endX, other.endX) - left), height: max(0, min(endY, other.endY) - top))
    }

    /// The smallest rectangle that has the pixels of both.
    package func union(_ other: RFBRectangle) -> RFBRectangle {
        if isEmpty { return other }
        if other.isEmpty { return self }
        let (left, top) = (min(x, other.x), min(y, other.y))
        return RFBRectangle(
            x: left, y: top, width: max(endX, other.endX) - left, height: max(endY, other.endY) - top)
    }

    /// True when no pixel of `other` is outside.
    package func contains(_ other: RFBRectangle) -> Bool {
        other.x >= x && other.y >= y && other.endX <= endX && other.endY <= endY
    }

    /// The same size elsewhere.
    package func offset(x dx: Int, y dy: Int) -> RFBRectangle {
        RFBRectangle(x: x + dx, y: y + dy, width: width, height: height)
    }

    /// The pixels that are not in `other`: at most four rectangles that do not overlap.
    package func subtracting(_ other: RFBRectangle) -> [RFBRectangle] {
        let common = intersection(other)
        if common.isEmpty { return isEmpty ? [] : [self] }
        return [
            RFBRectangle(x: x, y: y, width: width, height: common.y - y),
            RFBRectangle(x: x, y: common.endY, width: width, height: endY - common.endY),
            RFBRectangle(x: x, y: common.y, width: common.x - x, height: common.height),
            RFBRectangle(x: common.endX, y: common.y, width: endX - common.endX, height: common.height),
        ].filter { !$0.isEmpty }
    }
}

/// A set of pixels as rectangles that do not overlap; past the limit it becomes the rectangle around them all.
package struct RFBRegion: Hashable, Sendable {
    /// The most rectangles that are kept apart.
    package static let limit = 256
    package private(set) var rectangles: [RFBRectangle] = []

    package init() {}

    package init(_ rectangle: RFBRectangle) {
        if !rectangle.isEmpty { rectangles = [rectangle] }
    }

    /// True when there is no pixel in it.
    package var isEmpty: Bool { rectangles.isEmpty }
    /// The smallest rectangle around it.
    package var bounds: RFBRectangle {
        rectangles.reduce(RFBRectangle(x: 0, y: 0, width: 0, height: 0)) { $0.union($1) }
    }

    /// Adds the pixels of a rectangle.
    package mutating func insert(_ rectangle: RFBRectangle) {
        guard !rectangle.isEmpty else { return }
        rectangles.removeAll { rectangle.contains($0) }
        var pieces = [rectangle]
        for existing in rectangles {
            pieces = pieces.flatMap { $0.subtracting(existing) }
            if pieces.isEmpty { return }
        }
        rectangles += pieces
        if rectangles.count > Self.limit { rectangles = [bounds] }
    }

    /// Removes the pixels of a rectangle.
    package mutating func remove(_ rectangle: RFBRectangle) {
        rectangles = rectangles.flatMap { $0.subtracting(rectangle) }
        if rectangles.count > Self.limit { rectangles = [bounds] }
    }

    /// The pixels that are also in a rectangle.
    package func intersection(_ rectangle: RFBRectangle) -> RFBRegion {
        var result = RFBRegion()
        result.rectangles = rectangles.map { $0.intersection(rectangle) }.filter { !$0.isEmpty }
        return result
    }
}
