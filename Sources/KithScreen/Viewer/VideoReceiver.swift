import KithAPI
import KithPixels
import KithVideo
import KithWire

/// The viewer's end of a session's video: gathers the parts of frames, and decodes them.
///
/// What cannot be decoded is not drawn, and a frame that needs no other is asked for, once: it comes, as the stream loses
/// nothing. When three such frames fail too, no more video is asked for. What it holds is bounded by the screen's size
/// (``VideoLayout/check(on:)``) and the codec's limits, whatever a host says.
struct VideoReceiver: ~Copyable {
    /// A frame that has come whole.
    struct Frame {
        /// When its first part came.
        var first: UInt64
        /// Where ``planes`` are to be drawn; `nil` when it could not be decoded.
        var layout: VideoLayout?
        /// What to say to the host.
        var request: ScreenReply?
    }

    private enum Phase {
        case decoding
        /// A key frame is missing; `isAsked` once the host was told.
        case broken(isAsked: Bool)
        /// Nothing can be decoded.
        case stopped(isAsked: Bool)
    }

    private let decoder: (any VideoDecoder)?
    private var number: UInt64?
    private var parts: [UInt8] = []
    private var first: UInt64 = 0
    private var phase = Phase.broken(isAsked: false)
    private var failedKeys = 0
    /// The picture decoded last.
    private(set) var planes = PlanarBuffer(size: PixelSize(width: 0, height: 0))

    /// A receiver that has no decoder refuses all video.
    init(_ decoder: (any VideoDecoder)?) { self.decoder = decoder }

    /// Takes in a part; the whole frame with its last one.
    ///
    /// - Throws: `KithError` `.invalid` for what no host of ours says: the session is over.
    mutating func received(
        _ part: ScreenUpdate.Video, on screen: PixelSize, at now: UInt64
    ) throws(KithError) -> Frame? {
        guard let decoder else { throw KithError(.invalid, "The other device sent video that was not asked for.") }
        if number != part.number {
            // A frame that was given up has no last part.
            parts = []
            number = part.number
            first = now
        }
        guard parts.count + part.bytes.bytes.count <= VideoCodec.frameLimit else {
            throw KithError(.invalid, "The other device sent a frame of video that is too large.")
        }
        parts += part.bytes.bytes
        guard let bytes = part.layout?.bytes else { return nil }
        defer {
            parts = []
            number = nil
        }
        let layout: VideoLayout
        do {
            layout = try VideoLayout(bytes)
            try layout.check(on: screen)
        } catch {
            throw KithError(.invalid, "The other device sent video that makes no sense.", cause: error)
        }
        return decode(layout, by: decoder)
    }

    private mutating func decode(_ layout: VideoLayout, by decoder: any VideoDecoder) -> Frame {
        if case .stopped = phase { return Frame(first: first, request: request) }
        if case .broken = phase, !layout.isKey { return Frame(first: first, request: request) }
        do throws(VideoError) {
            guard VideoCodec.isAllowed(layout.picture.size) else { throw .unsupportedSize }
            if planes.size != layout.picture.size { planes = PlanarBuffer(size: layout.picture.size) }
            try decoder.decode(parts, into: &planes)
            phase = .decoding
            failedKeys = 0
            return Frame(first: first, layout: layout)
        } catch {
            if layout.isKey { failedKeys += 1 }
            phase = failedKeys < 3 ? .broken(isAsked: false) : .stopped(isAsked: false)
            return Frame(first: first, request: request)
        }
    }

    /// What the host has still to be told.
    private var request: ScreenReply? {
        switch phase {
        case .broken(isAsked: false): .keyFrame
        case .stopped(isAsked: false): .exactOnly
        default: nil
        }
    }

    /// Takes in that the host is told.
    mutating func requested() {
        switch phase {
        case .broken: phase = .broken(isAsked: true)
        case .stopped: phase = .stopped(isAsked: true)
        case .decoding: break
        }
    }
}
