import CKithJPEG
import KithRFB

/// JPEG by libjpeg-turbo.
package struct TurboJPEG: JPEGCodec {
    /// `nil` where the library is not installed.
    package init?() {
        guard kith_jpeg_bound(1, 1) > 0 else { return nil }
    }

    /// Tells whether an image of that size is one we touch.
    private func isAllowed(_ width: Int, _ height: Int) -> Bool {
        width > 0 && height > 0 && width <= 0xFFFF && height <= 0xFFFF && width * height <= RFBFrameBuffer.pixelLimit
    }

    package func decode(_ bytes: [UInt8], width: Int, height: Int) -> [UInt32]? {
        guard isAllowed(width, height) else { return nil }
        var pixels = [UInt32](repeating: 0, count: width * height)
        let code = unsafe pixels.withUnsafeMutableBytes { target in
            unsafe bytes.withUnsafeBufferPointer { source in
                unsafe kith_jpeg_decode(
                    source.baseAddress, source.count, Int32(width), Int32(height),
                    target.bindMemory(to: UInt8.self).baseAddress)
            }
        }
        return code == Int32(KITH_JPEG_DONE.rawValue) ? pixels : nil
    }

    package func encode(_ pixels: [UInt32], width: Int, height: Int, quality: Int, halvesColors: Bool) -> [UInt8]? {
        guard isAllowed(width, height), pixels.count >= width * height else { return nil }
        let capacity = kith_jpeg_bound(Int32(width), Int32(height))
        guard capacity > 0 else { return nil }
        var isDone = false
        let bytes = unsafe [UInt8](unsafeUninitializedCapacity: capacity) { target, count in
            var size = 0
            let code = unsafe pixels.withUnsafeBytes { source in
                unsafe kith_jpeg_encode(
                    source.bindMemory(to: UInt8.self).baseAddress, Int32(width), Int32(height), Int32(width * 4),
                    Int32(min(max(quality, 1), 100)), halvesColors ? 1 : 0, target.baseAddress, target.count, &size)
            }
            isDone = code == Int32(KITH_JPEG_DONE.rawValue)
            count = isDone ? size : 0
        }
        return isDone ? bytes : nil
    }
}
