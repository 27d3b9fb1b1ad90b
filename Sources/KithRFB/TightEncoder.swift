/// Encodes Tight (rfbproto, Tight Encoding).
///
/// A rectangle is cut into tiles; neighbours of one kind become one rectangle: a colour, few colours as a palette, many
/// colours as they are or as JPEG.
struct TightEncoder: ~Copyable, Sendable {
    /// The largest rectangle, in pixels: the protocol allows rows of 2048.
    private static let areaLimit = 1 << 16
    private static let tileSide = 64
    /// A tile with more colours than these is a picture.
    private static let fewColors = 96

    /// The way the viewer wants its pixels.
    struct Style: Sendable {
        var layout: PixelLayout
        /// The effort in compression, 0…9.
        var level: Int
        /// 0…9; `nil` for exact pixels.
        var quality: Int?
    }

    private enum Kind: Hashable {
        case solid(UInt32)
        case few
        case many
    }

    private var copies = DeflateStream()
    private var bits = DeflateStream()
    private var indices = DeflateStream()
    private var palette = Palette()
    private var values: [UInt32] = []
    private var colors: [UInt32] = []
    private var plain: [UInt8] = []
    private let jpeg: (any JPEGCodec)?

    init(jpeg: (any JPEGCodec)?) { self.jpeg = jpeg }

    /// Appends rectangles, each with its head, that together have a rectangle's pixels; returns their number.
    ///
    /// Those that were not sent exactly are added to `lossy`.
    mutating func encode(
        _ rectangle: RFBRectangle, of frame: RFBFrameBuffer, pixels: PixelValues, style: Style, lossy: inout RFBRegion,
        to output: inout [UInt8]
    ) -> Int {
        var count = 0
        for y in stride(from: rectangle.y, to: rectangle.endY, by: Self.tileSide) {
            let height = min(Self.tileSide, rectangle.endY - y)
            var band: (kind: Kind, rectangle: RFBRectangle)?
            for x in stride(from: rectangle.x, to: rectangle.endX, by: Self.tileSide) {
                let tile = RFBRectangle(x: x, y: y, width: min(Self.tileSide, rectangle.endX - x), height: height)
                let kind = kind(of: tile, frame, pixels)
                if let last = band {
                    let joined = last.rectangle.union(tile)
                    if last.kind == kind, joined.area <= Self.areaLimit {
                        band = (kind, joined)
                        continue
                    }
                    append(last.rectangle, last.kind, frame, pixels, style, &lossy, to: &output)
                    count += 1
                }
                band = (kind, tile)
            }
            if let band {
                append(band.rectangle, band.kind, frame, pixels, style, &lossy, to: &output)
                count += 1
            }
        }
        return count
    }

    private mutating func kind(of tile: RFBRectangle, _ frame: RFBFrameBuffer, _ pixels: PixelValues) -> Kind {
        pixels.read(tile, of: frame, into: &values)
        guard palette.collect(values, count: tile.area, limit: Self.fewColors) else { return .many }
        return palette.colors.count == 1 ? .solid(values[0]) : .few
    }

    private mutating func append(
        _ rectangle: RFBRectangle, _ kind: Kind, _ frame: RFBFrameBuffer, _ pixels: PixelValues, _ style: Style,
        _ lossy: inout RFBRegion, to output: inout [UInt8]
    ) {
        output.appendRectangle(rectangle)
        output.appendInteger(RFBEncoding.tight.rawValue)
        if case .solid(let value) = kind {
            output.append(0x80)
            style.layout.append(value, to: &output)
            lossy.remove(rectangle)
            return
        }
        if kind == .many, style.quality != nil, appendImage(rectangle, frame, style, to: &output) {
            lossy.insert(rectangle)
            return
        }
        lossy.remove(rectangle)
        pixels.read(rectangle, of: frame, into: &values)
        let limit = style.layout.size == 1 ? 2 : Palette.limit
        let count = rectangle.area
        plain.removeAll(keepingCapacity: true)
        if kind == .few, palette.collect(values, count: count, limit: limit),
            palette.colors.count * style.layout.size < count
        {
            output += [palette.colors.count == 2 ? 0x50 : 0x60, 1, UInt8(palette.colors.count - 1)]
            style.layout.append(palette.colors[...], to: &output)
            if palette.colors.count == 2 {
                collectBits(rectangle)
                Self.append(plain, &bits, style.level, to: &output)
            } else {
                collectIndices(count)
                Self.append(plain, &indices, style.level, to: &output)
            }
        } else {
            output.append(0)
            style.layout.append(values[..<count], to: &plain)
            Self.append(plain, &copies, style.level, to: &output)
        }
    }

    private mutating func collectIndices(_ count: Int) {
        plain += unsafe [UInt8](unsafeUninitializedCapacity: count) { target, written in
            unsafe values.withUnsafeBufferPointer { values in
                var (last, entry) = (palette.colors[0], UInt8(0))
                for index in 0..<count {
                    let value = unsafe values[index]
                    if value != last { (last, entry) = (value, UInt8(palette.index(of: value))) }
                    unsafe target[index] = entry
                }
            }
            written = count
        }
    }

    private mutating func collectBits(_ rectangle: RFBRectangle) {
        let first = palette.colors[0]
        var index = 0
        for _ in 0..<rectangle.height {
            var byte: UInt8 = 0
            for x in 0..<rectangle.width {
                if values[index] != first { byte |= 0x80 >> UInt8(x & 7) }
                index += 1
                if x & 7 == 7 {
                    plain.append(byte)
                    byte = 0
                }
            }
            if rectangle.width & 7 != 0 { plain.append(byte) }
        }
    }

    private static func append(
        _ plain: [UInt8], _ stream: inout DeflateStream, _ level: Int, to output: inout [UInt8]
    ) {
        guard plain.count >= 12 else {
            output += plain
            return
        }
        var data: [UInt8] = []
        stream.compress(plain, level: level, to: &data)
        appendLength(data.count, to: &output)
        output += data
    }

    private mutating func appendImage(
        _ rectangle: RFBRectangle, _ frame: RFBFrameBuffer, _ style: Style, to output: inout [UInt8]
    ) -> Bool {
        guard let jpeg, let level = style.quality, style.layout.size > 1 else { return false }
        colors.removeAll(keepingCapacity: true)
        unsafe frame.forEachRow(of: rectangle) { unsafe colors.append(contentsOf: $0) }
        let image = jpeg.encode(
            colors, width: rectangle.width, height: rectangle.height, quality: 10 + 10 * level, halvesColors: level < 7)
        guard let image, image.count < 1 << 22 else { return false }
        output.append(0x90)
        Self.appendLength(image.count, to: &output)
        output += image
        return true
    }

    /// Appends a length, 0…2²²−1, in one to three bytes.
    static func appendLength(_ length: Int, to output: inout [UInt8]) {
        output.append(UInt8(length & 0x7F) | (length > 0x7F ? 0x80 : 0))
        guard length > 0x7F else { return }
        output.append(UInt8(length >> 7 & 0x7F) | (length > 0x3FFF ? 0x80 : 0))
        if length > 0x3FFF { output.append(UInt8(length >> 14)) }
    }
}
