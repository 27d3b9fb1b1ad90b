import Foundation
import KithIO
import KithPixels
import KithVideo
package import KithWire
import Synchronization

/// Keeps what is seen of another screen as a video: Matroska with H.264, the pointer in it.
///
/// A picture is written when something changes, and a few times after that, as each makes the one before it sharper; in
/// between there is none, and the last one stays. A screen that changes its size goes on in another file.
package final class ScreenRecorder: Sendable {
    /// The choices of a recording.
    package struct Options: Sendable {
        /// The file; further ones have a number before the extension.
        package var path: String
        /// What it says that it shows.
        package var title: String
        /// The quality of what moves, 1…100.
        package var quality: UInt8 = 80
        /// The most pictures a second.
        package var rate: UInt16 = 30

        /// Records into a file.
        package init(path: String, title: String) {
            self.path = path
            self.title = title
        }
    }

    /// What came of a recording.
    package struct Summary: Hashable, Sendable, Encodable {
        /// The files, in order; none when nothing was seen.
        package var files: [String] = []
        /// The time from the first picture to the end.
        package var seconds: Double = 0
        /// The pictures in them.
        package var pictures = 0
        /// Their bytes.
        package var bytes: UInt64 = 0
    }

    /// The time after which there is a picture that needs no other: players jump to such ones.
    private static let keyInterval = Duration.seconds(10)
    /// The pictures of a screen that rests.
    private static let refinements = 4

    private struct State: ~Copyable {
        /// Counts the changes that were seen.
        var changes = 0
        var isPermitted = false
        /// The first file, until it is used.
        var file: RecordingFile?
        var summary = Summary()
        var failure: KithError?
    }

    private let options: Options
    private let state: Mutex<State>
    private let signal = BoundedQueue<Void>(capacity: 1)

    /// Makes the file.
    ///
    /// - Throws: `KithError` `.invalid` when it is there already or cannot be made, `.unsupported` when this build has no
    ///   video.
    package init(_ options: Options) throws(KithError) {
        guard VideoCodec.isAvailable else {
            throw KithError(.unsupported, "This build of kith has no video, which a recording is made of.")
        }
        self.options = options
        state = Mutex(State(file: try RecordingFile(path: options.path)))
    }

    deinit { state.withLock { $0.file.take()?.removeIfEmpty() } }

    /// What came of it, once ``run(_:)`` has returned.
    ///
    /// - Throws: `KithError`: why it ended before the session did; the files have what came before.
    package func summary() throws(KithError) -> Summary {
        let (summary, failure) = state.withLock { ($0.summary, $0.failure) }
        if let failure { throw failure }
        return summary
    }

    /// Takes in that the picture or the pointer has changed.
    func noteChange() {
        state.withLock { $0.changes += 1 }
        _ = signal.offered(())
    }

    /// Takes in whether the other end permits a recording; while it does not, nothing is written.
    ///
    /// - Returns: whether that is another answer than before.
    @discardableResult func permit(_ isPermitted: Bool) -> Bool {
        let isNew = state.withLock { state in
            defer { state.isPermitted = isPermitted }
            return state.isPermitted != isPermitted
        }
        if isNew { noteChange() }
        return isNew
    }

    /// Records until the task is cancelled, or the disk takes no more.
    func run(_ viewer: ScreenViewer) async {
        // Encoding takes milliseconds, and disks block.
        try? await DiskExecutor().run { [self] in
            var recording = Recording(options: options, file: state.withLock { $0.file.take() })
            let failure: KithError?
            do {
                try await record(viewer, into: &recording)
                failure = nil
            } catch {
                failure = error as? KithError
            }
            let end = recording.end()
            state.withLock { state in
                state.summary = recording.summary
                state.failure = failure ?? end
            }
        }
    }

    private func record(_ viewer: ScreenViewer, into recording: inout Recording) async throws {
        let pause = Duration.seconds(1) / Double(min(max(options.rate, 1), 30))
        var (seen, sharpenings) = (0, 0)
        while true {
            let (changes, isPermitted) = state.withLock { ($0.changes, $0.isPermitted) }
            if changes != seen {
                (seen, sharpenings) = (changes, Self.refinements)
            } else if sharpenings > 0, isPermitted {
                sharpenings -= 1
            } else {
                _ = try await signal.receive()
                continue
            }
            if isPermitted { try recording.add(viewer, keyInterval: Self.keyInterval) }
            try await Task.sleep(for: pause)
        }
    }
}

/// A recording while it is made: its encoder, and the file it is at.
private struct Recording: ~Copyable {
    private let options: ScreenRecorder.Options
    private var file: RecordingFile?
    private var writer: MatroskaWriter?
    private var picture = RecordedPicture()
    private let encoder = VideoCodec.encoder()
    private var size = PixelSize(width: 0, height: 0)
    private var began: ContinuousClock.Instant?
    private var fileBegan = ContinuousClock.now
    private var keyed = ContinuousClock.now
    private(set) var summary = ScreenRecorder.Summary()

    init(options: ScreenRecorder.Options, file: consuming RecordingFile?) {
        self.options = options
        self.file = file
    }

    /// Adds what is seen now.
    mutating func add(_ viewer: ScreenViewer, keyInterval: Duration) throws {
        guard picture.update(from: viewer) else { return }
        guard let encoder, VideoCodec.isAllowed(picture.planes.size) else {
            throw KithError(
                .unsupported,
                "A screen of \(picture.size.width)×\(picture.size.height) pixels cannot be recorded. "
                    + "One display of it may: --display 1.")
        }
        let now = ContinuousClock.now
        if size != picture.size || now - keyed >= keyInterval { encoder.requestKeyFrame() }
        let bytes = max(20_000, picture.size.area * Int(options.quality) / 1_600)
        if encoder.frameBytes != bytes { encoder.frameBytes = bytes }
        let frame: VideoFrame
        do throws(VideoError) {
            frame = try encoder.encode(picture.planes)
        } catch {
            throw KithError(.internal, "The recording could not be encoded.", cause: error)
        }
        if frame.isKey { keyed = now }
        try write(frame, at: now)
    }

    private mutating func write(_ frame: VideoFrame, at now: ContinuousClock.Instant) throws {
        if size != picture.size || writer?.takes(frame) != true {
            if let failure = endFile(at: now) { throw failure }
            size = picture.size
            writer = try MatroskaWriter(
                .init(size: size, title: options.title, began: Int64(Date().timeIntervalSince1970)), keyFrame: frame)
            if file == nil { file = try RecordingFile(path: nextPath()) }
            fileBegan = now
        }
        if began == nil { began = now }
        guard let output = try writer?.add(frame, at: Self.milliseconds(now - fileBegan)) else { return }
        try file?.write(output)
        summary.pictures += 1
    }

    /// Ends the file that it is at; says what failed.
    private mutating func endFile(at now: ContinuousClock.Instant) -> KithError? {
        guard var writer, var file = file.take() else { return nil }
        self.writer = nil
        var failure: KithError?
        do throws(KithError) {
            try file.write(writer.end(at: Self.milliseconds(now - fileBegan)))
        } catch {
            failure = error
        }
        file.synchronize()
        summary.files.append(file.path)
        summary.bytes += file.length
        return failure
    }

    /// Ends the recording; says what failed.
    mutating func end() -> KithError? {
        let now = ContinuousClock.now
        if let began { summary.seconds = Double(Self.milliseconds(now - began)) / 1_000 }
        defer { file.take()?.removeIfEmpty() }
        return endFile(at: now)
    }

    /// The first name with a number that is free: `lesson-2.mkv` after `lesson.mkv`.
    private func nextPath() -> String {
        let (stem, kind) = ((options.path as NSString).deletingPathExtension, (options.path as NSString).pathExtension)
        return (2...).lazy.map { kind.isEmpty ? "\(stem)-\($0)" : "\(stem)-\($0).\(kind)" }
            .first { !FileManager.default.fileExists(atPath: $0) } ?? options.path
    }

    private static func milliseconds(_ duration: Duration) -> UInt64 { UInt64(max(.zero, duration) / .milliseconds(1)) }
}
