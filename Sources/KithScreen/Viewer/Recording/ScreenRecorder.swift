import KithIO
import KithPixels
import KithVideo
package import KithWire
import Synchronization

/// Keeps what is seen of another screen as a video: Matroska with H.264, the pointer in it.
///
/// A picture is written when something changes, and a few times after that, as each is sharper than the one before; in
/// between there is none, and the last one stays. A screen that changes its size goes on in another file.
package final class ScreenRecorder: Sendable {
    /// The choices of a recording.
    package struct Options: Sendable {
        /// The file; further ones have a number before the extension.
        package var path: String
        /// The title of the video.
        package var title: String
        /// The quality of what moves, 1…100.
        package var quality: UInt8 = 80
        /// The most pictures a second, 1…30.
        package var rate: UInt16 = 30

        /// Records into a file.
        package init(path: String, title: String) {
            self.path = path
            self.title = title
        }
    }

    /// A recording that was made.
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

    /// What another answer of the other end means for a recording.
    enum Permission {
        case unchanged
        /// It begins, or goes on.
        case given
        case withdrawn
    }

    /// The further pictures of a screen that rests.
    private static let sharpenings = 4

    private struct State: ~Copyable {
        /// The number of changes that were seen.
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
        do throws(RecordingFile.Failure) {
            state = Mutex(State(file: try RecordingFile(path: options.path)))
        } catch {
            let reason =
                switch error {
                case .exists: "It is there already. Give the recording another name."
                case .system(let reason): "\(reason)."
                }
            throw KithError(.invalid, "Cannot record into \(options.path). \(reason)")
        }
    }

    deinit { state.withLock { $0.file.take()?.removeIfEmpty() } }

    /// The name of the first file.
    package var path: String { options.path }

    /// The recording, once ``run(_:)`` has returned.
    package var summary: Summary { state.withLock { $0.summary } }

    /// The reason why it ended before the session did; the files have what came before.
    package var failure: KithError? { state.withLock { $0.failure } }

    /// Takes in that the picture or the pointer has changed.
    func noteChange() {
        state.withLock { $0.changes += 1 }
        _ = signal.offered(())
    }

    /// Takes in whether the other end permits a recording; while it does not, nothing is written.
    func permit(_ isPermitted: Bool) -> Permission {
        let isNew = state.withLock { state in
            defer { state.isPermitted = isPermitted }
            return state.isPermitted != isPermitted
        }
        guard isNew else { return .unchanged }
        noteChange()
        return isPermitted ? .given : .withdrawn
    }

    /// Records until the task is cancelled, or the disk takes no more.
    func run(_ viewer: ScreenViewer) async {
        do {
            // Encoding takes milliseconds, and disks block.
            try await DiskExecutor().run { [self] in
                var encoder = RecordingEncoder(options, first: state.withLock { $0.file.take() })
                var failure: KithError?
                do {
                    try await record(viewer, by: &encoder)
                } catch let error as KithError {
                    failure = error
                } catch {
                    // Cancelled: the session is over.
                }
                do throws(KithError) {
                    try encoder.end(sharpenings: failure == nil ? Self.sharpenings : 0)
                } catch {
                    failure = failure ?? error
                }
                let summary = encoder.summary
                state.withLock { state in
                    state.summary = summary
                    state.failure = failure
                }
            }
        } catch {
            // The work above throws nothing.
        }
    }

    private func record(_ viewer: ScreenViewer, by encoder: inout RecordingEncoder) async throws {
        let pause = Duration.seconds(1) / Double(min(max(options.rate, 1), 30))
        var (seen, left) = (0, 0)
        while true {
            let (changes, isPermitted) = state.withLock { ($0.changes, $0.isPermitted) }
            if changes != seen {
                (seen, left) = (changes, Self.sharpenings)
            } else if left > 0, isPermitted {
                left -= 1
            } else {
                _ = try await signal.receive()
                continue
            }
            if isPermitted {
                let isTaken = try encoder.add(viewer) { state.withLock { $0.isPermitted } }
                if !isTaken { left = Self.sharpenings }
            }
            try await Task.sleep(for: pause)
        }
    }
}
