package import KithPixels

/// The size of text and buttons on a display, in relation to a plain one: 1…4.
package enum DisplayScale {
    /// The resolution of a plain display, in dots an inch.
    private static let plainResolution = 96.0

    /// Chooses it by what is known: the window system's pixels for a point, which are more than 1 on Wayland and always
    /// 1 on X11; what `GDK_SCALE` says; and X11's settings, which desktops write: `Xft.dpi:<tab>192`.
    package static func of(pixelsPerPoint: Double, resources: String = "", variable: String? = nil) -> Int {
        if pixelsPerPoint.isFinite, pixelsPerPoint >= 1.25 { return bounded(pixelsPerPoint) }
        if let variable, let scale = Double(variable), scale.isFinite, scale >= 1 { return bounded(scale) }
        return resolution(in: resources).map { bounded($0 / plainResolution) } ?? 1
    }

    private static func bounded(_ scale: Double) -> Int { Int(min(max(scale.rounded(), 1), 4)) }

    private static func resolution(in resources: String) -> Double? {
        for line in resources.split(whereSeparator: \.isNewline) {
            let parts = line.split(separator: ":", maxSplits: 1)
            guard parts.count == 2, parts[0].filter({ !$0.isWhitespace }) == "Xft.dpi" else { continue }
            let value = Double(parts[1].filter { !$0.isWhitespace })
            return value.flatMap { $0.isFinite && $0 > 0 ? $0 : nil }
        }
        return nil
    }
}

/// The points of a window, in which its system tells places, and its pixels, in which the picture is drawn.
package struct PointRatio {
    /// Pixels for a point.
    package let across: Double
    package let down: Double

    /// Compares two sizes of one window; before there is one they are the same.
    package init(points: PixelSize, pixels: PixelSize) {
        let isThere = points.area > 0 && pixels.area > 0
        across = isThere ? Double(pixels.width) / Double(points.width) : 1
        down = isThere ? Double(pixels.height) / Double(points.height) : 1
    }

    /// The pixel in the middle of a point.
    package func pixel(x: Int, y: Int) -> (x: Int, y: Int) {
        (Int(((Double(x) + 0.5) * across).rounded(.down)), Int(((Double(y) + 0.5) * down).rounded(.down)))
    }
}
