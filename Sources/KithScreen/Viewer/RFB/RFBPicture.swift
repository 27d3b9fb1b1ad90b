import KithAPI
import KithPixels
import KithRFB

/// The session's picture and pointer in the form that the remote framebuffer protocol's encoders read.
struct RFBPicture: Sendable {
    /// 0×0 before the first picture.
    private(set) var frame: RFBFrameBuffer
    /// The displays, and the one that is shown.
    var displays: [Screen.Display] = []
    var shown: UInt32 = 0
    private(set) var pointer: (shape: CursorShape?, x: Int, y: Int) = (nil, 0, 0)

    init() throws(RFBError) { frame = try RFBFrameBuffer(width: 0, height: 0) }

    /// Takes over a region of the picture, or all of one that has another size; returns what has changed.
    mutating func update(_ region: PixelRegion, from picture: borrowing PixelView) throws(RFBError) -> [RFBRectangle] {
        var region = region
        if picture.size.width != frame.width || picture.size.height != frame.height {
            frame = try RFBFrameBuffer(width: picture.size.width, height: picture.size.height)
            region = PixelRegion(picture.size.bounds)
        }
        let stride = frame.stride
        for rectangle in region.rectangles {
            for y in rectangle.rows {
                unsafe picture.withRow(y, rectangle.columns) { row in
                    unsafe frame.withPixels { pixels in
                        let start = y * stride + rectangle.x
                        _ = unsafe UnsafeMutableBufferPointer(rebasing: pixels[start..<start + row.count])
                            .update(fromContentsOf: row)
                    }
                }
            }
        }
        return region.rectangles.map { RFBRectangle(x: $0.x, y: $0.y, width: $0.width, height: $0.height) }
    }

    /// Takes over the pointer; returns the places where it was and is.
    mutating func setPointer(_ shape: CursorShape?, at place: (x: Int, y: Int)?) -> [RFBRectangle] {
        let before = pointerBounds
        pointer = (shape, place?.x ?? pointer.x, place?.y ?? pointer.y)
        return [before, pointerBounds].filter { !$0.isEmpty }
    }

    /// The pointer as it is sent to viewers that draw it; a hidden one has no pixels.
    var cursor: RFBCursor {
        guard let shape = pointer.shape else { return RFBCursor(width: 0, height: 0, hotX: 0, hotY: 0, pixels: []) }
        return RFBCursor(
            width: shape.size.width, height: shape.size.height, hotX: shape.hotspot.x, hotY: shape.hotspot.y,
            pixels: shape.pixels.map { pixel in
                let alpha = pixel >> 24
                guard alpha > 0 else { return 0 }
                return [16, 8, 0].reduce(alpha << 24) { value, shift in
                    value | min(255, ((pixel >> shift & 0xFF) * 255 + alpha / 2) / alpha) << shift
                }
            })
    }

    /// The frame with the pointer drawn on it, for viewers that do not draw it.
    var frameWithPointer: RFBFrameBuffer {
        guard let shape = pointer.shape else { return frame }
        var frame = frame
        let area = pointerBounds
        let corner = (x: pointer.x - shape.hotspot.x, y: pointer.y - shape.hotspot.y)
        for y in area.y..<area.endY {
            for x in area.x..<area.endX {
                let pixel = shape.pixels[(y - corner.y) * shape.size.width + x - corner.x]
                let rest = 255 - pixel >> 24
                let below = frame[x, y]
                frame[x, y] = [16, 8, 0].reduce(UInt32(0)) { value, shift in
                    value | min(255, (pixel >> shift & 0xFF) + ((below >> shift & 0xFF) * rest + 127) / 255) << shift
                }
            }
        }
        return frame
    }

    private var pointerBounds: RFBRectangle {
        guard let shape = pointer.shape else { return RFBRectangle(x: 0, y: 0, width: 0, height: 0) }
        return RFBRectangle(
            x: pointer.x - shape.hotspot.x, y: pointer.y - shape.hotspot.y, width: shape.size.width,
            height: shape.size.height
        ).intersection(frame.bounds)
    }

    /// The monitors in the picture; none when all of it is one.
    var screens: [RFBScreen] {
        guard shown == 0, displays.count > 2 else { return [] }
        let corner = displays.first { $0.number == 0 }?.bounds
        return displays.filter { $0.number > 0 }.prefix(63).compactMap { display in
            let bounds = display.bounds
            let frame = RFBRectangle(
                x: Int(bounds.x) - Int(corner?.x ?? 0), y: Int(bounds.y) - Int(corner?.y ?? 0),
                width: Int(min(bounds.width, 65_535)), height: Int(min(bounds.height, 65_535))
            ).intersection(self.frame.bounds)
            return frame.isEmpty ? nil : RFBScreen(id: display.number, frame: frame)
        }
    }
}
