import KithPixels
import KithTesting
import Testing

@Suite struct DisplayTransformTests {
    /// A window of any phone, tablet or desktop, zoomed and moved at random.
    static func transform(_ random: inout SeededRandom) -> DisplayTransform {
        func length(_ range: ClosedRange<Double>) -> Double { Double.random(in: range, using: &random) }
        let layout = ViewLayout(
            origin: ViewPoint(x: length(-50...300), y: length(-50...300)), width: length(200...2000),
            height: length(200...2000),
            insets: (length(0...60), length(0...60), length(0...90), length(0...60)),
            displayScale: [1, 1.25, 1.5, 2, 3].randomElement(using: &random) ?? 1)
        let picture = PixelSize(
            width: Int.random(in: 1...5120, using: &random), height: Int.random(in: 1...2880, using: &random))
        var transform = DisplayTransform(picture: picture, layout: layout)
        if random.chance(0.7) {
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let point = ViewPoint(x: length(-100...2000), y: length(-100...2000))
                transform.zoom(by: length(0.3...5), around: point)
                transform.pan(x: length(-3000...3000), y: length(-3000...3000))
            }
        }
        return transform
    }

    /// Correctness property 2: a touch reaches the pixel that is drawn under it.
    @Test func `a point maps to within one pixel of the exact place, in any window, zoomed and moved`() throws {
        var random = SeededRandom.fromEnvironment()
        for _ in 0..<3000 {
            let transform = Self.transform(&random)
            // The drawing: the picture's corner and size in points.
            let (origin, size, picture) = (transform.origin, transform.drawnSize, transform.picture)
            let point = ViewPoint(
                x: Double.random(in: origin.x..<origin.x + size.width, using: &random),
                y: Double.random(in: origin.y..<origin.y + size.height, using: &random))
            let exact = ViewPoint(
                x: (point.x - origin.x) / size.width * Double(picture.width),
                y: (point.y - origin.y) / size.height * Double(picture.height))
            let pixel = try #require(transform.nearestPixel(to: point), "\(random)")
            #expect(abs(Double(pixel.x) + 0.5 - exact.x) <= 1 && abs(Double(pixel.y) + 0.5 - exact.y) <= 1, "\(random)")
            #expect(picture.bounds.contains(x: pixel.x, y: pixel.y), "\(random)")
        }
    }

    @Test func `the middle of each drawn pixel maps back to that pixel`() throws {
        var random = SeededRandom.fromEnvironment()
        for _ in 0..<3000 {
            let transform = Self.transform(&random)
            let (x, y) = (
                Int.random(in: 0..<transform.picture.width, using: &random),
                Int.random(in: 0..<transform.picture.height, using: &random)
            )
            let pixel = try #require(transform.pixel(at: transform.point(ofX: x, y: y)), "\(random)")
            #expect(pixel == (x, y), "\(random)")
        }
    }

    @Test func `the edges are half-open, and a bar beside the picture is not a part of it`() throws {
        // A picture of 200 × 100 in a view of 400 × 400: twice its size, with bars of 100 above and below.
        let layout = ViewLayout(origin: ViewPoint(x: 10, y: 20), width: 400, height: 400, displayScale: 2)
        let transform = DisplayTransform(picture: PixelSize(width: 200, height: 100), layout: layout)
        func pixel(_ x: Double, _ y: Double) -> [Int]? {
            transform.pixel(at: ViewPoint(x: x, y: y)).map { [$0.x, $0.y] }
        }
        #expect(pixel(10, 120) == [0, 0])
        #expect(pixel(9.999, 120) == nil)
        #expect(pixel(10, 119.999) == nil)
        #expect(pixel(409.999, 319.999) == [199, 99])
        #expect(pixel(410, 319) == nil)
        #expect(pixel(409, 320) == nil)
        #expect(pixel(12, 120) == [1, 0])
        #expect(pixel(11.999, 122) == [0, 1])
        let far = try #require(transform.nearestPixel(to: ViewPoint(x: 1e9, y: -1e9)))
        #expect(far == (199, 0))
    }

    @Test func `the picture keeps its proportions, lies where nothing covers it and begins on a pixel of the display`()
    {
        var random = SeededRandom.fromEnvironment()
        for _ in 0..<1000 {
            let transform = Self.transform(&random)
            let (layout, size, origin) = (transform.layout, transform.drawnSize, transform.origin)
            let picture = transform.picture
            let ratio = size.width * Double(picture.height) / (size.height * Double(picture.width))
            #expect(abs(ratio - 1) < 1e-9, "\(random)")
            for value in [origin.x * layout.displayScale, origin.y * layout.displayScale] {
                #expect(abs(value - value.rounded()) < 1e-6, "\(random)")
            }
            let left = layout.origin.x + layout.insets.left
            let right = layout.origin.x + layout.width - layout.insets.right
            let half = 1 / layout.displayScale
            if size.width <= right - left {
                #expect(origin.x >= left - half && origin.x + size.width <= right + half, "\(random)")
            } else {
                #expect(origin.x <= left + half && origin.x + size.width >= right - half, "\(random): no bar")
            }
        }
    }

    @Test func `what is under the fingers stays there while they zoom`() throws {
        let layout = ViewLayout(width: 800, height: 600, displayScale: 2)
        var transform = DisplayTransform(picture: PixelSize(width: 1600, height: 1200), layout: layout)
        transform.setZoom(3)
        let point = ViewPoint(x: 420, y: 310)
        let before = try #require(transform.pixel(at: point))
        for factor in [1.1, 1.3, 0.9, 1.2, 0.8] {
            transform.zoom(by: factor, around: point)
            let pixel = try #require(transform.pixel(at: point))
            #expect(abs(pixel.x - before.x) <= 1 && abs(pixel.y - before.y) <= 1)
        }
        let actual = try #require(transform.actualSizeZoom)
        transform.setZoom(actual)
        #expect(transform.scale == 0.5, "a pixel is a pixel of a display with two in a point")
    }

    @Test func `the view follows a pointer at its edge only`() {
        let layout = ViewLayout(width: 400, height: 400)
        var transform = DisplayTransform(picture: PixelSize(width: 1000, height: 1000), layout: layout)
        transform.setZoom(5)
        let before = transform.origin
        transform.reveal(x: 500, y: 500)
        #expect(transform.origin == before)
        transform.reveal(x: 900, y: 500)
        let point = transform.point(ofX: 900, y: 500)
        #expect(abs(point.x - 376) <= 1.5 && transform.origin.y == before.y)
    }

    @Test func `before the first layout there is no pixel and nothing is divided by zero`() {
        for (width, height) in [(0.0, 0.0), (0, 100), (-5, 3), (.nan, 4), (.infinity, .infinity)] {
            var transform = DisplayTransform(
                picture: PixelSize(width: 100, height: 100), layout: ViewLayout(width: width, height: height))
            transform.zoom(by: 2, around: ViewPoint(x: 1, y: 1))
            transform.pan(x: 4, y: 4)
            transform.reveal(x: 3, y: 3)
            #expect(transform.pixel(at: ViewPoint(x: 0, y: 0)) == nil)
            transform.setLayout(ViewLayout(width: 100, height: 100))
            #expect(transform.pixel(at: ViewPoint(x: 50, y: 50)) != nil)
        }
    }
}
