/// A picture as video codecs take it: a plane of luma and two of chroma of half its width and height (I420), 8 bits each.
///
/// BT.709 in the limited range: luma 16…235, chroma 16…240 around 128. Odd sizes have their chroma rounded up.
@safe package struct PlanarBuffer: ~Copyable, @unchecked Sendable {  // the memory has this one owner
    /// Width and height of luma.
    package let size: PixelSize
    let luma: UnsafeMutablePointer<UInt8>
    let blue: UnsafeMutablePointer<UInt8>
    let red: UnsafeMutablePointer<UInt8>

    /// The width and height of each plane of chroma, and the bytes of one of its rows.
    package var chromaSize: PixelSize { PixelSize(width: (size.width + 1) / 2, height: (size.height + 1) / 2) }

    /// The bytes that a picture of a size takes.
    package static func byteCount(of size: PixelSize) -> Int {
        size.area + 2 * ((size.width + 1) / 2) * ((size.height + 1) / 2)
    }

    /// A black picture.
    package init(size: PixelSize) {
        self.size = size
        let count = Self.byteCount(of: size)
        let chroma = (count - size.area) / 2
        unsafe luma = .allocate(capacity: max(1, count))
        unsafe blue = unsafe luma + size.area
        unsafe red = unsafe blue + chroma
        unsafe luma.initialize(repeating: 16, count: size.area)
        unsafe blue.initialize(repeating: 128, count: 2 * chroma)
    }

    deinit { unsafe luma.deallocate() }

    /// Gives the three planes (luma, blue, red difference) to `body`; their rows follow each other without a gap.
    package func withPlanes<Result>(_ body: (RawSpan, RawSpan, RawSpan) -> Result) -> Result {
        let chroma = chromaSize.area
        return body(
            unsafe UnsafeRawBufferPointer(start: luma, count: size.area).bytes,
            unsafe UnsafeRawBufferPointer(start: blue, count: chroma).bytes,
            unsafe UnsafeRawBufferPointer(start: red, count: chroma).bytes)
    }

    /// Takes over the planes of a codec, whose rows are `stride` and `chromaStride` bytes apart.
    ///
    /// The pointers have all rows of ``size`` and ``chromaSize``; no stride is smaller than a row.
    package mutating func copy(
        luma: UnsafePointer<UInt8>, stride: Int, blue: UnsafePointer<UInt8>, red: UnsafePointer<UInt8>,
        chromaStride: Int
    ) {
        let chroma = chromaSize
        precondition(stride >= size.width && chromaStride >= chroma.width, "rows have their pixels")
        for y in 0..<size.height {
            unsafe (self.luma + y * size.width).update(from: luma + y * stride, count: size.width)
        }
        for y in 0..<chroma.height {
            unsafe (self.blue + y * chroma.width).update(from: blue + y * chromaStride, count: chroma.width)
            unsafe (self.red + y * chroma.width).update(from: red + y * chromaStride, count: chroma.width)
        }
    }
}
