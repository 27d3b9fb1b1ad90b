import Foundation
import KithPixels
import KithVideo
import KithWire

/// The files of a recording, one after the other: each size of the screen has its own.
struct RecordingFiles: ~Copyable {
    /// The most files of a recording, so that a screen that changes its size for ever does not fill a folder.
    static let limit = 99

    private let options: ScreenRecorder.Options
    private var file: RecordingFile?
    private var writer: MatroskaWriter?
    private var size = PixelSize(width: 0, height: 0)
    /// The number of the last name that was tried.
    private var number = 1
    private var start: ContinuousClock.Instant?
    private var fileStart = ContinuousClock.now
    /// What has been written.
    private(set) var summary = ScreenRecorder.Summary()

    /// Begins with a file that was made before.
    init(_ options: ScreenRecorder.Options, first file: consuming RecordingFile?) {
        self.options = options
        self.file = file
    }

    /// Writes a frame of a screen of that size.
    mutating func write(_ frame: VideoFrame, of size: PixelSize, at now: ContinuousClock.Instant) throws(KithError) {
        if self.size != size || writer?.takes(frame) != true {
            try endFile(at: now)
            try begin(with: frame, of: size, at: now)
        }
        let output: MatroskaWriter.Output?
        do throws(VideoError) {
            output = try writer?.add(frame, at: Self.milliseconds(now - fileStart))
        } catch {
            throw Self.unencoded(error)
        }
        guard let output else { return }
        do throws(KithError) {
            try file?.write(output)
        } catch {
            // What it would write from now on counts bytes that are not there.
            writer = nil
            throw error
        }
        summary.pictures += 1
    }

    private mutating func begin(
        with frame: VideoFrame, of size: PixelSize, at now: ContinuousClock.Instant
    ) throws(KithError) {
        do throws(VideoError) {
            writer = try MatroskaWriter(
                .init(
                    size: size, title: options.title, began: Int64(Date().timeIntervalSince1970),
                    rate: Int(options.rate)),
                keyFrame: frame)
        } catch {
            throw Self.unencoded(error)
        }
        if file == nil { file = try nextFile() }
        self.size = size
        fileStart = now
        if start == nil { start = now }
    }

    /// Ends the file that it is at.
    private mutating func endFile(at now: ContinuousClock.Instant) throws(KithError) {
        guard start != nil, var file = file.take() else { return }
        var failure: KithError?
        if var writer {
            do throws(KithError) {
                try file.write(writer.end(at: Self.milliseconds(now - fileStart)))
            } catch {
                failure = error
            }
        }
        writer = nil
        file.synchronize()
        if file.length > 0 {
            summary.files.append(file.path)
            summary.bytes += file.length
        } else {
            file.removeIfEmpty()
        }
        if let failure { throw failure }
    }

    /// Ends the recording.
    mutating func end(at now: ContinuousClock.Instant) throws(KithError) {
        if let start { summary.seconds = Double(Self.milliseconds(now - start)) / 1_000 }
        defer { file.take()?.removeIfEmpty() }
        try endFile(at: now)
    }

    /// The next name with a number that is free: `lesson-2.mkv` after `lesson.mkv`.
    private mutating func nextFile() throws(KithError) -> RecordingFile {
        let (stem, kind) = ((options.path as NSString).deletingPathExtension, (options.path as NSString).pathExtension)
        while number < Self.limit {
            number += 1
            let path = kind.isEmpty ? "\(stem)-\(number)" : "\(stem)-\(number).\(kind)"
            do throws(RecordingFile.Failure) {
                return try RecordingFile(path: path)
            } catch {
                guard case .system(let reason) = error else { continue }
                throw KithError(.invalid, "Cannot record into \(path): \(reason).")
            }
        }
        throw KithError(
            .exhausted, "The screen changed its size too often: a recording has at most \(Self.limit) files.")
    }

    private static func unencoded(_ error: VideoError) -> KithError {
        KithError(.internal, "The recording could not be encoded.", cause: error)
    }

    private static func milliseconds(_ duration: Duration) -> UInt64 { UInt64(max(.zero, duration) / .milliseconds(1)) }
}
