package import KithPixels

/// The size at which a window shows the picture.
@frozen package enum WindowScale: Codable, Hashable, Sendable {
    /// All of it, as large as the window allows.
    case fit
    /// So many pixels of the display for one of the picture: 1 is exact, 0.1…16.
    case factor(Double)

    /// The factors that there are.
    package static let factors = 0.1...16.0

    /// Reads `fit`, `1:1`, `150` or `150%`.
    package init?(_ text: String) {
        switch text.lowercased() {
        case "fit": self = .fit
        case "1:1": self = .factor(1)
        default:
            let digits = text.hasSuffix("%") ? String(text.dropLast()) : text
            guard let percent = Double(digits), Self.factors.contains(percent / 100) else { return nil }
            self = .factor(percent / 100)
        }
    }

    /// The next factor of a row of plain ones, up or down.
    package static func step(from factor: Double, up: Bool) -> Double {
        let row = [0.1, 0.25, 0.33, 0.5, 0.67, 0.75, 0.9, 1, 1.25, 1.5, 2, 3, 4, 6, 8, 12, 16]
        return up ? row.first { $0 > factor * 1.001 } ?? 16 : row.last { $0 < factor * 0.999 } ?? 0.1
    }

    /// The transform that shows a picture so in a view, both in pixels of the display.
    ///
    /// A picture that is smaller than the view has bars around it of whole pixels; of one that is larger, the middle is
    /// seen, and it can be moved.
    package func transform(picture: PixelSize, view: PixelSize) -> DisplayTransform {
        let (width, height) = (Double(view.width), Double(view.height))
        guard case .factor(let factor) = self, picture.area > 0, view.area > 0 else {
            return DisplayTransform(picture: picture, layout: ViewLayout(width: width, height: height))
        }
        func inset(_ view: Double, _ length: Int) -> Double { max(0, (view - Double(length) * factor) / 2) }
        let (across, down) = (inset(width, picture.width), inset(height, picture.height))
        let layout = ViewLayout(
            width: width, height: height,
            insets: (
                top: down.rounded(.down), left: across.rounded(.down),
                bottom: 2 * down - down.rounded(.down), right: 2 * across - across.rounded(.down)
            ))
        var transform = DisplayTransform(picture: picture, layout: layout)
        if transform.scale > 0 { transform.setZoom(factor / transform.scale) }
        return transform
    }
}
