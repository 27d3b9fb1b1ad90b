/// A picture of 32-bit pixels, 0xXXRRGGBB, row after row; what the upper byte holds has no meaning.
package struct RFBFrameBuffer: Hashable, Sendable {
    /// The most pixels, unless told otherwise: 7680 × 4320.
    package static let pixelLimit = 7680 * 4320

    package let width: Int
    package let height: Int
    /// The distance from a row to the next, in pixels.
    package let stride: Int
    /// `stride * height` pixels.
    package private(set) var pixels: [UInt32]

    /// A black picture.
    ///
    /// - Throws: ``RFBError/tooLarge(width:height:limit:)`` when it has more than `limit` pixels, or a side above 65535.
    package init(width: Int, height: Int, stride: Int? = nil, limit: Int = Self.pixelLimit) throws(RFBError) {
        let stride = stride ?? width
        guard (0...0xFFFF).contains(width), (0...0xFFFF).contains(height), (width...0x1FFFF).contains(stride),
            stride * height <= limit
        else { throw .tooLarge(width: width, height: height, limit: limit) }
        self.width = width
        self.height = height
        self.stride = stride
        pixels = [UInt32](repeating: 0, count: stride * height)
    }

    /// All of it.
    package var bounds: RFBRectangle { RFBRectangle(x: 0, y: 0, width: width, height: height) }

    /// The colour at a place inside it.
    package subscript(x: Int, y: Int) -> UInt32 {
        get { pixels[index(x, y)] }
        set { pixels[index(x, y)] = newValue }
    }

    private func index(_ x: Int, _ y: Int) -> Int {
        precondition(x >= 0 && y >= 0 && x < width && y < height, "the place is outside the picture")
        return y * stride + x
    }

    /// Passes the pixels to `body`, which may change them in place.
    package mutating func withPixels<Result, Failure: Error>(
        _ body: (UnsafeMutableBufferPointer<UInt32>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        var result: Swift.Result<Result, Failure>?
        unsafe pixels.withUnsafeMutableBufferPointer { buffer in
            do throws(Failure) { result = .success(unsafe try body(buffer)) } catch { result = .failure(error) }
        }
        guard let result else { preconditionFailure("the body was run") }
        return try result.get()
    }

    /// Gives every pixel of a rectangle one colour.
    package mutating func fill(_ rectangle: RFBRectangle, with color: UInt32) {
        guard !rectangle.isEmpty else { return }
        precondition(bounds.contains(rectangle), "the rectangle is outside the picture")
        let stride = stride
        unsafe pixels.withUnsafeMutableBufferPointer { buffer in
            guard let base = buffer.baseAddress else { return }
            for y in rectangle.y..<rectangle.endY {
                unsafe (base + y * stride + rectangle.x).update(repeating: color, count: rectangle.width)
            }
        }
    }

    /// Copies the pixels at `x`, `y` over a rectangle of the same picture; they may overlap.
    package mutating func copy(fromX x: Int, y: Int, to rectangle: RFBRectangle) {
        guard !rectangle.isEmpty else { return }
        let source = RFBRectangle(x: x, y: y, width: rectangle.width, height: rectangle.height)
        precondition(bounds.contains(rectangle) && bounds.contains(source), "the rectangle is outside the picture")
        let stride = stride
        unsafe pixels.withUnsafeMutableBufferPointer { buffer in
            guard let base = buffer.baseAddress else { return }
            for step in 0..<rectangle.height {
                // Downwards from below, so that no row is overwritten before it was read.
                let row = rectangle.y > y ? rectangle.height - 1 - step : step
                unsafe (base + (rectangle.y + row) * stride + rectangle.x)
                    .update(from: base + (y + row) * stride + x, count: rectangle.width)
            }
        }
    }

    /// Writes `colors`, row after row without gaps, over a rectangle.
    package mutating func write(_ colors: [UInt32], into rectangle: RFBRectangle) {
        guard !rectangle.isEmpty else { return }
        precondition(bounds.contains(rectangle), "the rectangle is outside the picture")
        precondition(colors.count >= rectangle.area, "there are fewer colours than pixels")
        let stride = stride
        unsafe pixels.withUnsafeMutableBufferPointer { buffer in
            unsafe colors.withUnsafeBufferPointer { colors in
                guard let base = buffer.baseAddress, let from = colors.baseAddress else { return }
                for row in 0..<rectangle.height {
                    unsafe (base + (rectangle.y + row) * stride + rectangle.x)
                        .update(from: from + row * rectangle.width, count: rectangle.width)
                }
            }
        }
    }

    /// Calls `body` with each row of a rectangle, from the top.
    package func forEachRow(of rectangle: RFBRectangle, _ body: (UnsafeBufferPointer<UInt32>) -> Void) {
        guard !rectangle.isEmpty else { return }
        precondition(bounds.contains(rectangle), "the rectangle is outside the picture")
        unsafe pixels.withUnsafeBufferPointer { buffer in
            for y in rectangle.y..<rectangle.endY {
                let start = y * stride + rectangle.x
                unsafe body(UnsafeBufferPointer(rebasing: buffer[start..<start + rectangle.width]))
            }
        }
    }

    /// The picture in another size: what fits is kept, what is new is black.
    ///
    /// - Throws: ``RFBError/tooLarge(width:height:limit:)``.
    package func resized(width: Int, height: Int, limit: Int) throws(RFBError) -> RFBFrameBuffer {
        var result = try RFBFrameBuffer(width: width, height: height, limit: limit)
        let kept = bounds.intersection(result.bounds)
        var colors: [UInt32] = []
        colors.reserveCapacity(kept.area)
        unsafe forEachRow(of: kept) { unsafe colors.append(contentsOf: $0) }
        result.write(colors, into: kept)
        return result
    }
}
