/// A width and a height in pixels.
package struct PixelSize: Hashable, Sendable {
    /// Pixels in a row.
    package var width: Int
    /// Rows.
    package var height: Int

    /// A size; neither side is negative.
    package init(width: Int, height: Int) {
        precondition(width >= 0 && height >= 0, "a size is not negative")
        self.width = width
        self.height = height
    }

    /// The number of pixels.
    package var area: Int { width * height }
    /// The rectangle of this size at the origin.
    package var bounds: PixelRectangle { PixelRectangle(x: 0, y: 0, width: width, height: height) }
}

/// A rectangle of whole pixels, half-open: it has the columns x ..< x + width and the rows y ..< y + height.
package struct PixelRectangle: Hashable, Sendable {
    /// The first column.
    package var x: Int
    /// The first row.
    package var y: Int
    /// The number of columns, 0 or more.
    package var width: Int
    /// The number of rows, 0 or more.
    package var height: Int

    /// A rectangle with nothing in it.
    package static let empty = PixelRectangle(x: 0, y: 0, width: 0, height: 0)

    /// A rectangle at a place; a negative extent counts as none.
    package init(x: Int, y: Int, width: Int, height: Int) {
        self.x = x
        self.y = y
        self.width = max(0, width)
        self.height = max(0, height)
    }

    /// The columns and rows of two ranges.
    package init(columns: Range<Int>, rows: Range<Int>) {
        self.init(x: columns.lowerBound, y: rows.lowerBound, width: columns.count, height: rows.count)
    }

    /// The first column behind it.
    package var maxX: Int { x + width }
    /// The first row below it.
    package var maxY: Int { y + height }
    /// Its width and height.
    package var size: PixelSize { PixelSize(width: width, height: height) }
    /// The number of pixels.
    package var area: Int { width * height }
    /// True when it has no pixel.
    package var isEmpty: Bool { width == 0 || height == 0 }
    /// Its columns.
    package var columns: Range<Int> { x..<maxX }
    /// Its rows.
    package var rows: Range<Int> { y..<maxY }

    /// True when the pixel is one of its own.
    package func contains(x: Int, y: Int) -> Bool { columns.contains(x) && rows.contains(y) }

    /// True when every pixel of `other` is one of its own.
    package func contains(_ other: PixelRectangle) -> Bool {
        other.isEmpty || other.x >= x && other.maxX <= maxX && other.y >= y && other.maxY <= maxY
    }

    /// True when they have a pixel in common.
    package func intersects(_ other: PixelRectangle) -> Bool { !intersection(other).isEmpty }

    /// The pixels both have; ``empty`` when there are none.
    package func intersection(_ other: PixelRectangle) -> PixelRectangle {
        let left = max(x, other.x)
        let top = max(y, other.y)
        let result = PixelRectangle(
            x: left, y: top, width: min(maxX, other.maxX) - left, height: min(maxY, other.maxY) - top)
        return result.isEmpty ? .empty : result
    }

    /// The smallest rectangle around both.
    package func union(_ other: PixelRectangle) -> PixelRectangle {
        if isEmpty { return other }
        if other.isEmpty { return self }
        let left = min(x, other.x)
        let top = min(y, other.y)
        return PixelRectangle(x: left, y: top, width: max(maxX, other.maxX) - left, height: max(maxY, other.maxY) - top)
    }

    /// The same rectangle elsewhere.
    package func moved(x dx: Int, y dy: Int) -> PixelRectangle {
        PixelRectangle(x: x + dx, y: y + dy, width: width, height: height)
    }

    /// Its pixels that `other` does not have, as at most four rectangles.
    package func subtracting(_ other: PixelRectangle) -> [PixelRectangle] {
        let hole = intersection(other)
        guard !hole.isEmpty else { return isEmpty ? [] : [self] }
        return [
            PixelRectangle(columns: columns, rows: y..<hole.y),
            PixelRectangle(columns: x..<hole.x, rows: hole.rows),
            PixelRectangle(columns: hole.maxX..<maxX, rows: hole.rows),
            PixelRectangle(columns: columns, rows: hole.maxY..<maxY),
        ].filter { !$0.isEmpty }
    }
}
