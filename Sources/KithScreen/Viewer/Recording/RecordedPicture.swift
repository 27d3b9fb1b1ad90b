import KithPixels

/// A screen's picture as a recording has it: with its pointer, and of even width and height.
struct RecordedPicture: ~Copyable {
    /// The size of the screen, in pixels.
    private(set) var size = PixelSize(width: 0, height: 0)
    /// What is encoded; a column or a row more than the screen where that has an odd number of them.
    private(set) var planes = PlanarBuffer(size: PixelSize(width: 0, height: 0))

    /// Takes over what a viewer sees now; false before it sees anything.
    mutating func update(from viewer: ScreenViewer) -> Bool {
        let pointer = viewer.pointer
        // `withPicture` takes a closure, which cannot change what is borrowed.
        var planes = PlanarBuffer(size: PixelSize(width: 0, height: 0))
        swap(&planes, &self.planes)
        let size = viewer.withPicture { picture in
            let even = PixelSize(
                width: picture.size.width + picture.size.width % 2,
                height: picture.size.height + picture.size.height % 2)
            if planes.size != even { planes = PlanarBuffer(size: even) }
            guard !picture.size.bounds.isEmpty else { return picture.size }
            ColourConversion.convert(picture, picture.size.bounds, into: &planes, at: (0, 0))
            if let shape = pointer.shape, let position = pointer.position {
                Self.draw(shape, at: position, over: picture, into: &planes)
            }
            return picture.size
        }
        swap(&planes, &self.planes)
        self.size = size
        return size.area > 0
    }

    /// Draws a pointer whose hot spot is at a place.
    private static func draw(
        _ shape: CursorShape, at position: (x: Int, y: Int), over picture: borrowing PixelView,
        into planes: inout PlanarBuffer
    ) {
        let corner = (x: position.x - shape.hotspot.x, y: position.y - shape.hotspot.y)
        let area = shape.size.bounds.moved(x: corner.x, y: corner.y).intersection(picture.size.bounds)
        guard !area.isEmpty else { return }
        // Four pixels have their colour in common: all of each four.
        let (left, top) = (area.x - area.x % 2, area.y - area.y % 2)
        let part = PixelRectangle(columns: left..<area.maxX + area.maxX % 2, rows: top..<area.maxY + area.maxY % 2)
            .intersection(picture.size.bounds)
        var pixels = PixelBuffer(size: part.size)
        for y in part.rows {
            for x in part.columns {
                var pixel = picture[x: x, y: y]
                if area.contains(x: x, y: y) {
                    pixel = blend(shape.pixels[(y - corner.y) * shape.size.width + x - corner.x], over: pixel)
                }
                pixels[x: x - part.x, y: y - part.y] = pixel
            }
        }
        ColourConversion.convert(pixels.view, part.size.bounds, into: &planes, at: (part.x, part.y))
    }

    /// A pixel with premultiplied alpha over another.
    private static func blend(_ pixel: UInt32, over below: UInt32) -> UInt32 {
        let rest = 255 - (pixel >> 24)
        guard rest < 255 else { return below }
        var result: UInt32 = 0xFF00_0000
        for shift: UInt32 in [16, 8, 0] {
            let channel = (pixel >> shift & 0xFF) + ((below >> shift & 0xFF) * rest + 127) / 255
            result |= min(channel, 255) << shift
        }
        return result
    }
}
