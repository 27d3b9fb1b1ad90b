package import KithAPI
import KithWire
import Synchronization

/// The progress of a transfer: updated by the tasks that do it, read by the one that reports.
package final class TransferProgress: Sendable {
    private struct State {
        var progress = Files.Progress()
        var skippedCount: UInt64 = 0
        var changes: [Files.Change] = []
        /// The bytes of their paths.
        var changeBytes = 0
        var failure: KithError?
        var isAllSent = false
        var isConnected = false
        var isDone = false
    }

    /// So many entries are kept between two reports; beyond, they are only counted.
    private static let maximumSkipped = 100
    private static let maximumChanges = 100_000
    private static let maximumChangeBytes = 16 << 20
    /// So many bytes of paths go into one report.
    private static let maximumReport = 256 << 10

    private let state = Mutex(State())
    /// One of how many it is: what is kept for a report, and goes into one, is shared.
    private let share: Int

    /// True when bytes pass between the ends over a link; otherwise none of them counts as sent.
    private let isOverLink: Bool

    package init(share: Int = 1, isOverLink: Bool = true) {
        self.share = max(share, 1)
        self.isOverLink = isOverLink
    }

    /// Adds bytes and files done.
    func add(bytes: UInt64 = 0, sent: UInt64 = 0, wire: UInt64 = 0, files: UInt64 = 0) {
        state.withLock { state in
            state.progress.bytes.saturatingAdd(bytes)
            if isOverLink {
                state.progress.sent.saturatingAdd(sent)
                state.progress.wire.saturatingAdd(wire)
            }
            state.progress.files.saturatingAdd(files)
        }
    }

    /// Takes over what another device tells of a copy it does, after what it told before.
    func take(_ report: Files.Progress, after before: Files.Progress) {
        state.withLock { state in
            func replace(_ number: inout UInt64, _ before: UInt64, by report: UInt64) {
                number = number.saturatingSubtracting(before).saturatingAdding(report)
            }
            func replace(_ number: inout UInt64?, _ before: UInt64?, by report: UInt64?) {
                guard let report else { return }
                var sum = number ?? 0
                replace(&sum, before ?? 0, by: report)
                number = sum
            }
            replace(&state.progress.bytes, before.bytes, by: report.bytes)
            replace(&state.progress.files, before.files, by: report.files)
            replace(&state.progress.totalBytes, before.totalBytes, by: report.totalBytes)
            replace(&state.progress.totalFiles, before.totalFiles, by: report.totalFiles)
            state.progress.current = report.current
        }
        for skipped in report.skipped { skip(skipped) }
        for change in report.changes { note(change) }
    }

    /// Notes what is changed at the destination.
    ///
    /// So many are kept between two reports; the one that reports asks again until there are none.
    func note(_ change: Files.Change) {
        state.withLock { state in
            let bytes = state.changeBytes + change.path.bytes.count
            guard state.changes.count < Self.maximumChanges / share, bytes <= Self.maximumChangeBytes / share else {
                return
            }
            state.changes.append(change)
            state.changeBytes = bytes
        }
    }

    /// Begins a transfer anew: what was done by it so far is found done again.
    func restart(from mark: Mark) {
        state.withLock { state in
            state.progress.bytes = mark.bytes
            state.progress.files = mark.files
            state.progress.totalBytes = mark.totalBytes
            state.progress.totalFiles = mark.totalFiles
        }
    }

    /// The progress of the transfers before this one.
    struct Mark {
        fileprivate var bytes: UInt64
        fileprivate var files: UInt64
        fileprivate var totalBytes: UInt64?
        fileprivate var totalFiles: UInt64?
    }

    /// The progress to return to when a transfer has to begin anew.
    var mark: Mark {
        state.withLock { state in
            Mark(
                bytes: state.progress.bytes, files: state.progress.files, totalBytes: state.progress.totalBytes,
                totalFiles: state.progress.totalFiles)
        }
    }

    /// Bytes that have passed over the link, in all attempts: to see whether anything moves.
    var moved: UInt64 { state.withLock { $0.progress.sent } }

    /// Bytes of all kinds that have passed over the link, in all attempts.
    var wire: UInt64 { state.withLock { $0.progress.wire } }

    /// Says why the copy waits.
    func wait(_ reason: String) { state.withLock { $0.progress.waiting = reason } }

    /// Says that the other end has answered: the copy goes on.
    func connected() {
        state.withLock { state in
            state.progress.waiting = nil
            state.isConnected = true
        }
    }

    /// True once the other end has answered at all.
    var isConnected: Bool {
        get { state.withLock { $0.isConnected } }
        set { state.withLock { $0.isConnected = newValue } }
    }

    /// Says what is being copied now.
    func begin(_ path: [UInt8]) {
        let current = Files.Path(bytes: path)
        state.withLock { $0.progress.current = current }
    }

    /// Adds to what there is to do.
    func addTotal(bytes: UInt64, files: UInt64) {
        state.withLock { state in
            state.progress.totalBytes = (state.progress.totalBytes ?? 0).saturatingAdding(bytes)
            state.progress.totalFiles = (state.progress.totalFiles ?? 0).saturatingAdding(files)
        }
    }

    /// The bytes and files there are to do, once they have been counted.
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
            if state.progress.skipped.count < Self.maximumSkipped / share { state.progress.skipped.append(skipped) }
            if !skipped.isHarmless, state.failure == nil { state.failure = skipped.failure.error }
        }
    }

    /// The first failure among what was left out, with their number.
    var failure: (error: KithError, count: UInt64)? {
        state.withLock { state in state.failure.map { ($0, state.skippedCount) } }
    }

    /// True once the end of the transfer has been sent, so that an acknowledgement may come.
    var isAllSent: Bool {
        get { state.withLock { $0.isAllSent } }
        set { state.withLock { $0.isAllSent = newValue } }
    }

    /// True once nothing more comes.
    var isDone: Bool {
        get { state.withLock { $0.isDone } }
        set { state.withLock { $0.isDone = newValue } }
    }

    /// Makes the report that is due now; entries left out are reported once.
    package func report() -> Files.Progress {
        state.withLock { state in
            defer { state.progress.skipped = [] }
            var report = state.progress
            var (count, size) = (0, 0)
            while count < state.changes.count, size < Self.maximumReport / share {
                size += state.changes[count].path.bytes.count + 32
                count += 1
            }
            report.changes = Array(state.changes.prefix(count))
            state.changeBytes -= report.changes.reduce(0) { $0 + $1.path.bytes.count }
            state.changes.removeFirst(count)
            return report
        }
    }
}

extension Files.Failure {
    /// Makes the error of a transfer that left something out: the first reason, and the number of further things.
    init(leftOut error: KithError, count: UInt64) {
        let more = count > 1 ? " (and \(count - 1) more left out)" : ""
        self.init(code: error.code, message: error.message + more)
    }
}
