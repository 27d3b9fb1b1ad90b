package import KithAPI
import KithWire
import Synchronization

/// How far a transfer has come: told by the tasks that do it, asked by the one that reports.
package final class TransferProgress: Sendable {
    private struct State {
        var progress = Files.Progress()
        var skippedCount: UInt64 = 0
        var failure: KithError?
        var isAllSent = false
    }

    /// So many entries are kept between two reports; beyond, they are only counted.
    private static let maximumSkipped = 100

    private let state = Mutex(State())

    package init() {}

    /// Adds bytes and files done.
    func add(bytes: Int = 0, files: UInt64 = 0) {
        state.withLock { state in
            state.progress.bytes &+= UInt64(bytes)
            state.progress.files &+= files
        }
    }

    /// Says what is being copied now.
    func begin(_ path: [[UInt8]]) {
        let current = Files.Path(bytes: [UInt8](path.joined(separator: [UInt8(ascii: "/")])))
        state.withLock { $0.progress.current = current }
    }

    /// Adds to what there is to do.
    func addTotal(bytes: UInt64, files: UInt64) {
        state.withLock { state in
            state.progress.totalBytes = (state.progress.totalBytes ?? 0) &+ bytes
            state.progress.totalFiles = (state.progress.totalFiles ?? 0) &+ files
        }
    }

    /// What there is to do, once it has been counted.
    var total: (bytes: UInt64, files: UInt64)? {
        state.withLock { state in
            guard let bytes = state.progress.totalBytes else { return nil }
            return (bytes, state.progress.totalFiles ?? 0)
        }
    }

    /// Notes something left out.
    ///
    /// The first that is a failure makes the whole copy one, at its end.
    func skip(_ skipped: Files.Skipped) {
        state.withLock { state in
            state.skippedCount &+= 1
            if state.progress.skipped.count < Self.maximumSkipped { state.progress.skipped.append(skipped) }
            if skipped.failure.code != .unsupported, skipped.failure.code != .conflict, state.failure == nil {
                state.failure = skipped.failure.error
            }
        }
    }

    /// The first failure among what was left out, with their number.
    var failure: (error: KithError, count: UInt64)? {
        state.withLock { state in state.failure.map { ($0, state.skippedCount) } }
    }

    /// Whether the end of the transfer has been sent, so that an acknowledgement may come.
    var isAllSent: Bool {
        get { state.withLock { $0.isAllSent } }
        set { state.withLock { $0.isAllSent = newValue } }
    }

    /// What is to be reported now; entries left out are reported once.
    package func report() -> Files.Progress {
        state.withLock { state in
            defer { state.progress.skipped = [] }
            return state.progress
        }
    }
}
