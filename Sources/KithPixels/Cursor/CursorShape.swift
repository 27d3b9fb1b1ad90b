/// A pointer's picture and the pixel of it that points.
package struct CursorShape: Hashable, Sendable {
    /// The largest width and height.
    package static let sideLimit = 256

    /// Width and height, 1…256 each.
    package let size: PixelSize
    /// The pixel that points, in the shape.
    package let hotspot: (x: Int, y: Int)
    /// Row by row 0xAARRGGBB, with premultiplied alpha.
    package let pixels: [UInt32]

    /// A shape; `nil` when it is empty, too large, or the hot spot or the number of pixels does not fit it.
    package init?(size: PixelSize, hotspot: (x: Int, y: Int), pixels: [UInt32]) {
        guard size.area > 0, size.width <= Self.sideLimit, size.height <= Self.sideLimit, pixels.count == size.area,
            size.bounds.contains(x: hotspot.x, y: hotspot.y)
        else { return nil }
        self.size = size
        self.hotspot = hotspot
        self.pixels = pixels
    }

    package static func == (first: CursorShape, second: CursorShape) -> Bool {
        first.size == second.size && first.hotspot == second.hotspot && first.pixels == second.pixels
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(size)
        hasher.combine(hotspot.x)
        hasher.combine(hotspot.y)
        hasher.combine(pixels)
    }
}

/// The bytes of the cursor's channel.
///
/// | message | after its byte |
/// | --- | --- |
/// | 0 position | sequence (32 bits), x, y (16 bits each, of the hot spot) |
/// | 1 shape | slot, width − 1, height − 1, hot spot x, y (8 bits each), 0 plain or 1 zstd, the pixels as B, G, R, A |
/// | 2 use | slot |
/// | 3 hidden | – |
///
/// Shapes, use and hidden come in order on a stream; positions may come as datagrams, where the highest sequence counts.
enum CursorFormat {
    enum Kind: UInt8 {
        case position, shape, use, hidden
    }

    /// The shapes that a viewer keeps: at most 4 MiB.
    static let slots = 16
}
