/// A rectangle that is being decoded; what came of it is drawn already.
struct RectangleProgress: Sendable {
    /// What is still to be read: rows of Raw, subrectangles of RRE.
    var left: Int?
    /// The pixels that subrectangles of RRE painted.
    var painted = 0
    /// The background that a tile of Hextile inherits, and the foreground.
    var background: UInt32?
    var foreground: UInt32?
    /// The next tile of Hextile.
    var tile = 0
}

/// The encodings without compression (RFC 6143 §7.7.1 to §7.7.4).
///
/// Each function reads what is at hand, and answers true when the rectangle is whole. A rectangle is inside the picture.
enum SimpleDecoders {
    static func raw(
        _ rectangle: RFBRectangle, _ progress: inout RectangleProgress, from input: inout ByteQueue,
        layout: PixelLayout, to frame: inout RFBFrameBuffer, scratch: inout [UInt32]
    ) -> Bool {
        guard !rectangle.isEmpty else { return true }
        var left = progress.left ?? rectangle.height
        let rowBytes = rectangle.width * layout.size
        scratch.reserve(rectangle.width)
        while left > 0, input.count >= rowBytes {
            unsafe input.withBytes(at: 0, count: rowBytes) { bytes in
                unsafe layout.read(bytes, count: rectangle.width, into: &scratch)
            }
            input.skip(rowBytes)
            let y = rectangle.endY - left
            frame.write(scratch, into: RFBRectangle(x: rectangle.x, y: y, width: rectangle.width, height: 1))
            left -= 1
        }
        progress.left = left
        return left == 0
    }

    static func copy(
        _ rectangle: RFBRectangle, from input: inout ByteQueue, to frame: inout RFBFrameBuffer
    ) throws(RFBError) -> Bool {
        guard input.count >= 4 else { return false }
        let source = RFBRectangle(
            x: input.u16(at: 0), y: input.u16(at: 2), width: rectangle.width, height: rectangle.height)
        input.skip(4)
        guard frame.bounds.contains(source) else { throw .outside(source) }
        frame.copy(fromX: source.x, y: source.y, to: rectangle)
        return true
    }

    static func rre(
        _ rectangle: RFBRectangle, _ progress: inout RectangleProgress, from input: inout ByteQueue,
        layout: PixelLayout, to frame: inout RFBFrameBuffer
    ) throws(RFBError) -> Bool {
        if progress.left == nil {
            guard input.count >= 4 + layout.size else { return false }
            let count = Int(input.u32(at: 0))
            // No picture needs more than one for each pixel.
            guard count <= rectangle.area else {
                throw .tooLong(field: "list of subrectangles", limit: rectangle.area, actual: count)
            }
            frame.fill(rectangle, with: input.color(at: 4, layout))
            input.skip(4 + layout.size)
            progress.left = count
        }
        var left = progress.left ?? 0
        while left > 0, input.count >= layout.size + 8 {
            let part = input.rectangle(at: layout.size).offset(x: rectangle.x, y: rectangle.y)
            guard rectangle.contains(part) else { throw .outside(part) }
            // They do not cover each other, or seldom: else few bytes would cost much time.
            progress.painted += part.area
            guard progress.painted <= 4 * rectangle.area else {
                throw .malformed("subrectangles paint a rectangle a few times at most")
            }
            frame.fill(part, with: input.color(at: 0, layout))
            input.skip(layout.size + 8)
            left -= 1
        }
        progress.left = left
        return left == 0
    }

    /// The bits of a tile's first byte.
    private enum Hextile {
        static let raw: UInt8 = 1
        static let background: UInt8 = 2
        static let foreground: UInt8 = 4
        static let parts: UInt8 = 8
        static let colored: UInt8 = 16
    }

    static func hextile(
        _ rectangle: RFBRectangle, _ progress: inout RectangleProgress, from input: inout ByteQueue,
        layout: PixelLayout, to frame: inout RFBFrameBuffer, scratch: inout [UInt32]
    ) throws(RFBError) -> Bool {
        let columns = (rectangle.width + 15) / 16
        let tiles = columns * ((rectangle.height + 15) / 16)
        scratch.reserve(256)
        while progress.tile < tiles {
            let (x, y) = (progress.tile % columns * 16, progress.tile / columns * 16)
            let tile = RFBRectangle(
                x: rectangle.x + x, y: rectangle.y + y, width: min(16, rectangle.width - x),
                height: min(16, rectangle.height - y))
            guard input.count >= 1 else { return false }
            let mask = input[0]
            if mask & Hextile.raw != 0 {
                let bytes = tile.area * layout.size
                guard input.count >= 1 + bytes else { return false }
                unsafe input.withBytes(at: 1, count: bytes) { bytes in
                    unsafe layout.read(bytes, count: tile.area, into: &scratch)
                }
                frame.write(scratch, into: tile)
                input.skip(1 + bytes)
                (progress.background, progress.foreground) = (nil, nil)
            } else {
                guard try hextileParts(tile, mask, &progress, from: &input, layout: layout, to: &frame) else {
                    return false
                }
            }
            progress.tile += 1
        }
        return true
    }

    private static func hextileParts(
        _ tile: RFBRectangle, _ mask: UInt8, _ progress: inout RectangleProgress, from input: inout ByteQueue,
        layout: PixelLayout, to frame: inout RFBFrameBuffer
    ) throws(RFBError) -> Bool {
        let isColored = mask & Hextile.colored != 0
        let hasParts = mask & Hextile.parts != 0
        let backgroundSize = mask & Hextile.background != 0 ? layout.size : 0
        let foregroundSize = mask & Hextile.foreground != 0 ? layout.size : 0
        var offset = 1 + backgroundSize + foregroundSize
        let partSize = isColored ? layout.size + 2 : 2
        var count = 0
        if hasParts {
            guard input.count >= offset + 1 else { return false }
            count = Int(input[offset])
            offset += 1
        }
        guard input.count >= offset + count * partSize else { return false }
        if backgroundSize > 0 { progress.background = input.color(at: 1, layout) }
        if foregroundSize > 0 { progress.foreground = input.color(at: 1 + backgroundSize, layout) }
        guard let background = progress.background else { throw .malformed("a tile has a background") }
        frame.fill(tile, with: background)
        for index in 0..<count {
            let at = offset + index * partSize
            let color: UInt32
            if isColored {
                color = input.color(at: at, layout)
            } else {
                guard let foreground = progress.foreground else { throw .malformed("a tile has a foreground") }
                color = foreground
            }
            let (place, size) = (input[at + partSize - 2], input[at + partSize - 1])
            let part = RFBRectangle(
                x: tile.x + Int(place >> 4), y: tile.y + Int(place & 15), width: Int(size >> 4) + 1,
                height: Int(size & 15) + 1)
            guard tile.contains(part) else { throw .outside(part) }
            frame.fill(part, with: color)
        }
        if isColored { progress.foreground = nil }
        input.skip(offset + count * partSize)
        return true
    }
}

extension ByteQueue {
    func color(at offset: Int, _ layout: PixelLayout) -> UInt32 {
        unsafe withBytes(at: offset, count: layout.size) { bytes in
            guard let base = bytes.baseAddress else { return 0 }
            return unsafe layout.color(at: base)
        }
    }
}

extension [UInt32] {
    /// Makes room for `count` elements.
    mutating func reserve(_ count: Int) {
        if self.count < count { self += [UInt32](repeating: 0, count: count - self.count) }
    }
}
