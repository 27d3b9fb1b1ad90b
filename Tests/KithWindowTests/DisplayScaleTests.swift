import KithAPI
import KithPixels
import KithTesting
import Testing

@testable import KithWindow

@Suite struct DisplayScaleTests {
    private let start = ContinuousClock.now

    @Test func `the window system's scale counts, then the variable, then what the desktop has set`() {
        #expect(DisplayScale.of(pixelsPerPoint: 1) == 1)
        #expect(DisplayScale.of(pixelsPerPoint: 2, resources: "Xft.dpi: 96", variable: "1") == 2)
        #expect(DisplayScale.of(pixelsPerPoint: 1.5) == 2 && DisplayScale.of(pixelsPerPoint: 40) == 4)
        #expect(DisplayScale.of(pixelsPerPoint: 1, resources: "Xft.dpi: 96", variable: "3") == 3)
        let resources = "*customization:\t-color\nXft.dpi:\t192\nXft.hinting: 1\n"
        #expect(DisplayScale.of(pixelsPerPoint: 1, resources: resources) == 2)
        #expect(DisplayScale.of(pixelsPerPoint: 1, resources: "Xft.dpi: 120") == 1)
        #expect(DisplayScale.of(pixelsPerPoint: 1, resources: "Xft.dpi: 100000") == 4)
        for nonsense in [
            "Xft.dpi", "Xft.dpi:", "Xft.dpi: x", "Xft.dpi: -5", "Xft.dpi: nan", "Xft.dpi: 0", "a.Xft.dpi: 192",
        ] {
            #expect(DisplayScale.of(pixelsPerPoint: .nan, resources: nonsense, variable: "inf") == 1, "\(nonsense)")
        }
    }

    /// SDL tells places in points, of which a display has fewer than pixels.
    @Test func `a tap is within a pixel of what is seen under it, at every scale of the display`() {
        var random = SeededRandom.fromEnvironment()
        let font = WindowFont(scale: 2, height: 32) { $0.count * 16 }
        var count = 0
        for _ in 0..<400 {
            let points = PixelSize(
                width: .random(in: 160...900, using: &random), height: .random(in: 100...600, using: &random))
            let scale = [1, 1.25, 1.5, 1.75, 2, 3][Int.random(in: 0..<6, using: &random)]
            let size = PixelSize(
                width: Int((Double(points.width) * scale).rounded()),
                height: Int((Double(points.height) * scale).rounded()))
            let picture = PixelSize(
                width: .random(in: 2...2_000, using: &random), height: .random(in: 2...1_500, using: &random))
            var window = ViewerWindow(
                WindowOptions(device: "laptop", scale: Bool.random(using: &random) ? .fit : .factor(1)), size: size,
                font: font)
            window.received(.picture(width: picture.width, height: picture.height), at: start)
            window.received(.permissions(.init(control: true)), at: start)
            window.received(.phase(.active), at: start)
            let ratio = PointRatio(points: points, pixels: size)
            for _ in 0..<20 {
                let place = (
                    x: Int.random(in: 0..<points.width, using: &random),
                    y: Int.random(in: 0..<points.height, using: &random)
                )
                while window.nextAction() != nil {}
                window.pointerMoved(to: nil, at: start)
                window.pointerMoved(to: ratio.pixel(x: place.x, y: place.y), at: start)
                var sent: (x: Int32, y: Int32)?
                while let action = window.nextAction() {
                    if case .send(.input(.move(let x, let y))) = action { sent = (x, y) }
                }
                // The middle of the point, in pixels of the display, and the pixels of the picture drawn around it.
                let middle = (
                    x: (Double(place.x) + 0.5) * Double(size.width) / Double(points.width),
                    y: (Double(place.y) + 0.5) * Double(size.height) / Double(points.height)
                )
                guard let drawn = window.scene.picture, let sent else { continue }
                let seen = (
                    x: (middle.x - Double(drawn.x)) * Double(picture.width) / Double(drawn.width),
                    y: (middle.y - Double(drawn.y)) * Double(picture.height) / Double(drawn.height)
                )
                // Where the picture is drawn smaller, a pixel of the display is several of it.
                let (across, down) = (
                    Double(picture.width) / Double(drawn.width), Double(picture.height) / Double(drawn.height)
                )
                let isNear =
                    abs(Double(sent.x) + 0.5 - seen.x) <= max(1, across + 0.5)
                    && abs(Double(sent.y) + 0.5 - seen.y) <= max(1, down + 0.5)
                #expect(isNear, "\(random) \(picture) \(points) \(size): \(place) becomes \(sent)")
                count += 1
            }
        }
        #expect(count > 2_000)
    }
}
