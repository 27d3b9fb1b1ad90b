/// A textured photo that is panned over and zoomed into, with grain that changes in every picture.
public struct Film: Sendable {
    /// Pixels in a row.
    public let width: Int
    /// Rows.
    public let height: Int
    private let photo: [[UInt8]]
    private var random: SeededRandom

    /// A film of a size; the photo is noise of several scales, as photos have.
    public init(width: Int, height: Int, random: SeededRandom) {
        self.width = width
        self.height = height
        var random = random
        // There is more of it than is seen at a time.
        photo = Self.photo(width: width + 192, height: height + 112, &random)
        self.random = random
    }

    private static func photo(width: Int, height: Int, _ random: inout SeededRandom) -> [[UInt8]] {
        var values = [[Float]](repeating: [Float](repeating: 126, count: width), count: height)
        var amplitude: Float = 55
        for cell in [128, 64, 32, 16, 8, 4, 2] {
            let columns = width / cell + 2
            let grid = (0..<columns * (height / cell + 2)).map { _ in
                Float.random(in: -amplitude...amplitude, using: &random)
            }
            for y in 0..<height {
                let (row, below) = (y / cell * columns, Float(y % cell) / Float(cell))
                for x in 0..<width {
                    let (column, right) = (x / cell, Float(x % cell) / Float(cell))
                    let upper = grid[row + column] * (1 - right) + grid[row + column + 1] * right
                    let lower =
                        grid[row + columns + column] * (1 - right) + grid[row + columns + column + 1] * right
                    values[y][x] += upper * (1 - below) + lower * below
                }
            }
            amplitude *= 0.62
        }
        return values.map { $0.map { UInt8(min(max($0, 16), 235)) } }
    }

    /// The pixels of a picture, row by row, as 0xAARRGGBB; `number` is 0…59.
    public mutating func picture(_ number: Int) -> [UInt32] {
        // In 1/256 of a pixel: a step to the right, down, and nearer.
        let (left, top, step) = (512 + number * 512, 256 + number * 300, 256 - number)
        var grain = random.next()
        var pixels: [UInt32] = []
        pixels.reserveCapacity(width * height)
        for y in 0..<height {
            let row = top + y * step
            let (upper, lower, below) = (photo[row >> 8], photo[(row >> 8) + 1], row & 255)
            for x in 0..<width {
                let column = left + x * step
                let (at, right) = (column >> 8, column & 255)
                let first = Int(upper[at]) * (256 - right) + Int(upper[at + 1]) * right
                let second = Int(lower[at]) * (256 - right) + Int(lower[at + 1]) * right
                grain = grain &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                let value = (first * (256 - below) + second * below) >> 16 + Int(grain >> 61) - 3
                let luma = UInt32(min(max(value, 0), 255))
                pixels.append(0xFF00_0000 | luma << 16 | luma << 8 | min(luma + UInt32(x % 64), 255))
            }
        }
        return pixels
    }
}
