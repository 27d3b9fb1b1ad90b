import KithAPI
import KithPixels

/// The pixels of a display as they were captured last, in memory that a source writes into.
///
/// One task has it: it captures, then encodes.
@safe final class CaptureBuffer: @unchecked Sendable {  // the one task that has it touches the memory
    let bounds: Screen.Rectangle
    let size: PixelSize
    private let bytes: UnsafeMutableRawBufferPointer

    /// A black picture of the size of `bounds`.
    init(_ bounds: Screen.Rectangle) {
        self.bounds = bounds
        size = PixelSize(width: Int(bounds.width), height: Int(bounds.height))
        unsafe bytes = .allocate(byteCount: max(4, size.area * 4), alignment: 64)
        unsafe bytes.initializeMemory(as: UInt8.self, repeating: 0)
    }

    deinit { unsafe bytes.deallocate() }

    /// Copies a rectangle of the display from the source; what lies outside the display is left out.
    func capture(_ rectangle: PixelRectangle, from source: any ScreenSource) async throws {
        let area = rectangle.intersection(size.bounds)
        guard !area.isEmpty else { return }
        let start = (area.y * size.width + area.x) * 4
        let end = ((area.maxY - 1) * size.width + area.maxX) * 4
        let target = unsafe UnsafeMutableRawBufferPointer(rebasing: bytes[start..<end])
        try await unsafe source.capture(
            Screen.Rectangle(
                x: bounds.x + Int32(area.x), y: bounds.y + Int32(area.y), width: UInt32(area.width),
                height: UInt32(area.height)),
            into: target, stride: size.width * 4)
    }

    /// Gives the picture to `body`.
    func withPicture<Result>(_ body: (borrowing PixelView) -> Result) -> Result {
        let span = unsafe UnsafeRawBufferPointer(bytes).bytes
        guard let view = PixelView(span, size: size, stride: size.width * 4) else {
            preconditionFailure("the memory holds its picture")
        }
        return body(view)
    }
}
