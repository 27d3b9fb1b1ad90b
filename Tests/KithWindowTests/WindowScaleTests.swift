import KithPixels
import KithTesting
import Testing

@testable import KithWindow

@Suite struct WindowScaleTests {
    @Test func `sizes are read as people write them`() {
        #expect(WindowScale("fit") == .fit && WindowScale("Fit") == .fit)
        #expect(WindowScale("1:1") == .factor(1) && WindowScale("150") == .factor(1.5))
        #expect(WindowScale("66%") == .factor(0.66) && WindowScale("1600") == .factor(16))
        for none in ["", "big", "9", "1601", "nan", "inf", "-100", "1:2"] {
            #expect(WindowScale(none) == nil, "\(none)")
        }
    }

    @Test func `at 1:1 every pixel of the picture is one of the display, in windows larger and smaller`() {
        var random = SeededRandom.fromEnvironment()
        for _ in 0..<500 {
            let picture = PixelSize(
                width: .random(in: 1...1_500, using: &random), height: .random(in: 1...900, using: &random))
            let view = PixelSize(
                width: .random(in: 200...1_500, using: &random), height: .random(in: 200...900, using: &random))
            let transform = WindowScale.factor(1).transform(picture: picture, view: view)
            // Sixteen times the size at which it fits is the most.
            guard picture.width <= view.width * 16, picture.height <= view.height * 16 else { continue }
            #expect(abs(transform.scale - 1) < 1e-9, "\(picture) \(view)")
            let origin = transform.origin
            for _ in 0..<8 {
                let place = (
                    x: Int.random(in: 0..<view.width, using: &random),
                    y: Int.random(in: 0..<view.height, using: &random)
                )
                let expected = (x: place.x - Int(origin.x), y: place.y - Int(origin.y))
                let found = transform.pixel(at: ViewPoint(x: Double(place.x) + 0.5, y: Double(place.y) + 0.5))
                if picture.bounds.contains(x: expected.x, y: expected.y) {
                    #expect(found?.x == expected.x && found?.y == expected.y, "\(picture) \(view) \(place)")
                } else {
                    #expect(found == nil)
                }
            }
        }
    }

    @Test func `a factor is that factor, smaller than what fits or larger`() {
        let (picture, view) = (PixelSize(width: 400, height: 300), PixelSize(width: 1_000, height: 700))
        for factor in [0.5, 1, 1.5, 2, 4, 8] {
            let transform = WindowScale.factor(factor).transform(picture: picture, view: view)
            #expect(abs(transform.scale - factor) < 1e-9)
        }
        #expect(WindowScale.step(from: 1, up: true) == 1.25 && WindowScale.step(from: 1, up: false) == 0.9)
        #expect(WindowScale.step(from: 1.1, up: false) == 1 && WindowScale.step(from: 16, up: true) == 16)
        #expect(WindowScale.step(from: 0.1, up: false) == 0.1)
    }
}
