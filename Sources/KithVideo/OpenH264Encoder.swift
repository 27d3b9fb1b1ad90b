#if Video && os(Linux) && canImport(COpenH264)
import COpenH264
import KithPixels

/// Cisco's OpenH264, for what moves on a screen.
///
/// One thread and one slice; no frame is left out. The library counts in bits per second of a steady rate, so that this
/// rate is only a scale here, and the time between two frames does not matter.
@safe final class OpenH264Encoder: VideoEncoder {
    /// The frames that the library takes for a second.
    private static let rate = 30

    private var encoder: UnsafeMutablePointer<ISVCEncoder?>?
    private var size = PixelSize(width: 0, height: 0)
    private var wantsKey = true
    private var number: Int64 = 0

    var frameBytes = 40_000 {
        didSet {
            guard frameBytes != oldValue, let encoder = unsafe encoder else { return }
            // One that it refuses leaves the one before.
            _ = unsafe kith_h264_encoder_rate(encoder, bits)
        }
    }

    deinit { if let encoder = unsafe encoder { unsafe kith_h264_encoder_end(encoder) } }

    /// The bits of a second of frames.
    private var bits: Int32 { Int32(clamping: min(max(frameBytes, 500), 1 << 20) * 8 * Self.rate) }

    func requestKeyFrame() { wantsKey = true }

    func encode(_ planes: borrowing PlanarBuffer) throws(VideoError) -> VideoFrame {
        guard VideoCodec.isAllowed(planes.size) else { throw .unsupportedSize }
        if planes.size != size { end() }
        let encoder = try unsafe started(planes.size)
        var frame = kith_h264_frame()
        let (width, height, isKey, time) = (Int32(size.width), Int32(size.height), wantsKey, number * 33)
        let isDone = planes.withPlanes { luma, blue, red in
            unsafe luma.withUnsafeBytes { luma in
                unsafe blue.withUnsafeBytes { blue in
                    unsafe red.withUnsafeBytes { red in
                        unsafe kith_h264_encode(
                            encoder, width, height, luma.bindMemory(to: UInt8.self).baseAddress,
                            blue.bindMemory(to: UInt8.self).baseAddress, red.bindMemory(to: UInt8.self).baseAddress,
                            time,
                            isKey, &frame)
                    }
                }
            }
        }
        number += 1
        guard isDone else {
            end()
            throw .failed
        }
        let bytes = bytes(of: frame)
        guard bytes.count <= VideoCodec.frameLimit else {
            end()
            throw .failed
        }
        wantsKey = false
        return VideoFrame(bytes: bytes, isKey: frame.is_key)
    }

    private func started(_ size: PixelSize) throws(VideoError) -> UnsafeMutablePointer<ISVCEncoder?> {
        if let encoder = unsafe encoder { return unsafe encoder }
        guard let new = unsafe kith_h264_encoder(Int32(size.width), Int32(size.height), Float(Self.rate), bits) else {
            throw .unsupportedSize
        }
        unsafe encoder = new
        self.size = size
        wantsKey = true
        return unsafe new
    }

    private func end() {
        if let encoder = unsafe encoder { unsafe kith_h264_encoder_end(encoder) }
        unsafe encoder = nil
        wantsKey = true
    }

    private func bytes(of frame: kith_h264_frame) -> [UInt8] {
        var bytes: [UInt8] = []
        unsafe withUnsafePointer(to: frame) { frame in
            for index in 0..<Int(unsafe frame.pointee.count) {
                let piece = unsafe kith_h264_piece(frame, Int32(index))
                unsafe bytes.append(
                    contentsOf: UnsafeBufferPointer(start: piece.bytes, count: Int(piece.length)))
            }
        }
        return bytes
    }
}
#endif
