/// The pixels of a screen or a picture, in memory of its own.
///
/// A pixel is 32 bits, 0xAARRGGBB as a number: the bytes B, G, R, A (X11's and Apple's order). In a screen the fourth
/// byte means nothing: it is ignored when pixels are compared and 255 in what a decoder makes. Rows are `stride` bytes
/// apart, which may be more than the width needs.
@safe package struct PixelBuffer: ~Copyable, @unchecked Sendable {  // the memory has this one owner
    /// Width and height.
    package let size: PixelSize
    /// The bytes from one row to the next.
    package let stride: Int
    let rows: PixelRows

    /// The byte that a screen's pixels do not use.
    package static let opaque: UInt32 = 0xFF00_0000

    /// An opaque black picture; `stride` is in bytes, a multiple of four, the width's when it is not said.
    package init(size: PixelSize, stride: Int? = nil) {
        let stride = stride ?? size.width * 4
        precondition(
            stride % 4 == 0 && stride >= size.width * 4, "a row of \(size.width) pixels has its place in a stride")
        self.size = size
        self.stride = stride
        let count = max(1, stride / 4 * size.height)
        let base = UnsafeMutablePointer<UInt32>.allocate(capacity: count)
        unsafe base.initialize(repeating: Self.opaque, count: count)
        unsafe rows = PixelRows(base: base, stride: stride / 4, size: size)
    }

    deinit { unsafe rows.base.deallocate() }

    /// One pixel.
    package subscript(x x: Int, y y: Int) -> UInt32 {
        get {
            precondition(size.bounds.contains(x: x, y: y), "a pixel of the picture")
            return unsafe rows.row(y, x).pointee
        }
        set {
            precondition(size.bounds.contains(x: x, y: y), "a pixel of the picture")
            unsafe rows.row(y, x).pointee = newValue
        }
    }

    /// The picture to be read, for as long as the buffer is borrowed.
    package var view: PixelView {
        @_lifetime(borrow self) get { unsafe _overrideLifetime(PixelView(rows: rows), borrowing: self) }
    }

    /// Fills a rectangle with one colour; what lies outside the picture is left out.
    package mutating func fill(_ rectangle: PixelRectangle, with colour: UInt32) {
        let inside = rectangle.intersection(size.bounds)
        for y in inside.rows { unsafe rows.row(y, inside.x).update(repeating: colour, count: inside.width) }
    }

    /// Moves a rectangle's pixels to `target`, as if by way of a copy: the two may overlap.
    ///
    /// Both lie in the picture.
    package mutating func copy(_ source: PixelRectangle, to target: (x: Int, y: Int)) {
        rows.copy(source, to: target)
    }

    /// Takes over the pixels of a rectangle, opaque, from a view that has it too.
    package mutating func update(_ rectangle: PixelRectangle, from other: borrowing PixelView) {
        rows.update(rectangle, from: other.rows)
    }

    /// True when a rectangle has the same colours in both; the fourth byte is not compared.
    package func hasSameColours(as other: borrowing PixelView, in rectangle: PixelRectangle? = nil) -> Bool {
        guard rectangle != nil || size == other.size else { return false }
        let rectangle = rectangle ?? size.bounds
        precondition(size.bounds.contains(rectangle) && other.size.bounds.contains(rectangle), "pixels of both")
        return rectangle.rows.allSatisfy { y in
            unsafe PixelKernels.isEqual(
                rows.row(y, rectangle.x), other.rows.row(y, rectangle.x), count: rectangle.width)
        }
    }

    /// Gives the bytes of the picture, padding included, to `body`.
    package func withBytes<Result>(_ body: (RawSpan) -> Result) -> Result {
        let count = stride * size.height
        return body(unsafe UnsafeRawBufferPointer(start: rows.base, count: count).bytes)
    }
}

/// Pixels of somebody else, to be read: a captured screen in shared memory, or a ``PixelBuffer``.
@safe package struct PixelView: ~Escapable {
    /// Width and height.
    package var size: PixelSize { rows.size }
    let rows: PixelRows

    /// The picture in `bytes`, whose rows are `stride` bytes apart; `nil` when the bytes do not hold all of it or do not
    /// lie on a multiple of four.
    @_lifetime(copy bytes)
    package init?(_ bytes: RawSpan, size: PixelSize, stride: Int) {
        let (row, rowOver) = size.width.multipliedReportingOverflow(by: 4)
        let (all, allOver) = stride.multipliedReportingOverflow(by: max(0, size.height - 1))
        let (end, endOver) = all.addingReportingOverflow(row)
        guard !rowOver, !allOver, !endOver, stride >= row, stride % 4 == 0, size.area == 0 || end <= bytes.byteCount,
            let start = unsafe bytes.withUnsafeBytes({ $0.baseAddress }), UInt(bitPattern: start) % 4 == 0
        else { return nil }
        // Nothing is written through a view.
        let base = unsafe UnsafeMutableRawPointer(mutating: start).assumingMemoryBound(to: UInt32.self)
        unsafe rows = PixelRows(base: base, stride: stride / 4, size: size)
    }

    @_lifetime(immortal)
    init(rows: PixelRows) { self.rows = rows }

    /// One pixel.
    package subscript(x x: Int, y y: Int) -> UInt32 {
        precondition(size.bounds.contains(x: x, y: y), "a pixel of the picture")
        return unsafe rows.row(y, x).pointee
    }

    /// Gives the pixels of a row in some columns, which lie in the picture, to `body`.
    package func withRow<Result>(
        _ y: Int, _ columns: Range<Int>, _ body: (UnsafeBufferPointer<UInt32>) throws -> Result
    ) rethrows -> Result {
        precondition(
            size.bounds.contains(PixelRectangle(columns: columns, rows: y..<y + 1)), "pixels of the picture")
        return try unsafe body(UnsafeBufferPointer(start: rows.row(y, columns.lowerBound), count: columns.count))
    }
}

extension PixelView {
    /// Copies the pixels of a rectangle, opaque, to the same place of another picture whose rows are `stride` bytes apart.
    ///
    /// - Returns: false, and nothing is copied, when either picture has not all of the rectangle, or `bytes` do not lie on a
    ///   multiple of four.
    package func copy(_ rectangle: PixelRectangle, into bytes: UnsafeMutableRawBufferPointer, stride: Int) -> Bool {
        guard let start = bytes.baseAddress, UInt(bitPattern: start) % 4 == 0, stride >= 0, stride % 4 == 0,
            size.bounds.contains(rectangle), rectangle.maxX * 4 <= stride
        else { return false }
        let (before, isTooMuch) = stride.multipliedReportingOverflow(by: max(0, rectangle.maxY - 1))
        guard !isTooMuch, rectangle.isEmpty || before <= bytes.count - rectangle.maxX * 4 else { return false }
        let base = unsafe start.assumingMemoryBound(to: UInt32.self)
        let target = unsafe PixelRows(
            base: base, stride: stride / 4, size: PixelSize(width: rectangle.maxX, height: rectangle.maxY))
        target.update(rectangle, from: rows)
        return true
    }
}

/// Rows of pixels in memory that whoever made this keeps alive; kernels work on them.
@safe struct PixelRows {
    let base: UnsafeMutablePointer<UInt32>
    /// Pixels, not bytes, from one row to the next.
    let stride: Int
    let size: PixelSize

    @inline(__always) func row(_ y: Int, _ x: Int = 0) -> UnsafeMutablePointer<UInt32> {
        unsafe base + (y * stride + x)
    }

    func copy(_ source: PixelRectangle, to target: (x: Int, y: Int)) {
        let destination = source.moved(x: target.x - source.x, y: target.y - source.y)
        precondition(size.bounds.contains(source) && size.bounds.contains(destination), "pixels of the picture")
        for index in 0..<source.height {
            // Downwards the last row goes first, so that no row is overwritten before it was read.
            let line = target.y > source.y ? source.height - 1 - index : index
            unsafe row(target.y + line, target.x).update(from: row(source.y + line, source.x), count: source.width)
        }
    }

    func update(_ rectangle: PixelRectangle, from other: PixelRows) {
        precondition(
            size.bounds.contains(rectangle) && other.size.bounds.contains(rectangle), "pixels of both pictures")
        for y in rectangle.rows {
            let (target, source) = unsafe (row(y, rectangle.x), other.row(y, rectangle.x))
            for x in 0..<rectangle.width { unsafe target[x] = source[x] | PixelBuffer.opaque }
        }
    }

    /// True when a rectangle of at most a tile has more colours than text has, however its edges are smoothed.
    func hasManyColours(_ rectangle: PixelRectangle) -> Bool {
        precondition(size.bounds.contains(rectangle), "pixels of the picture")
        let (slots, limit) = (512, 160)
        return unsafe withUnsafeTemporaryAllocation(of: UInt32.self, capacity: slots) { seen in
            unsafe seen.initialize(repeating: 0)
            var (count, last) = (0, UInt32(0))
            for y in rectangle.rows {
                let pixels = unsafe row(y, rectangle.x)
                for x in 0..<rectangle.width {
                    let colour = unsafe pixels[x] | PixelBuffer.opaque
                    guard colour != last else { continue }
                    last = colour
                    var slot = Int((colour &* 0x9E37_79B1) >> 23)
                    while unsafe seen[slot] != 0, unsafe seen[slot] != colour { slot = (slot + 1) % slots }
                    guard unsafe seen[slot] == 0 else { continue }
                    unsafe seen[slot] = colour
                    count += 1
                    if count > limit { return true }
                }
            }
            return false
        }
    }
}
