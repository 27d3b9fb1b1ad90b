import KithWire

/// A viewer's picture, made from the messages of a ``TileEncoder``.
///
/// It takes messages of anybody: nothing is drawn outside the picture, and what is held stays below the area limit's
/// pixels (four bytes each), one rectangle (512 KiB) and the stream's window (1 MiB), whatever a message says of itself.
/// A message has at most 65,536 rectangles and at most ``passes`` times the
/// picture's pixels.
package struct TileDecoder: ~Copyable {
    /// The most times that a message may write each pixel, on average.
    package static let passes = 4

    /// The picture, opaque; without pixels until the first message.
    package private(set) var picture = PixelBuffer(size: PixelSize(width: 0, height: 0))
    private let areaLimit: Int
    private var expander: StreamExpander?
    private var colours: [UInt32] = Array(repeating: PixelBuffer.opaque, count: 256)
    private var scratch: [UInt8] = []
    private var isFailed = true

    /// A decoder of pictures of at most `areaLimit` pixels.
    package init(areaLimit: Int = 1 << 24) { self.areaLimit = areaLimit }

    /// Applies the next message and returns what may have changed.
    ///
    /// After an error the picture is a mixture of before and after, and only a message that starts anew is taken: the
    /// host's ``TileEncoder/startAnew()`` makes one.
    package mutating func decode(_ message: [UInt8]) throws(TileError) -> PixelRegion {
        var reader = ByteReader(message)
        let wasFailed = isFailed
        isFailed = true
        guard let first: UInt8 = try? reader.integer() else { throw .truncated }
        let flags = TileFormat.Flags(rawValue: first)
        guard first & ~3 == 0 else { throw .malformed("an unknown flag") }
        if flags.contains(.start) {
            try start(&reader, isCompressed: flags.contains(.compressed))
        } else if wasFailed {
            throw .failed
        }
        guard let rest = try? reader.span(reader.remaining) else { throw .truncated }
        var changed = PixelRegion()
        var body = TileBody(input: rest)
        // Out of the optional and back, so that the stream is used in place.
        var expander = self.expander.take()
        guard flags.contains(.compressed) == (expander != nil) else {
            throw flags.contains(.compressed) && !StreamCompressor.isAvailable
                ? .unsupported : .malformed("compressed now and then")
        }
        try apply(&body, &expander, changed: &changed)
        self.expander = consume expander
        if flags.contains(.start) { changed = PixelRegion(picture.size.bounds) }
        isFailed = false
        return changed
    }

    /// Draws the regions of a frame of video, whose coded picture the planes are, and returns what has changed.
    ///
    /// After an error nothing is drawn.
    package mutating func draw(
        _ layout: VideoLayout, from planes: borrowing PlanarBuffer
    ) throws(TileError) -> PixelRegion {
        guard planes.size == layout.picture.size else { throw .malformed("planes of another size") }
        try layout.check(on: picture.size)
        var changed = PixelRegion()
        for region in layout.regions {
            let place = region.moved(x: layout.picture.x, y: layout.picture.y)
            ColourConversion.convert(planes, region, into: &picture, at: (place.x, place.y))
            changed.insert(place)
        }
        return changed
    }

    private mutating func start(_ reader: inout ByteReader, isCompressed: Bool) throws(TileError) {
        guard let width = try? reader.varint(), let height = try? reader.varint() else { throw .truncated }
        guard width > 0, height > 0 else { throw .malformed("a picture without pixels") }
        guard width <= TileFormat.sideLimit, height <= TileFormat.sideLimit, width * height <= UInt64(areaLimit) else {
            throw .tooMuch
        }
        let size = PixelSize(width: Int(width), height: Int(height))
        if picture.size == size {
            picture.fill(size.bounds, with: PixelBuffer.opaque)
        } else {
            // The old pixels go first: never two pictures at a time.
            picture = PixelBuffer(size: PixelSize(width: 0, height: 0))
            picture = PixelBuffer(size: size)
        }
        for index in colours.indices { colours[index] = PixelBuffer.opaque }
        expander = isCompressed ? StreamExpander() : nil
    }

    private mutating func apply(
        _ body: inout TileBody, _ expander: inout StreamExpander?, changed: inout PixelRegion
    ) throws(TileError) {
        var budget = picture.size.area * Self.passes
        var commands = 0
        while true {
            guard let command = TileFormat.Command(rawValue: try body.byte(&expander)) else {
                throw .malformed("an unknown command")
            }
            if command == .end { break }
            let rectangle = try rectangle(&body, &expander)
            budget -= rectangle.area
            commands += 1
            guard budget >= 0, commands <= TileFormat.commandLimit else { throw .tooMuch }
            switch command {
            case .end: break
            case .solid: picture.fill(rectangle, with: try body.colour(&expander))
            case .copy:
                let (x, y) = (try body.number(&expander), try body.number(&expander))
                let source = PixelRectangle(x: x, y: y, width: rectangle.width, height: rectangle.height)
                guard picture.size.bounds.contains(source) else { throw .outside }
                picture.copy(source, to: (rectangle.x, rectangle.y))
            case .indices, .runs, .pixels:
                guard rectangle.area <= TileFormat.rectangleLimit else { throw .tooMuch }
                if command != .pixels { try readColours(&body, &expander) }
                switch command {
                case .runs: try drawRuns(rectangle, &body, &expander)
                case .indices: try drawIndices(rectangle, &body, &expander)
                default: try drawPixels(rectangle, &body, &expander)
                }
            }
            changed.insert(rectangle)
        }
        try body.finish(&expander)
    }

    private func rectangle(
        _ body: inout TileBody, _ expander: inout StreamExpander?
    ) throws(TileError) -> PixelRectangle {
        let (x, y) = (try body.number(&expander), try body.number(&expander))
        let (width, height) = (try body.number(&expander), try body.number(&expander))
        let rectangle = PixelRectangle(x: x, y: y, width: width, height: height)
        guard !rectangle.isEmpty, picture.size.bounds.contains(rectangle) else { throw .outside }
        return rectangle
    }

    private mutating func readColours(
        _ body: inout TileBody, _ expander: inout StreamExpander?
    ) throws(TileError) {
        let count = try body.number(&expander)
        guard count <= 256 else { throw .malformed("more colours than a palette has") }
        for _ in 0..<count { colours[Int(try body.byte(&expander))] = try body.colour(&expander) }
    }

    private mutating func drawRuns(
        _ rectangle: PixelRectangle, _ body: inout TileBody, _ expander: inout StreamExpander?
    ) throws(TileError) {
        var (x, y) = (0, 0)
        while y < rectangle.height {
            let colour = colours[Int(try body.byte(&expander))]
            var left = try body.varint(&expander)
            guard left > 0, left <= UInt64((rectangle.height - y) * rectangle.width - x) else {
                throw .malformed("a run beyond its rectangle")
            }
            while left > 0 {
                let count = Int(min(left, UInt64(rectangle.width - x)))
                unsafe picture.rows.row(rectangle.y + y, rectangle.x + x).update(repeating: colour, count: count)
                left -= UInt64(count)
                x += count
                if x == rectangle.width { (x, y) = (0, y + 1) }
            }
        }
    }

    private mutating func drawIndices(
        _ rectangle: PixelRectangle, _ body: inout TileBody, _ expander: inout StreamExpander?
    ) throws(TileError) {
        try read(rectangle.area, &body, &expander)
        let (rows, stride) = (picture.rows, picture.rows.stride)
        unsafe scratch.withUnsafeBufferPointer { indices in
            unsafe colours.withUnsafeBufferPointer { colours in
                var position = 0
                for x in rectangle.columns {
                    var pixel = unsafe rows.row(rectangle.y, x)
                    for _ in 0..<rectangle.height {
                        unsafe pixel.pointee = colours[Int(indices[position])]
                        unsafe pixel += stride
                        position += 1
                    }
                }
            }
        }
    }

    private mutating func drawPixels(
        _ rectangle: PixelRectangle, _ body: inout TileBody, _ expander: inout StreamExpander?
    ) throws(TileError) {
        try read(rectangle.area * 3, &body, &expander)
        let rows = picture.rows
        unsafe scratch.withUnsafeMutableBytes { unsafe PixelPrediction.restore($0, to: rectangle, of: rows) }
    }

    /// Reads so many bytes into the scratch memory, which grows to one rectangle's at the most.
    private mutating func read(
        _ count: Int, _ body: inout TileBody, _ expander: inout StreamExpander?
    ) throws(TileError) {
        if scratch.count < count { scratch = Array(repeating: 0, count: count) }
        let isRead = unsafe scratch.withUnsafeMutableBytes { unsafe body.read(count, &expander, into: $0) }
        guard isRead else { throw .truncated }
    }
}
