import KithPixels

/// The screens that are measured: made here, the same on each run.
struct Screens {
    static let size = PixelSize(width: 1920, height: 1080)
    /// A cell of the text in pixels, as xterm's fixed font has it.
    static let cell = PixelSize(width: 8, height: 16)

    private var state: UInt64 = 20_261_127

    mutating func random() -> UInt32 {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return UInt32(truncatingIfNeeded: state >> 33)
    }

    /// 96 letters, each its coverage from 0 to 255 per pixel: strokes of one to two pixels, smoothed when wanted.
    mutating func font(isSmooth: Bool) -> [[UInt8]] {
        let (width, height) = (Self.cell.width, Self.cell.height)
        return (0..<96).map { letter in
            var pixels = [UInt8](repeating: 0, count: width * height)
            guard letter > 0 else { return pixels }
            for _ in 0..<3 {
                var (x, y) = (Int(random() % 6) + 1, Int(random() % 9) + 3)
                let isVertical = random() % 2 == 0
                for _ in 0..<Int(random() % 6) + 3 {
                    if x < width - 1, y < height - 3 { pixels[y * width + x] = 255 }
                    if isVertical { y += 1 } else { x += 1 }
                }
            }
            guard isSmooth else { return pixels }
            let sharp = pixels
            for y in 1..<height - 1 {
                for x in 1..<width - 1 {
                    let around = [sharp[y * width + x - 1], sharp[y * width + x + 1], sharp[(y - 1) * width + x]]
                    let sum = around.reduce(0) { $0 + Int($1) } + 3 * Int(sharp[y * width + x])
                    pixels[y * width + x] = UInt8(min(255, sum / 4 / 16 * 16))
                }
            }
            return pixels
        }
    }

    private static let words = """
        the of and to in is for that with as be on not this it are from or by an if let var func return guard else switch
        case struct enum static private package import true false nil self init throws try await async error value count
        index buffer pixel frame screen stream packet window length offset bytes reader writer time rate delay network
        """.split(whereSeparator: \.isWhitespace).map { Array($0.utf8) }

    /// One line of a listing, of at most `columns` characters.
    mutating func line(columns: Int) -> [UInt8] {
        var line = [UInt8](repeating: 32, count: Int(random() % 5) * 4)
        let end = Int(random()) % columns
        while line.count < end {
            line += Self.words[Int(random()) % Self.words.count] + [32]
            if random() % 6 == 0 { line += Array("(\(random() % 1000))".utf8) }
        }
        return Array(line.prefix(columns))
    }

    /// Draws a line of text with its top at `y`.
    static func draw(
        _ line: [UInt8], at y: Int, in picture: inout PixelBuffer, font: [[UInt8]], from x: Int = 0, columns: Int = 240
    ) {
        picture.fill(
            PixelRectangle(x: x, y: y, width: columns * cell.width, height: cell.height), with: 0xFF1E_1E2E)
        for (column, letter) in line.enumerated() {
            let glyph = font[Int(letter) - 32]
            for row in 0..<cell.height where y + row < picture.size.height {
                for pixel in 0..<cell.width where glyph[row * cell.width + pixel] != 0 {
                    let light = UInt32(glyph[row * cell.width + pixel])
                    let colour = 0xFF00_0000 | light << 16 | light << 8 | min(255, light + 30)
                    picture[x: x + column * cell.width + pixel, y: y + row] = colour
                }
            }
        }
    }

    /// A screen full of text.
    mutating func text(font: [[UInt8]]) -> PixelBuffer {
        var picture = PixelBuffer(size: Self.size)
        for row in 0..<Self.size.height / Self.cell.height + 1 {
            Self.draw(line(columns: 240), at: row * Self.cell.height, in: &picture, font: font)
        }
        return picture
    }

    /// Scrolls a screen of text by two lines and writes two new ones below.
    mutating func scroll(_ picture: inout PixelBuffer, font: [[UInt8]]) {
        let (height, step) = (Self.size.height / 16 * 16, 2 * Self.cell.height)
        picture.copy(
            PixelRectangle(x: 0, y: step, width: Self.size.width, height: height - step), to: (0, 0))
        for row in [height - step, height - step / 2] {
            Self.draw(line(columns: 240), at: row, in: &picture, font: font)
        }
    }

    /// A photograph's like: soft shapes with grain.
    mutating func photo() -> PixelBuffer {
        var picture = PixelBuffer(size: Self.size)
        for y in 0..<Self.size.height {
            for x in 0..<Self.size.width {
                let grain = random() % 5
                let red = UInt32((x * x / 9000 + y / 6) & 255) / 2 + 40 + grain
                let green = UInt32((x / 8 + y * y / 7000) & 255) / 2 + 50 + grain
                let blue = UInt32((x + y) / 12 & 255) / 2 + 60 + grain
                picture[x: x, y: y] = 0xFF00_0000 | red << 16 | green << 8 | blue
            }
        }
        return picture
    }
}
