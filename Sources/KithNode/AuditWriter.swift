import KithIO
import Logging
import Synchronization

/// Writes the audit log in the background, in the order of the calls, and all waiting records at once, so that many
/// calls cost the disk no more than one.
///
/// A refusal is written before its caller learns of it (``settle()``). Allowed calls are written within moments; while
/// ``backlog`` records wait, further calls wait, too (``room()``).
final class AuditWriter: Sendable {
    /// The most records that may wait before calls wait, too.
    static let backlog = 1_024

    private struct State {
        var waiting: [AuditRecord] = []
        var isWriting = false
        /// The number of records added so far, and the number of them written.
        var (added, written): (UInt64, UInt64) = (0, 0)
        /// The tasks that wait until so many records are written.
        var waiters: [(count: UInt64, promise: Promise<Void>)] = []
        /// The number of lines lost, and the reason for the last.
        var lost: (lines: Int, why: String)?
    }

    private let directory: any DeviceDirectory
    private let logger: Logger
    private let state = Mutex(State())
    /// Held while writing, so that records keep their order.
    private let writing = Mutex(())

    init(_ directory: any DeviceDirectory, logger: Logger) {
        self.directory = directory
        self.logger = logger
    }

    /// The number of lines lost since the log could last be written, and the reason; `nil` while it can.
    var lost: (lines: Int, why: String)? { state.withLock { $0.lost } }

    /// Adds a record, which is written soon.
    func write(_ record: AuditRecord) {
        let starts = state.withLock { state in
            state.waiting.append(record)
            state.added += 1
            defer { state.isWriting = true }
            return !state.isWriting
        }
        guard starts else { return }
        Task(name: "kith audit") {
            while true {
                self.flush()
                let isDone = self.state.withLock { state in
                    guard state.waiting.isEmpty else { return false }
                    state.isWriting = false
                    return true
                }
                if isDone { return }
            }
        }
    }

    /// Waits while too many records do.
    func room() async {
        if state.withLock({ $0.waiting.count >= Self.backlog }) { await waitUntilWritten() }
    }

    /// Waits until everything added so far is written, or could not be.
    func waitUntilWritten() async {
        let promise = Promise<Void>()
        let mustWait = state.withLock { state in
            guard state.written < state.added else { return false }
            state.waiters.append((state.added, promise))
            return true
        }
        if mustWait { await promise.value() }
    }

    /// Writes everything that waits.
    func flush() {
        writing.withLock { _ in
            let records = state.withLock { state in
                defer { state.waiting = [] }
                return state.waiting
            }
            guard !records.isEmpty else { return }
            do {
                try directory.record(records)
                state.withLock { $0.lost = nil }
            } catch {
                state.withLock { $0.lost = (($0.lost?.lines ?? 0) + records.count, "\(error)") }
                logger.error(
                    "the audit log could not be written",
                    metadata: ["lines": "\(records.count)", "error": "\(error)"])
            }
            let done = state.withLock { state in
                state.written += UInt64(records.count)
                let index = state.waiters.partition { $0.count <= state.written }
                defer { state.waiters.removeSubrange(index...) }
                return Array(state.waiters[index...])
            }
            for waiter in done { waiter.promise.fulfil(()) }
        }
    }
}
