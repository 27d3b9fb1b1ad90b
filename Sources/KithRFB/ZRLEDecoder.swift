/// Decodes ZRLE (RFC 6143 §7.7.6): tiles of 64 by 64, compressed in one stream.
struct ZRLEDecoder: ~Copyable, Sendable {
    private var stream = InflateStream()
    private var colors = [UInt32](repeating: 0, count: 64 * 64)
    private var palette = [UInt32](repeating: 0, count: 128)

    init() {}

    /// Decodes a rectangle inside the picture when all of it is at hand, and answers true then.
    mutating func decode(
        _ rectangle: RFBRectangle, from input: inout ByteQueue, layout: PixelLayout, to frame: inout RFBFrameBuffer
    ) throws(RFBError) -> Bool {
        guard input.count >= 4 else { return false }
        // No encoder needs more than a run for each pixel, and what compression adds at worst.
        let limit = rectangle.area * 6 + rectangle.area / 8 + 4096
        let length = Int(input.u32(at: 0))
        guard length <= limit else { throw .tooLong(field: "rectangle in ZRLE", limit: limit, actual: length) }
        guard input.count >= 4 + length else { return false }
        input.skip(4)
        try stream.begin(input.take(length))
        for y in stride(from: 0, to: rectangle.height, by: 64) {
            for x in stride(from: 0, to: rectangle.width, by: 64) {
                let tile = RFBRectangle(
                    x: rectangle.x + x, y: rectangle.y + y, width: min(64, rectangle.width - x),
                    height: min(64, rectangle.height - y))
                try decodeTile(tile, layout, to: &frame)
            }
        }
        try stream.finish()
        return true
    }

    private mutating func decodeTile(
        _ tile: RFBRectangle, _ layout: PixelLayout, to frame: inout RFBFrameBuffer
    ) throws(RFBError) {
        let kind = Int(try stream.byte())
        switch kind {
        case 0:
            try readColors(tile.area, layout)
        case 1:
            return frame.fill(tile, with: try color(layout))
        case 2...16:
            try readPalette(kind, layout)
            try readPacked(tile, kind)
        case 128:
            try readRuns(tile.area, layout)
        case 130...255:
            try readPalette(kind - 128, layout)
            try readPaletteRuns(tile.area, kind - 128)
        default:
            throw .malformed("a tile of ZRLE has a kind that exists")
        }
        frame.write(colors, into: tile)
    }

    private mutating func color(_ layout: PixelLayout) throws(RFBError) -> UInt32 {
        var color: UInt32 = 0
        try unsafe stream.read(layout.size) { bytes in
            if let base = bytes.baseAddress { color = unsafe layout.color(at: base) }
        }
        return color
    }

    private mutating func readColors(_ count: Int, _ layout: PixelLayout) throws(RFBError) {
        var colors = [UInt32]()
        swap(&colors, &self.colors)
        defer { swap(&colors, &self.colors) }
        try unsafe stream.read(count * layout.size) { bytes in
            unsafe layout.read(bytes, count: count, into: &colors)
        }
    }

    private mutating func readPalette(_ count: Int, _ layout: PixelLayout) throws(RFBError) {
        for index in 0..<count { palette[index] = try color(layout) }
    }

    private mutating func readPacked(_ tile: RFBRectangle, _ count: Int) throws(RFBError) {
        let bits = count == 2 ? 1 : count <= 4 ? 2 : 4
        let perByte = 8 / bits
        let mask = UInt8((1 << bits) - 1)
        let rowBytes = (tile.width + perByte - 1) / perByte
        try stream.require(rowBytes * tile.height)
        var index = 0
        for _ in 0..<tile.height {
            var byte: UInt8 = 0
            for x in 0..<tile.width {
                if x % perByte == 0 { byte = try stream.byte() }
                let entry = Int(byte >> UInt8(8 - bits) & mask)
                byte <<= UInt8(bits)
                guard entry < count else { throw .malformed("a colour is one of the palette") }
                colors[index] = palette[entry]
                index += 1
            }
        }
    }

    private mutating func runLength(limit: Int) throws(RFBError) -> Int {
        var length = 1
        var byte: UInt8
        repeat {
            byte = try stream.byte()
            length += Int(byte)
            guard length <= limit else { throw .malformed("a run ends inside its tile") }
        } while byte == 255
        return length
    }

    private mutating func readRuns(_ count: Int, _ layout: PixelLayout) throws(RFBError) {
        var index = 0
        while index < count {
            let color = try color(layout)
            let length = try runLength(limit: count - index)
            for at in index..<index + length { colors[at] = color }
            index += length
        }
    }

    private mutating func readPaletteRuns(_ count: Int, _ paletteCount: Int) throws(RFBError) {
        var index = 0
        while index < count {
            let byte = try stream.byte()
            let entry = Int(byte & 0x7F)
            guard entry < paletteCount else { throw .malformed("a colour is one of the palette") }
            let length = byte & 0x80 == 0 ? 1 : try runLength(limit: count - index)
            for at in index..<index + length { colors[at] = palette[entry] }
            index += length
        }
    }
}
