/// A picture as a phone's screen capture gives it (420v): a plane of luma, and one of blue and red difference in turn.
///
/// Each plane has a stride of its own; values are in the limited range. It is somebody else's memory, to be read.
@safe package struct BiplanarView: ~Escapable {
    /// Width and height of luma.
    package let size: PixelSize
    let luma: UnsafePointer<UInt8>
    let chroma: UnsafePointer<UInt8>
    let lumaStride: Int
    let chromaStride: Int

    /// The picture in two planes; `nil` when they do not hold all of it or the strides are shorter than its rows.
    @_lifetime(copy luma, copy chroma)
    package init?(size: PixelSize, luma: RawSpan, lumaStride: Int, chroma: RawSpan, chromaStride: Int) {
        let (width, height) = ((size.width + 1) / 2 * 2, (size.height + 1) / 2)
        guard size.area > 0, Self.holds(luma.byteCount, stride: lumaStride, row: size.width, rows: size.height),
            Self.holds(chroma.byteCount, stride: chromaStride, row: width, rows: height),
            let luma = unsafe luma.withUnsafeBytes({ $0.baseAddress }),
            let chroma = unsafe chroma.withUnsafeBytes({ $0.baseAddress })
        else { return nil }
        self.size = size
        unsafe self.luma = luma.assumingMemoryBound(to: UInt8.self)
        unsafe self.chroma = chroma.assumingMemoryBound(to: UInt8.self)
        self.lumaStride = lumaStride
        self.chromaStride = chromaStride
    }

    private static func holds(_ bytes: Int, stride: Int, row: Int, rows: Int) -> Bool {
        let (before, isOver) = stride.multipliedReportingOverflow(by: rows - 1)
        guard stride >= row, !isOver else { return false }
        let (end, isBeyond) = before.addingReportingOverflow(row)
        return !isBeyond && end <= bytes
    }
}
