import Logging
import Synchronization

/// Writes the audit log behind the calls: in their order, without making them wait for the disk.
///
/// A refusal is on the disk before the caller learns of it. What was allowed follows within moments; when more than
/// ``backlog`` wait, the next call writes them itself.
final class AuditWriter: Sendable {
    /// How many records may wait.
    static let backlog = 1024

    private struct State {
        var waiting: [AuditRecord] = []
        var isWriting = false
    }

    private let directory: any DeviceDirectory
    private let logger: Logger
    private let state = Mutex(State())
    /// Held while writing, so that records keep their order.
    private let turn = Mutex(())

    init(_ directory: any DeviceDirectory, logger: Logger) {
        self.directory = directory
        self.logger = logger
    }

    func write(_ record: AuditRecord) {
        let (starts, isFull) = state.withLock { state in
            state.waiting.append(record)
            defer { state.isWriting = true }
            return (!state.isWriting, state.waiting.count > Self.backlog)
        }
        if !record.isAllowed || isFull { flush() }
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

    /// Writes everything that waits.
    func flush() {
        turn.withLock { _ in
            let records = state.withLock { state in
                defer { state.waiting = [] }
                return state.waiting
            }
            for record in records {
                do {
                    try directory.record(record)
                } catch {
                    logger.error("the audit log could not be written", metadata: ["error": "\(error)"])
                }
            }
        }
    }
}
