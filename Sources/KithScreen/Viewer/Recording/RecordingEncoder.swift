import KithPixels
import KithVideo
import KithWire

/// Makes the frames of a recording from what a viewer sees, and writes them.
struct RecordingEncoder: ~Copyable {
    /// The time after which there is a picture that needs no other: players jump to such ones.
    private static let keyInterval = Duration.seconds(10)
    /// The pictures in a row that an encoder may refuse.
    private static let failureLimit = 8

    private let quality: Int
    private var files: RecordingFiles
    private let encoder = VideoCodec.encoder()
    private var picture = RecordedPicture()
    /// True when that is in the recording.
    private var isWritten = false
    private var size = SettledSize()
    private var lastKeyFrame = ContinuousClock.now
    private var failures = 0

    init(_ options: ScreenRecorder.Options, first file: consuming RecordingFile?) {
        quality = Int(options.quality)
        files = RecordingFiles(options, first: file)
    }

    /// What has been written.
    var summary: ScreenRecorder.Summary { files.summary }

    /// Adds what is seen now, if `isPermitted` still holds when it has been taken over.
    ///
    /// - Returns: false when the screen changed its size a moment ago: it is to be called again.
    mutating func add(_ viewer: ScreenViewer, isPermitted: () -> Bool) throws(KithError) -> Bool {
        isWritten = false
        guard picture.update(from: viewer), isPermitted() else { return true }
        let now = ContinuousClock.now
        guard size.isSettled(picture.size, at: now) else { return false }
        guard VideoCodec.isAllowed(picture.planes.size) else {
            throw KithError(
                .unsupported,
                "A screen of \(picture.size.width)×\(picture.size.height) pixels cannot be recorded: a side of a video "
                    + "has 16 to 4,096 pixels, and all of it 3,840 × 2,160 at most. --display N takes one of several.")
        }
        if size.taken != picture.size || now - lastKeyFrame >= Self.keyInterval { encoder?.requestKeyFrame() }
        try write(at: now)
        return true
    }

    private mutating func write(at now: ContinuousClock.Instant) throws(KithError) {
        guard let encoder else { return }
        let bytes = max(20_000, picture.size.area * quality / 1_600)
        if encoder.frameBytes != bytes { encoder.frameBytes = bytes }
        let frame: VideoFrame
        do throws(VideoError) {
            frame = try encoder.encode(picture.planes)
            failures = 0
        } catch {
            // The next one is a key frame, which may be taken.
            failures += 1
            guard failures < Self.failureLimit else {
                throw KithError(.internal, "The recording could not be encoded.", cause: error)
            }
            return
        }
        if frame.isKey { lastKeyFrame = now }
        try files.write(frame, of: picture.size, at: now)
        size.take(picture.size)
        isWritten = true
    }

    /// Ends the recording, `sharpenings` pictures after the last one.
    mutating func end(sharpenings: Int) throws(KithError) {
        let now = ContinuousClock.now
        var failure: KithError?
        if isWritten {
            do throws(KithError) {
                for number in 0..<sharpenings { try write(at: now + .milliseconds(number)) }
            } catch {
                failure = error
            }
        }
        try files.end(at: now + .milliseconds(sharpenings))
        if let failure { throw failure }
    }
}

/// The size of a screen that is recorded, of which passing ones are left out.
struct SettledSize {
    /// The time for which a new size has to last.
    private static let pause = Duration.seconds(1)

    /// The size of what has been written.
    private(set) var taken: PixelSize?
    private var new: (size: PixelSize, since: ContinuousClock.Instant)?

    /// Tells whether a size is the one of what has been written, or has lasted long enough to follow it.
    mutating func isSettled(_ size: PixelSize, at now: ContinuousClock.Instant) -> Bool {
        guard let taken, taken != size else {
            new = nil
            return true
        }
        if new?.size != size { new = (size, now) }
        return new.map { now - $0.since >= Self.pause } ?? false
    }

    /// Takes in that a picture of a size has been written.
    mutating func take(_ size: PixelSize) { taken = size }
}
