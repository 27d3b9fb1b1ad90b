/// Pictures as sixels (DEC STD 070, chapter 9): in 216 colours, with a pattern that makes the eye see those between.
enum SixelGraphics {
    /// The steps of each of red, green and blue.
    private static let steps = 6
    /// Thresholds, 0…15, of an ordered dither of four by four pixels (Bayer).
    private static let thresholds = [0, 8, 2, 10, 12, 4, 14, 6, 3, 11, 1, 9, 15, 7, 13, 5]

    /// Shows a picture at its own size from the cursor on.
    static func shown(_ image: TerminalImage) -> [UInt8] {
        let indices = indices(of: image)
        // 1: what is not drawn stays as it is. The raster attributes say the size, so that nothing is reserved beyond it.
        var bytes = Array("\u{1B}P0;1;0q\"1;1;\(image.width);\(image.height)".utf8)
        for index in Set(indices).sorted() {
            let (red, green, blue) = (Int(index) / 36, Int(index) / 6 % 6, Int(index) % 6)
            bytes += Array("#\(index);2;\(red * 20);\(green * 20);\(blue * 20)".utf8)
        }
        for top in stride(from: 0, to: image.height, by: 6) {
            if top > 0 { bytes.append(UInt8(ascii: "-")) }
            let rows = min(6, image.height - top)
            let band = indices[(top * image.width)..<((top + rows) * image.width)]
            for (number, index) in Set(band).sorted().enumerated() {
                if number > 0 { bytes.append(UInt8(ascii: "$")) }
                bytes += Array("#\(index)".utf8)
                append(band, of: index, width: image.width, rows: rows, to: &bytes)
            }
        }
        return bytes + Array("\u{1B}\\".utf8)
    }

    /// The nearest colour of each pixel, after the pattern was added.
    private static func indices(of image: TerminalImage) -> [UInt8] {
        (0..<image.width * image.height).map { place in
            let (x, y) = (place % image.width, place / image.width)
            let threshold = thresholds[(y & 3) * 4 + (x & 3)]
            func step(_ part: Int) -> Int {
                // In sixteenths of a step, of which there are five between black and full.
                let exact = Int(image.pixels[place * 3 + part]) * (steps - 1) * 16 / 255
                return min((exact + threshold) / 16, steps - 1)
            }
            return UInt8(step(0) * 36 + step(1) * 6 + step(2))
        }
    }

    /// Appends the pixels of one colour in a band; a run of the same six is a number and the six.
    private static func append(
        _ band: ArraySlice<UInt8>, of index: UInt8, width: Int, rows: Int, to bytes: inout [UInt8]
    ) {
        var run = (six: UInt8(0), count: 0)
        func end() {
            guard run.count > 0 else { return }
            let character = run.six + 63
            if run.count > 3 {
                bytes += Array("!\(run.count)".utf8) + [character]
            } else {
                bytes += [UInt8](repeating: character, count: run.count)
            }
        }
        for column in 0..<width {
            var six: UInt8 = 0
            for row in 0..<rows where band[band.startIndex + row * width + column] == index { six |= 1 << UInt8(row) }
            if six == run.six {
                run.count += 1
            } else {
                end()
                run = (six, 1)
            }
        }
        // Nothing at the end of a row need not be said.
        if run.six != 0 { end() }
    }
}
