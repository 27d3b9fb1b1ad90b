import KithWire

/// The place of a frame of video on a screen, and the parts of it that are drawn there.
///
/// The coded picture is the smallest rectangle of whole tiles around what moves, not the screen: beside a moving part of
/// 640 × 384 pixels on 1920 × 1080, coding the screen took four times the time (9.9 ms against 2.3), decoding three times.
///
///     flags     1 byte: 1 for a frame that needs no other
///     picture   x, y, width, height on the screen; width and height are even, and may reach 16 pixels beyond it
///     regions   their number, then of each x, y, width, height from the picture's corner; x and y are even
///
/// Numbers are varints (RFC 9000 §16). Regions have no more pixels together than the picture.
package struct VideoLayout: Hashable, Sendable {
    /// The most regions of a frame.
    package static let regionLimit = 4_096
    /// The most bytes it takes.
    package static let byteLimit = 1 + 4 * 8 + 8 + regionLimit * 4 * 8
    /// The pixels by which a picture may reach beyond the screen: codecs have a least size, and want even sides.
    package static let overhang = 16

    /// True for a frame that needs no other.
    package var isKey: Bool
    /// The coded picture's place on the screen.
    package var picture: PixelRectangle
    /// What is drawn, in the picture's own coordinates.
    package var regions: [PixelRectangle]

    /// Describes a frame.
    package init(isKey: Bool, picture: PixelRectangle, regions: [PixelRectangle]) {
        self.isKey = isKey
        self.picture = picture
        self.regions = regions
    }

    /// Its bytes.
    package var bytes: [UInt8] {
        var writer = ByteWriter(capacity: 32 + regions.count * 8)
        writer.integer(UInt8(isKey ? 1 : 0))
        write(picture, to: &writer)
        writer.varint(UInt64(regions.count))
        for region in regions { write(region, to: &writer) }
        return writer.bytes
    }

    private func write(_ rectangle: PixelRectangle, to writer: inout ByteWriter) {
        for value in [rectangle.x, rectangle.y, rectangle.width, rectangle.height] { writer.varint(UInt64(value)) }
    }

    /// Reads one, whatever it says of itself.
    package init(_ bytes: [UInt8]) throws(TileError) {
        guard bytes.count <= Self.byteLimit else { throw .tooMuch }
        var reader = ByteReader(bytes)
        guard let flags: UInt8 = try? reader.integer() else { throw .truncated }
        guard flags <= 1 else { throw .malformed("an unknown flag") }
        isKey = flags == 1
        picture = try Self.rectangle(&reader)
        guard !picture.isEmpty, picture.width % 2 == 0, picture.height % 2 == 0 else {
            throw .malformed("a coded picture of an odd size")
        }
        guard let count = try? reader.varint() else { throw .truncated }
        guard count <= Self.regionLimit else { throw .tooMuch }
        regions = []
        var area = 0
        for _ in 0..<count {
            let region = try Self.rectangle(&reader)
            guard !region.isEmpty, picture.size.bounds.contains(region) else { throw .outside }
            guard region.x % 2 == 0, region.y % 2 == 0 else { throw .malformed("a region at an odd place") }
            area += region.area
            guard area <= picture.area else { throw .tooMuch }
            regions.append(region)
        }
        guard reader.remaining == 0 else { throw .malformed("more than a layout") }
    }

    private static func rectangle(_ reader: inout ByteReader) throws(TileError) -> PixelRectangle {
        var values: [Int] = []
        for _ in 0..<4 {
            guard let value = try? reader.varint() else { throw .truncated }
            guard value <= TileFormat.sideLimit else { throw .tooMuch }
            values.append(Int(value))
        }
        return PixelRectangle(x: values[0], y: values[1], width: values[2], height: values[3])
    }

    /// Checks that the picture lies on a screen, but for the overhang, and that what is drawn lies on it wholly.
    package func check(on screen: PixelSize) throws(TileError) {
        guard picture.x < screen.width, picture.y < screen.height,
            picture.maxX <= screen.width + Self.overhang, picture.maxY <= screen.height + Self.overhang,
            regions.allSatisfy({ screen.bounds.contains($0.moved(x: picture.x, y: picture.y)) })
        else { throw .outside }
    }
}
