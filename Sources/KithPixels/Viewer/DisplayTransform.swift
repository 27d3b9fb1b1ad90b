/// A place in a window, in points from its upper left corner.
package struct ViewPoint: Hashable, Sendable {
    package var x: Double
    package var y: Double

    /// A place; y grows downwards.
    package init(x: Double, y: Double) {
        self.x = x
        self.y = y
    }

    /// The distance to another place, in points.
    package func distance(to other: ViewPoint) -> Double {
        ((x - other.x) * (x - other.x) + (y - other.y) * (y - other.y)).squareRoot()
    }
}

/// The part of a window that shows the picture, and what covers it.
package struct ViewLayout: Hashable, Sendable {
    /// The upper left corner of the view in its window, in points.
    package var origin: ViewPoint
    /// Width and height in points; zero before the first layout.
    package var width: Double
    package var height: Double
    /// The points at each edge that something else covers: a notch, a toolbar, a keyboard.
    package var insets: (top: Double, left: Double, bottom: Double, right: Double)
    /// The pixels of the display in a point: 1, 2 or 3.
    package var displayScale: Double

    /// A layout; what makes no sense counts as zero, and a scale as 1.
    package init(
        origin: ViewPoint = ViewPoint(x: 0, y: 0), width: Double, height: Double,
        insets: (top: Double, left: Double, bottom: Double, right: Double) = (0, 0, 0, 0), displayScale: Double = 1
    ) {
        self.origin = origin
        self.width = width
        self.height = height
        self.insets = insets
        self.displayScale = displayScale.isFinite && displayScale > 0 ? displayScale : 1
    }

    /// The part that is not covered: its corner in the window and its size, in points.
    var safe: (x: Double, y: Double, width: Double, height: Double) {
        let width = max(0, width - insets.left - insets.right)
        let height = max(0, height - insets.top - insets.bottom)
        return (
            origin.x + insets.left, origin.y + insets.top, width.isFinite ? width : 0, height.isFinite ? height : 0
        )
    }

    package static func == (first: ViewLayout, second: ViewLayout) -> Bool {
        first.origin == second.origin && first.width == second.width && first.height == second.height
            && first.insets == second.insets && first.displayScale == second.displayScale
    }

    package func hash(into hasher: inout Hasher) {
        for value in [
            origin.x, origin.y, width, height, insets.top, insets.left, insets.bottom, insets.right, displayScale,
        ] {
            hasher.combine(value)
        }
    }
}

/// The way from a picture's pixels to points of a window and back, for drawing and for input alike.
///
/// The picture keeps its proportions. At zoom 1 all of it is in the part of the view that nothing covers, in the middle,
/// with empty bars beside it; a point of a bar is not a point of the picture. Zoomed in, the picture is moved so that no bar
/// appears where there are pixels to show. Its corner is drawn on a whole pixel of the display, and input starts from that
/// same corner. Pixels are half-open: the point between two belongs to the right or lower one.
package struct DisplayTransform: Hashable, Sendable {
    /// The size of the picture in its own pixels.
    package private(set) var picture: PixelSize
    /// The view it is shown in.
    package private(set) var layout: ViewLayout
    /// The size in relation to that at which all of the picture is seen, 1…``maximumZoom``.
    package private(set) var zoom = 1.0
    /// The place of the picture that is in the middle of the view, in the picture's pixels.
    private var centre: ViewPoint

    /// The largest zoom.
    package static let maximumZoom = 16.0

    /// Shows all of a picture.
    package init(picture: PixelSize, layout: ViewLayout) {
        self.picture = picture
        self.layout = layout
        centre = ViewPoint(x: Double(picture.width) / 2, y: Double(picture.height) / 2)
    }

    /// Points of the view for one pixel of the picture; zero while there is no layout or no picture.
    package var scale: Double { fit * zoom }

    private var fit: Double {
        let safe = layout.safe
        guard picture.area > 0 else { return 0 }
        return min(safe.width / Double(picture.width), safe.height / Double(picture.height))
    }

    /// The zoom at which a pixel of the picture is a pixel of the display; `nil` while there is no layout.
    package var actualSizeZoom: Double? {
        fit > 0 ? min(max(1, 1 / (fit * layout.displayScale)), Self.maximumZoom) : nil
    }

    /// The place of the picture's upper left corner in the window, on a whole pixel of the display.
    package var origin: ViewPoint {
        let (safe, scale) = (layout.safe, scale)
        func snapped(_ value: Double) -> Double { (value * layout.displayScale).rounded() / layout.displayScale }
        return ViewPoint(
            x: snapped(safe.x + safe.width / 2 - centre.x * scale),
            y: snapped(safe.y + safe.height / 2 - centre.y * scale))
    }

    /// The width and height of the drawn picture in points.
    package var drawnSize: (width: Double, height: Double) {
        (Double(picture.width) * scale, Double(picture.height) * scale)
    }

    /// True when parts of the picture lie outside the view, so that it can be moved.
    package var isZoomed: Bool { zoom > 1 }

    /// The pixel under a point of the window; `nil` beside the picture or before the first layout.
    package func pixel(at point: ViewPoint) -> (x: Int, y: Int)? {
        guard let place = place(of: point) else { return nil }
        let (width, height) = (Double(picture.width), Double(picture.height))
        guard place.x >= 0, place.y >= 0, place.x < width, place.y < height else { return nil }
        return (Int(place.x), Int(place.y))
    }

    /// The pixel nearest to a point, for a drag that leaves the picture; `nil` only before the first layout.
    package func nearestPixel(to point: ViewPoint) -> (x: Int, y: Int)? {
        guard let place = place(of: point) else { return nil }
        return (
            Int(min(max(place.x, 0), Double(picture.width - 1))), Int(min(max(place.y, 0), Double(picture.height - 1)))
        )
    }

    /// The place of a point in the picture, in fractions of its pixels.
    private func place(of point: ViewPoint) -> ViewPoint? {
        let (origin, scale) = (origin, scale)
        guard scale > 0, point.x.isFinite, point.y.isFinite else { return nil }
        return ViewPoint(x: (point.x - origin.x) / scale, y: (point.y - origin.y) / scale)
    }

    /// The point of the window where the middle of a pixel is drawn.
    package func point(ofX x: Int, y: Int) -> ViewPoint {
        let (origin, scale) = (origin, scale)
        return ViewPoint(x: origin.x + (Double(x) + 0.5) * scale, y: origin.y + (Double(y) + 0.5) * scale)
    }

    /// Takes a new layout: what was in the middle stays there.
    package mutating func setLayout(_ layout: ViewLayout) {
        self.layout = layout
        settle()
    }

    /// Takes a picture of another size, and shows all of it.
    package mutating func setPicture(_ picture: PixelSize) {
        guard picture != self.picture else { return }
        self = DisplayTransform(picture: picture, layout: layout)
    }

    /// Zooms by a factor; what is under `point` stays under it, as far as no bar appears.
    package mutating func zoom(by factor: Double, around point: ViewPoint) {
        guard factor.isFinite, factor > 0, let place = place(of: point) else { return }
        zoom = min(max(zoom * factor, 1), Self.maximumZoom)
        let safe = layout.safe
        centre.x = place.x + (safe.x + safe.width / 2 - point.x) / scale
        centre.y = place.y + (safe.y + safe.height / 2 - point.y) / scale
        settle()
    }

    /// Zooms to a value, around the middle.
    package mutating func setZoom(_ value: Double) {
        guard value.isFinite else { return }
        zoom = min(max(value, 1), Self.maximumZoom)
        settle()
    }

    /// Moves the picture by points of the view, as far as there are pixels to show.
    package mutating func pan(x: Double, y: Double) {
        guard scale > 0, x.isFinite, y.isFinite else { return }
        centre.x -= x / scale
        centre.y -= y / scale
        settle()
    }

    /// Moves the picture just so far that a pixel is `margin` points inside the view: it follows a pointer at the edge only.
    package mutating func reveal(x: Int, y: Int, margin: Double = 24) {
        guard scale > 0 else { return }
        let (safe, place) = (layout.safe, point(ofX: x, y: y))
        let inset = (x: min(margin, safe.width / 2), y: min(margin, safe.height / 2))
        func overshoot(_ value: Double, _ low: Double, _ high: Double) -> Double {
            value < low ? value - low : value > high ? value - high : 0
        }
        pan(
            x: -overshoot(place.x, safe.x + inset.x, safe.x + safe.width - inset.x),
            y: -overshoot(place.y, safe.y + inset.y, safe.y + safe.height - inset.y))
    }

    /// Moves the middle to where no bar is that need not be.
    private mutating func settle() {
        let (safe, scale) = (layout.safe, scale)
        guard scale > 0 else { return }
        func settled(_ value: Double, _ length: Int, _ extent: Double) -> Double {
            let (length, half) = (Double(length), extent / 2 / scale)
            return length <= 2 * half ? length / 2 : min(max(value, half), length - half)
        }
        centre.x = settled(centre.x, picture.width, safe.width)
        centre.y = settled(centre.y, picture.height, safe.height)
    }
}
