import KithAPI
import KithWire
import Synchronization

/// The combined progress of the transfers of one copy.
final class ProgressBoard: Sendable {
    /// The stream that reports go to.
    typealias Reports = MethodStream<Nothing, Files.Progress>

    private let clock: any Ticker
    private let transfers = Mutex<[TransferProgress]>([])

    /// Makes a board whose reports go by `clock`.
    init(_ clock: any Ticker) { self.clock = clock }

    /// Begins; returns what each of `count` transfers tells its own to.
    func begin(_ count: Int, areOverLinks: Bool = true) -> [TransferProgress] {
        let begun = (0..<count).map { _ in TransferProgress(share: count, isOverLink: areOverLinks) }
        transfers.withLock { $0 = begun }
        return begun
    }

    /// Copies, and reports ten times a second.
    ///
    /// Ends when the caller goes.
    func report(
        to stream: Reports, while copy: @escaping @Sendable () async throws -> Files.Summary
    ) async throws {
        var last = Files.Progress()
        do {
            let summary = try await withThrowingTaskGroup(of: Files.Summary?.self) { group in
                defer { group.cancelAll() }
                group.addTask { try await copy() }
                group.addTask {
                    while true {
                        try await self.clock.sleep(for: .milliseconds(100))
                        let report = self.report()
                        // Not cut short when the copy ends meanwhile: what a report tells is told once.
                        try await Task(name: "files.copy report") { try await stream.send(report) }.value
                    }
                }
                while let part = try await group.next() {
                    if let summary = part { return summary }
                }
                throw CancellationError()
            }
            last = try await lastReport(to: stream)
            last.failure = failure.map { Files.Failure(leftOut: $0.error, count: $0.count) }
            last.summary = summary
        } catch {
            last = try await lastReport(to: stream)
            last.failure = Files.Failure(error)
        }
        try await stream.send(last)
        // A caller that has read the last report may be gone already.
        try? await stream.finish()
    }

    /// Reports until nothing is left but the last word.
    private func lastReport(to stream: Reports) async throws -> Files.Progress {
        while true {
            let report = report()
            if report.changes.isEmpty { return report }
            try await stream.send(report)
        }
    }

    private var all: [TransferProgress] { transfers.withLock { $0 } }

    /// Bytes that have passed over the link, in all attempts: of contents, and of all kinds.
    var moved: (sent: UInt64, wire: UInt64) {
        all.reduce(into: (UInt64(0), UInt64(0))) {
            $0 = ($0.sent.saturatingAdding($1.moved), $0.wire.saturatingAdding($1.wire))
        }
    }

    /// The first failure among what was left out, with the number of all that was.
    var failure: (error: KithError, count: UInt64)? {
        let failures = all.compactMap(\.failure)
        return failures.first.map { ($0.error, failures.reduce(0) { $0 &+ $1.count }) }
    }

    /// Makes the report that is due now; entries left out are reported once.
    ///
    /// The copy waits when nothing of it goes on; what is copied now is told of one transfer.
    func report() -> Files.Progress {
        let all = all
        let running = all.filter { !$0.isDone }
        var report = Files.Progress()
        var waiting: [String] = []
        var current: Files.Path?
        for transfer in all {
            let part = transfer.report()
            report.bytes.saturatingAdd(part.bytes)
            report.sent.saturatingAdd(part.sent)
            report.wire.saturatingAdd(part.wire)
            report.files.saturatingAdd(part.files)
            if let bytes = part.totalBytes { report.totalBytes = (report.totalBytes ?? 0).saturatingAdding(bytes) }
            if let files = part.totalFiles { report.totalFiles = (report.totalFiles ?? 0).saturatingAdding(files) }
            report.skipped += part.skipped
            report.changes += part.changes
            guard running.contains(where: { $0 === transfer }) else {
                report.current = part.current ?? report.current
                continue
            }
            if let reason = part.waiting { waiting.append(reason) } else if current == nil { current = part.current }
        }
        report.current = current ?? report.current
        if !running.isEmpty, waiting.count == running.count { report.waiting = waiting.first }
        return report
    }
}
