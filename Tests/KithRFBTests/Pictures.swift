import KithRFB
import KithTesting

/// Pictures of the kinds that screens show, from a seed.
enum Pictures {
    /// Plain areas with text-like strokes, a gradient and a patch of noise.
    static func desktop(_ width: Int, _ height: Int, _ random: inout SeededRandom) throws -> RFBFrameBuffer {
        var frame = try RFBFrameBuffer(width: width, height: height)
        frame.fill(frame.bounds, with: color(&random))
        for _ in 0..<6 {
            let window = rectangle(in: frame.bounds, &random)
            frame.fill(window, with: color(&random))
            strokes(in: window, &frame, &random)
        }
        let photo = rectangle(in: frame.bounds, &random)
        for y in photo.y..<photo.endY {
            for x in photo.x..<photo.endX {
                let (red, green) = (UInt32(x * 255 / width), UInt32(y * 255 / height))
                frame[x, y] = red << 16 | green << 8 | UInt32.random(in: 0..<32, using: &random)
            }
        }
        let noise = rectangle(in: frame.bounds, &random).intersection(
            RFBRectangle(x: 0, y: 0, width: width, height: height / 3))
        for y in noise.y..<noise.endY {
            for x in noise.x..<noise.endX { frame[x, y] = UInt32.random(in: 0..<1 << 24, using: &random) }
        }
        return frame
    }

    /// Short strokes of few colours, as letters leave them.
    static func strokes(in area: RFBRectangle, _ frame: inout RFBFrameBuffer, _ random: inout SeededRandom) {
        let ink = [color(&random), color(&random), color(&random)]
        for _ in 0..<area.area / 40 {
            let stroke = RFBRectangle(
                x: area.x + Int.random(in: 0..<area.width, using: &random),
                y: area.y + Int.random(in: 0..<area.height, using: &random),
                width: Int.random(in: 1...5, using: &random), height: Int.random(in: 1...2, using: &random))
            frame.fill(stroke.intersection(area), with: ink[Int.random(in: 0..<3, using: &random)])
        }
    }

    static func color(_ random: inout SeededRandom) -> UInt32 { UInt32.random(in: 0..<1 << 24, using: &random) }

    /// A rectangle with at least one pixel.
    static func rectangle(in bounds: RFBRectangle, _ random: inout SeededRandom) -> RFBRectangle {
        let (x, y) = (
            Int.random(in: 0..<bounds.width, using: &random), Int.random(in: 0..<bounds.height, using: &random)
        )
        return RFBRectangle(
            x: x, y: y, width: Int.random(in: 1...bounds.width - x, using: &random),
            height: Int.random(in: 1...bounds.height - y, using: &random))
    }
}

extension RFBFrameBuffer {
    /// The places where two pictures of one size differ, as text; empty when they are the same.
    func differences(from other: RFBFrameBuffer, _ map: (UInt32) -> UInt32 = { $0 & 0xFF_FFFF }) -> String {
        guard bounds == other.bounds else { return "\(bounds) and \(other.bounds)" }
        if pixels == other.pixels { return "" }
        var count = 0
        var first = ""
        for y in 0..<height {
            for x in 0..<width where map(self[x, y]) != map(other[x, y]) {
                if count == 0 {
                    first =
                        "first at \(x), \(y): \(String(self[x, y], radix: 16)) and \(String(other[x, y], radix: 16))"
                }
                count += 1
            }
        }
        return count == 0 ? "" : "\(count) pixels differ, \(first)"
    }
}
