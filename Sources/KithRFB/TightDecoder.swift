/// Decodes Tight (rfbproto, Tight Encoding): a colour, a JPEG image, or filtered pixels in one of four zlib streams.
struct TightDecoder: ~Copyable, Sendable {
    private var stream0 = InflateStream()
    private var stream1 = InflateStream()
    private var stream2 = InflateStream()
    private var stream3 = InflateStream()
    private let jpeg: (any JPEGCodec)?
    private var palette = [UInt32](repeating: 0, count: 256)
    private var row: [UInt32] = []

    /// The first byte's upper half.
    private enum Kind {
        static let fill: UInt8 = 8
        static let jpeg: UInt8 = 9
    }

    private enum Filter: UInt8 {
        case copy = 0
        case palette = 1
        case gradient = 2
    }

    init(jpeg: (any JPEGCodec)?) { self.jpeg = jpeg }

    /// Decodes a rectangle inside the picture when all of it is at hand, and answers true then.
    mutating func decode(
        _ rectangle: RFBRectangle, from input: inout ByteQueue, layout: PixelLayout, to frame: inout RFBFrameBuffer
    ) throws(RFBError) -> Bool {
        guard input.count >= 1 else { return false }
        let control = input[0]
        switch control >> 4 {
        case Kind.fill:
            guard input.count >= 1 + layout.size else { return false }
            frame.fill(rectangle, with: input.color(at: 1, layout))
            input.skip(1 + layout.size)
            reset(control)
            return true
        case Kind.jpeg:
            guard let (length, start) = Self.length(input, at: 1), input.count >= start + length else { return false }
            input.skip(start)
            reset(control)
            let image = input.take(length)
            guard let jpeg else { throw .unsupported("JPEG") }
            guard !rectangle.isEmpty else { return true }
            guard let colors = jpeg.decode(image, width: rectangle.width, height: rectangle.height) else {
                throw .malformed("an image has the size of its rectangle")
            }
            frame.write(colors, into: rectangle)
            return true
        case 0...7:
            return try decodeBasic(rectangle, control, from: &input, layout, to: &frame)
        default:
            throw .malformed("a rectangle of Tight has a kind that exists")
        }
    }

    private mutating func reset(_ control: UInt8) {
        if control & 1 != 0 { stream0.reset() }
        if control & 2 != 0 { stream1.reset() }
        if control & 4 != 0 { stream2.reset() }
        if control & 8 != 0 { stream3.reset() }
    }

    /// A length in one to three bytes and the offset behind it; `nil` when it is not whole.
    private static func length(_ input: ByteQueue, at offset: Int) -> (length: Int, end: Int)? {
        var length = 0
        for index in 0..<3 {
            guard input.count > offset + index else { return nil }
            let byte = Int(input[offset + index])
            length |= (index == 2 ? byte : byte & 0x7F) << (7 * index)
            if index == 2 || byte & 0x80 == 0 { return (length, offset + index + 1) }
        }
        return nil
    }

    private mutating func decodeBasic(
        _ rectangle: RFBRectangle, _ control: UInt8, from input: inout ByteQueue, _ layout: PixelLayout,
        to frame: inout RFBFrameBuffer
    ) throws(RFBError) -> Bool {
        var offset = 1
        var filter = Filter.copy
        if control & 0x40 != 0 {
            guard input.count >= 2 else { return false }
            guard let named = Filter(rawValue: input[1]) else { throw .malformed("a filter of Tight exists") }
            filter = named
            offset = 2
        }
        var paletteCount = 0
        if filter == .palette {
            guard input.count >= 3 else { return false }
            paletteCount = Int(input[2]) + 1
            guard paletteCount >= 2 else { throw .malformed("a palette has two colours or more") }
            guard input.count >= 3 + paletteCount * layout.size else { return false }
            for index in 0..<paletteCount { palette[index] = input.color(at: 3 + index * layout.size, layout) }
            offset = 3 + paletteCount * layout.size
        }
        if filter == .gradient, layout.size == 1 { throw .malformed("a gradient has pixels of 16 or 32 bits") }
        let rowBytes =
            switch paletteCount {
            case 0: rectangle.width * layout.size
            case 2: (rectangle.width + 7) / 8
            default: rectangle.width
            }
        let total = rowBytes * rectangle.height
        var data: [UInt8]
        if total < 12 {
            guard input.count >= offset + total else { return false }
            input.skip(offset)
            reset(control)
            data = input.take(total)
            try unfilter(rectangle, filter, paletteCount, rowBytes, layout, to: &frame) { _, row in
                row.replaceSubrange(0..<rowBytes, with: data.prefix(rowBytes))
                data.removeFirst(rowBytes)
            }
            return true
        }
        guard let (length, start) = Self.length(input, at: offset), input.count >= start + length else { return false }
        input.skip(start)
        reset(control)
        data = input.take(length)
        let index = control >> 4 & 3
        try withStream(index) { stream throws(RFBError) in try stream.begin(data) }
        try unfilter(rectangle, filter, paletteCount, rowBytes, layout, to: &frame) { decoder, row throws(RFBError) in
            row.removeAll(keepingCapacity: true)
            try decoder.withStream(index) { stream throws(RFBError) in try stream.read(rowBytes, to: &row) }
        }
        try withStream(index) { stream throws(RFBError) in try stream.finish() }
        return true
    }

    private mutating func withStream(
        _ index: UInt8, _ body: (inout InflateStream) throws(RFBError) -> Void
    ) throws(RFBError) {
        switch index {
        case 0: try body(&stream0)
        case 1: try body(&stream1)
        case 2: try body(&stream2)
        default: try body(&stream3)
        }
    }

    private mutating func unfilter(
        _ rectangle: RFBRectangle, _ filter: Filter, _ paletteCount: Int, _ rowBytes: Int, _ layout: PixelLayout,
        to frame: inout RFBFrameBuffer,
        _ next: (inout TightDecoder, inout [UInt8]) throws(RFBError) -> Void
    ) throws(RFBError) {
        guard !rectangle.isEmpty else { return }
        var bytes = [UInt8](repeating: 0, count: rowBytes)
        row.reserve(rectangle.width)
        var gradient = GradientFilter(width: filter == .gradient ? rectangle.width : 0, layout: layout)
        for y in rectangle.y..<rectangle.endY {
            try next(&self, &bytes)
            switch filter {
            case .copy:
                unsafe bytes.withUnsafeBufferPointer { bytes in
                    unsafe layout.read(bytes, count: rectangle.width, into: &row)
                }
            case .palette:
                for x in 0..<rectangle.width {
                    let entry = paletteCount == 2 ? Int(bytes[x >> 3] >> UInt8(7 - x & 7) & 1) : Int(bytes[x])
                    guard entry < paletteCount else { throw .malformed("a colour is one of the palette") }
                    row[x] = palette[entry]
                }
            case .gradient:
                gradient.decode(bytes, into: &row)
            }
            frame.write(row, into: RFBRectangle(x: rectangle.x, y: y, width: rectangle.width, height: 1))
        }
    }
}

/// The filter that sends each part of a colour as its difference from what its neighbours predict.
struct GradientFilter {
    private let layout: PixelLayout
    private let width: Int
    /// The parts of the row above, three for each pixel behind three zeros.
    private var above: [Int32]
    private var current: [Int32]

    init(width: Int, layout: PixelLayout) {
        self.width = width
        self.layout = layout
        above = [Int32](repeating: 0, count: 3 * (width + 1))
        current = above
    }

    /// Decodes the next row.
    mutating func decode(_ bytes: [UInt8], into colors: inout [UInt32]) {
        let format = layout.format
        let maxima = [Int32(format.redMax), Int32(format.greenMax), Int32(format.blueMax)]
        let shifts = [format.redShift, format.greenShift, format.blueShift]
        for x in 0..<width {
            let difference = unsafe bytes.withUnsafeBufferPointer { bytes in
                guard let base = bytes.baseAddress else { return UInt32(0) }
                return unsafe layout.value(at: base + x * layout.size)
            }
            var value: UInt32 = 0
            for part in 0..<3 {
                let at = 3 * (x + 1) + part
                let predicted = min(max(current[at - 3] + above[at] - above[at - 3], 0), maxima[part])
                let sent = Int32(truncatingIfNeeded: difference >> shifts[part]) & maxima[part]
                current[at] = (predicted + sent) & maxima[part]
                value |= UInt32(current[at]) << shifts[part]
            }
            colors[x] = format.color(of: value)
        }
        swap(&above, &current)
    }
}
