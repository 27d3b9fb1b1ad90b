import KithPixels

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Recorded screens: a file of frames of 1920 × 1080 pixels, four bytes each, one behind the other.
struct Frames {
    private var bytes: [UInt8] = []
    private static let frame = Screens.size.area * 4

    /// None without a path.
    init(path: String?) {
        guard let path, let file = unsafe fopen(path, "rb") else { return }
        defer { unsafe fclose(file) }
        var chunk = [UInt8](repeating: 0, count: Self.frame)
        while unsafe fread(&chunk, 1, chunk.count, file) == chunk.count { bytes += chunk }
    }

    /// The number of whole frames.
    var count: Int { bytes.count / Self.frame }

    /// One of them; `nil` behind the last.
    func picture(_ index: Int) -> PixelBuffer? {
        guard index < count else { return nil }
        var picture = PixelBuffer(size: Screens.size)
        let frame = Array(bytes[index * Self.frame..<(index + 1) * Self.frame])
        guard let view = unsafe PixelView(frame.span.bytes, size: Screens.size, stride: Screens.size.width * 4) else {
            return nil
        }
        picture.update(Screens.size.bounds, from: view)
        return picture
    }
}
