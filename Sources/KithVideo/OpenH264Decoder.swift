#if Video && os(Linux) && canImport(COpenH264)
import COpenH264
import KithPixels

/// Cisco's OpenH264, for frames of anybody.
///
/// A frame is looked into before the library sees it (``H264Frame``), so that what it allocates is known by the size that
/// was agreed. Each decoder of the library sees one pair of parameter sets in its life: new ones get a new decoder. After
/// an error the decoder is given up, and only a key frame begins another.
@safe final class OpenH264Decoder: VideoDecoder {
    private var decoder: UnsafeMutablePointer<ISVCDecoder?>?
    private var parameters: [UInt8] = []

    deinit { end() }

    private func end() {
        if let decoder = unsafe decoder { unsafe kith_h264_decoder_end(decoder) }
        unsafe decoder = nil
        parameters = []
    }

    func decode(_ frame: [UInt8], into planes: inout PlanarBuffer) throws(VideoError) {
        do {
            let parts = try H264Frame(frame, size: planes.size)
            try unsafe decode(frame, by: decoder(for: parts), into: &planes)
        } catch {
            end()
            throw error
        }
    }

    private func decoder(for frame: H264Frame) throws(VideoError) -> UnsafeMutablePointer<ISVCDecoder?> {
        if let decoder = unsafe decoder, frame.parameters.isEmpty || frame.parameters == parameters {
            return unsafe decoder
        }
        guard !frame.parameters.isEmpty else { throw .needsKeyFrame }
        end()
        guard let new = unsafe kith_h264_decoder() else { throw .failed }
        unsafe decoder = new
        parameters = frame.parameters
        return unsafe new
    }

    private func decode(
        _ frame: [UInt8], by decoder: UnsafeMutablePointer<ISVCDecoder?>, into planes: inout PlanarBuffer
    ) throws(VideoError) {
        var picture = kith_h264_picture()
        let isDone = unsafe frame.withUnsafeBufferPointer { frame in
            unsafe kith_h264_decode(decoder, frame.baseAddress, Int32(frame.count), &picture)
        }
        guard isDone else { throw .failed }
        guard picture.width == planes.size.width, picture.height == planes.size.height else {
            throw .wrongSize
        }
        let chroma = planes.chromaSize
        guard picture.luma_stride >= planes.size.width, picture.chroma_stride >= chroma.width,
            let luma = unsafe picture.planes.0, let blue = unsafe picture.planes.1, let red = unsafe picture.planes.2
        else { throw .failed }
        unsafe planes.copy(
            luma: luma, stride: Int(picture.luma_stride), blue: blue, red: red, chromaStride: Int(picture.chroma_stride)
        )
    }
}
#endif
