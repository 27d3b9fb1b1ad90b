/// Encodes ZRLE (RFC 6143 §7.7.6), each tile in the shortest of its forms.
struct ZRLEEncoder: ~Copyable, Sendable {
    private var stream = DeflateStream()
    private var palette = Palette()
    private var values: [UInt32] = []
    private var plain: [UInt8] = []

    init() {}

    /// The lengths of a tile's runs of equal pixels.
    private struct Runs {
        var count = 0
        var single = 0
        /// The bytes behind the first that the lengths take.
        var long = 0
    }

    /// Appends a rectangle's length and data.
    mutating func encode(
        _ rectangle: RFBRectangle, of frame: RFBFrameBuffer, pixels: PixelValues, layout: PixelLayout, level: Int,
        to output: inout [UInt8]
    ) {
        plain.removeAll(keepingCapacity: true)
        for y in stride(from: rectangle.y, to: rectangle.endY, by: 64) {
            for x in stride(from: rectangle.x, to: rectangle.endX, by: 64) {
                let tile = RFBRectangle(
                    x: x, y: y, width: min(64, rectangle.endX - x), height: min(64, rectangle.endY - y))
                pixels.read(tile, of: frame, into: &values)
                encodeTile(tile, layout)
            }
        }
        let start = output.count
        output.appendInteger(UInt32(0))
        stream.compress(plain, level: level, to: &output)
        let length = UInt32(output.count - start - 4)
        for byte in 0..<4 { output[start + byte] = UInt8(truncatingIfNeeded: length >> UInt32(24 - 8 * byte)) }
    }

    private mutating func encodeTile(_ tile: RFBRectangle, _ layout: PixelLayout) {
        let count = tile.area
        let hasPalette = palette.collect(values, count: count, limit: 127)
        if hasPalette, palette.colors.count == 1 {
            plain.append(1)
            return layout.append(values[0], to: &plain)
        }
        let runs = runs(count)
        let raw = count * layout.size
        let plainRuns = runs.count * (layout.size + 1) + runs.long
        var best = min(raw, plainRuns)
        let colors = palette.colors.count
        guard hasPalette else {
            if raw <= plainRuns {
                plain.append(0)
                layout.append(values[..<count], to: &plain)
            } else {
                appendRuns(count, layout)
            }
            return
        }
        let paletteRuns = colors * layout.size + 2 * runs.count - runs.single + runs.long
        let bits = colors == 2 ? 1 : colors <= 4 ? 2 : 4
        let packed = colors * layout.size + (tile.width * bits + 7) / 8 * tile.height
        best = min(best, paletteRuns, colors <= 16 ? packed : Int.max)
        if best == packed, colors <= 16 {
            plain.append(UInt8(colors))
            layout.append(palette.colors[...], to: &plain)
            appendPacked(tile, bits)
        } else if best == paletteRuns {
            plain.append(UInt8(128 + colors))
            layout.append(palette.colors[...], to: &plain)
            appendPaletteRuns(count)
        } else if best == raw {
            plain.append(0)
            layout.append(values[..<count], to: &plain)
        } else {
            appendRuns(count, layout)
        }
    }

    private func runs(_ count: Int) -> Runs {
        var runs = Runs()
        var index = 0
        while index < count {
            let length = runLength(at: index, count)
            runs.count += 1
            if length == 1 { runs.single += 1 }
            runs.long += (length - 1) / 255
            index += length
        }
        return runs
    }

    private func runLength(at start: Int, _ count: Int) -> Int {
        let value = values[start]
        var end = start + 1
        while end < count, values[end] == value { end += 1 }
        return end - start
    }

    private mutating func appendLength(_ length: Int) {
        for _ in 0..<(length - 1) / 255 { plain.append(255) }
        plain.append(UInt8((length - 1) % 255))
    }

    private mutating func appendRuns(_ count: Int, _ layout: PixelLayout) {
        plain.append(128)
        var index = 0
        while index < count {
            let length = runLength(at: index, count)
            layout.append(values[index], to: &plain)
            appendLength(length)
            index += length
        }
    }

    private mutating func appendPaletteRuns(_ count: Int) {
        var index = 0
        while index < count {
            let length = runLength(at: index, count)
            let entry = UInt8(palette.index(of: values[index]))
            if length == 1 {
                plain.append(entry)
            } else {
                plain.append(entry | 0x80)
                appendLength(length)
            }
            index += length
        }
    }

    private mutating func appendPacked(_ tile: RFBRectangle, _ bits: Int) {
        var index = 0
        var (last, entry) = (palette.colors[0], UInt8(0))
        for _ in 0..<tile.height {
            var byte: UInt8 = 0
            var used = 0
            for _ in 0..<tile.width {
                if values[index] != last { (last, entry) = (values[index], UInt8(palette.index(of: values[index]))) }
                byte = byte << UInt8(bits) | entry
                index += 1
                used += bits
                if used == 8 {
                    plain.append(byte)
                    (byte, used) = (0, 0)
                }
            }
            if used > 0 { plain.append(byte << UInt8(8 - used)) }
        }
    }
}
