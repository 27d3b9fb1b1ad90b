/// A set of pixels, kept as rectangles that do not overlap.
///
/// It holds at most ``limit`` rectangles. One that would need more takes in pixels that were not asked for: what
/// is damaged may be said too large, never too small.
package struct PixelRegion: Hashable, Sendable {
    /// The most rectangles it holds.
    package static let limit = 64

    /// Its rectangles; no two have a pixel in common, none is empty.
    package private(set) var rectangles: [PixelRectangle] = []

    /// No pixel.
    package init() {}

    /// The pixels of one rectangle.
    package init(_ rectangle: PixelRectangle) { insert(rectangle) }

    /// True when it has no pixel.
    package var isEmpty: Bool { rectangles.isEmpty }
    /// The number of pixels.
    package var area: Int { rectangles.reduce(0) { $0 + $1.area } }
    /// The smallest rectangle around it.
    package var bounds: PixelRectangle { rectangles.reduce(.empty) { $0.union($1) } }

    /// True when the pixel is in it.
    package func contains(x: Int, y: Int) -> Bool { rectangles.contains { $0.contains(x: x, y: y) } }

    /// True when it has a pixel of `rectangle`.
    package func intersects(_ rectangle: PixelRectangle) -> Bool { rectangles.contains { $0.intersects(rectangle) } }

    /// Adds the pixels of a rectangle.
    package mutating func insert(_ rectangle: PixelRectangle) {
        guard !rectangle.isEmpty, !rectangles.contains(where: { $0.contains(rectangle) }) else { return }
        rectangles.removeAll { rectangle.contains($0) }
        var pieces = [rectangle]
        for known in rectangles where known.intersects(rectangle) {
            pieces = pieces.flatMap { $0.subtracting(known) }
        }
        if let neighbour = rectangles.firstIndex(where: { $0.isContinued(by: rectangle) }), pieces.count == 1,
            pieces[0] == rectangle
        {
            rectangles[neighbour] = rectangles[neighbour].union(rectangle)
        } else {
            rectangles += pieces
        }
        if rectangles.count > Self.limit { coarsen() }
    }

    /// Adds the pixels of another region.
    package mutating func formUnion(_ other: PixelRegion) {
        for rectangle in other.rectangles { insert(rectangle) }
    }

    /// Takes out the pixels of a rectangle; when that would make too many rectangles, some of them stay.
    package mutating func subtract(_ rectangle: PixelRectangle) {
        let rest = rectangles.flatMap { $0.subtracting(rectangle) }
        guard rest.count <= Self.limit else { return }
        rectangles = rest
    }

    /// Takes out everything that is not in `rectangle`.
    package mutating func clip(to rectangle: PixelRectangle) {
        rectangles = rectangles.map { $0.intersection(rectangle) }.filter { !$0.isEmpty }
    }

    /// Replaces neighbours by what is around them, down to half of the limit or fewer.
    private mutating func coarsen() {
        // In the order of reading, by bands: those beside each other in it are near each other on the screen.
        let sorted = rectangles.sorted { ($0.y / 64, $0.x, $0.y) < ($1.y / 64, $1.x, $1.y) }
        rectangles = []
        for pair in stride(from: 0, to: sorted.count, by: 2) {
            var around = sorted[pair].union(sorted[min(pair + 1, sorted.count - 1)])
            // What it now overlaps is taken in as well, until nothing is.
            while let overlapped = rectangles.firstIndex(where: { $0.intersects(around) }) {
                around = around.union(rectangles.remove(at: overlapped))
            }
            rectangles.append(around)
        }
    }
}

extension PixelRectangle {
    /// True when `other` touches one whole side of it, so that both together are a rectangle.
    fileprivate func isContinued(by other: PixelRectangle) -> Bool {
        x == other.x && width == other.width && (maxY == other.y || other.maxY == y)
            || y == other.y && height == other.height && (maxX == other.x || other.maxX == x)
    }
}
