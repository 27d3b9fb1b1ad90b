import CKithSystem
package import KithPixels
package import KithWire

/// A picture in memory that `kith` writes and its window's program reads.
///
/// One task has it. The memory can neither be made smaller nor be written by the other process.
@safe package final class SharedPicture: @unchecked Sendable {  // the one task that has it touches the memory
    /// Width and height.
    package let size: PixelSize
    /// The descriptor, to be handed to the other process.
    package let descriptor: Int32
    private let bytes: UnsafeMutableRawBufferPointer

    /// The most pixels: what a viewer holds.
    package static let areaLimit = 1 << 25

    /// A picture of zeros.
    ///
    /// - Throws: `KithError` `.exhausted` when the system gives no memory, or it would be too large.
    package init(size: PixelSize) throws(KithError) {
        guard size.area <= Self.areaLimit else { throw KithError(.exhausted, "The picture is too large for a window.") }
        let count = max(4, size.area * 4)
        var start: UnsafeMutableRawPointer?
        let result = unsafe kith_shared_memory_make(count, &start)
        guard result >= 0 else { throw KithError(.exhausted, "There is no memory for the window's picture.") }
        self.size = size
        descriptor = result
        unsafe bytes = UnsafeMutableRawBufferPointer(start: start, count: count)
    }

    deinit {
        unsafe kith_shared_memory_unmap(bytes.baseAddress, bytes.count)
        kith_socket_close(descriptor)
    }

    /// Copies the pixels of a region from a picture of the same size; what lies outside is left out.
    package func update(_ region: PixelRegion, from picture: borrowing PixelView) {
        for rectangle in region.rectangles {
            let inside = rectangle.intersection(size.bounds)
            guard !inside.isEmpty else { continue }
            _ = unsafe picture.copy(inside, into: bytes, stride: size.width * 4)
        }
    }
}

/// The same picture as the window's program sees it.
@safe package final class SharedPictureReader: @unchecked Sendable {  // read by the one thread that has it
    /// Width and height.
    package let size: PixelSize
    private let bytes: UnsafeRawBufferPointer

    /// Takes over the descriptor of a picture.
    ///
    /// - Throws: `KithError` `.invalid` when the memory has not so many pixels, or could be taken away.
    package init(descriptor: Int32, size: PixelSize) throws(KithError) {
        defer { kith_socket_close(descriptor) }
        let count = max(4, size.area * 4)
        var start: UnsafeRawPointer?
        guard size.area <= SharedPicture.areaLimit, unsafe kith_shared_memory_map(descriptor, count, &start) == 0 else {
            throw KithError(.invalid, "The memory of a picture makes no sense.")
        }
        self.size = size
        unsafe bytes = UnsafeRawBufferPointer(start: start, count: count)
    }

    deinit { unsafe kith_shared_memory_unmap(bytes.baseAddress, bytes.count) }

    /// Gives `body` the bytes from the first pixel of a rectangle on, which the picture has; rows are `stride` bytes apart.
    package func withBytes<Result>(
        of rectangle: PixelRectangle, _ body: (_ bytes: UnsafeRawBufferPointer, _ stride: Int) -> Result
    ) -> Result {
        precondition(size.bounds.contains(rectangle), "pixels of the picture")
        let stride = size.width * 4
        let start = rectangle.y * stride + rectangle.x * 4
        return unsafe body(UnsafeRawBufferPointer(rebasing: bytes[min(start, bytes.count)...]), stride)
    }
}
