package import KithPixels

/// Turns planes into the frames of a video, one after the other; has no clock and no thread of its own.
package protocol VideoEncoder: AnyObject {
    /// Makes the next frame one that needs no other.
    func requestKeyFrame()

    /// The bytes that a frame should have on average; key frames have several times as many.
    var frameBytes: Int { get set }

    /// Makes the next frame from planes of even width and height; planes of another size than before begin anew with a
    /// key frame.
    ///
    /// Every frame refers to the one before it, unless it is a key frame: one that is not sent is followed by a request for
    /// one.
    ///
    /// - Throws: ``VideoError``; the next frame is then a key frame.
    func encode(_ planes: borrowing PlanarBuffer) throws(VideoError) -> VideoFrame
}

/// Turns the frames of a video into planes.
package protocol VideoDecoder: AnyObject {
    /// Decodes the next frame into planes, whose size the coded picture must have.
    ///
    /// - Throws: ``VideoError``; only a key frame is taken then, and the planes have what they had, or a part of the frame.
    func decode(_ frame: [UInt8], into planes: inout PlanarBuffer) throws(VideoError)
}

/// A frame of a video: H.264 in the constrained baseline profile (ITU-T H.264, Annex B).
package struct VideoFrame: Hashable, Sendable {
    /// All of its NAL units, each behind a start code; a key frame begins with its parameter sets.
    package var bytes: [UInt8]
    /// True when it needs no other frame.
    package var isKey: Bool

    /// Makes a frame.
    package init(bytes: [UInt8], isKey: Bool) {
        self.bytes = bytes
        self.isKey = isKey
    }
}

/// The reason why there is no frame, or no picture.
@nonexhaustive package enum VideoError: Error, Hashable, Sendable {
    /// The codec takes no picture of this size.
    case unsupportedSize
    /// The frame is not one that a viewer decodes; says why.
    case malformed(String)
    /// The frame is of another size than was agreed.
    case wrongSize
    /// The frame needs others, which were not decoded.
    case needsKeyFrame
    /// The codec failed.
    case failed
}

/// The codecs of this build.
package enum VideoCodec {
    /// The most bytes of a frame; an encoder's that is larger is not sent, a host's not taken.
    package static let frameLimit = 4 << 20
    /// The sides that a coded picture may have, in pixels, and its area.
    package static let sides = 16...4_096
    /// The largest area of a coded picture: 3,840 × 2,160.
    package static let areaLimit = 3_840 * 2_160

    /// True for pictures that are coded: of even sides within the bounds.
    package static func isAllowed(_ size: PixelSize) -> Bool {
        sides.contains(size.width) && sides.contains(size.height) && size.area <= areaLimit
            && size.width % 2 == 0 && size.height % 2 == 0
    }
}
