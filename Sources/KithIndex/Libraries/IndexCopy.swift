import Foundation
import GRDB
import KithWire

/// Makes a consistent copy of a database that is in use.
enum IndexCopy {
    /// Writes the copy, compacted, as of one moment; nobody who reads or writes the database waits for it.
    ///
    /// - Throws: what the database says; `CancellationError`.
    static func make(
        of path: String, at copy: String, progress: @escaping @Sendable (LibraryArchive.Progress) -> Void
    ) async throws {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.label = "kith.index.copy"
        configuration.busyMode = .timeout(5)
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        defer {
            // It has been read, and nothing else.
            try? queue.close()
        }
        let pages = try await queue.read { database in
            let count = try Int64.fetchOne(database, sql: "PRAGMA page_count") ?? 0
            let size = try Int64.fetchOne(database, sql: "PRAGMA page_size") ?? 0
            return UInt64(clamping: count.multipliedReportingOverflow(by: size).partialValue)
        }
        // Nobody else may look into it, not even while it grows.
        let made = unsafe open(copy, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard made >= 0 else { throw SystemFailure() }
        close(made)
        progress(LibraryArchive.Progress(phase: .copying, bytes: 0, total: pages))
        // It grows as it is written, which tells how far it is.
        let watching = Task(name: "kith export") {
            while !Task.isCancelled {
                // Cancelled, it has told enough.
                try? await Task.sleep(for: .milliseconds(200))
                var info = stat()
                guard unsafe stat(copy, &info) == 0 else { continue }
                progress(
                    LibraryArchive.Progress(
                        phase: .copying, bytes: min(UInt64(max(0, info.st_size)), pages), total: pages))
            }
        }
        defer { watching.cancel() }
        do {
            try await withTaskCancellationHandler {
                try await queue.writeWithoutTransaction { database in
                    try database.execute(sql: "VACUUM INTO ?", arguments: [copy])
                }
            } onCancel: {
                queue.interrupt()
            }
        } catch {
            try Task.checkCancellation()
            throw error
        }
        progress(LibraryArchive.Progress(phase: .copying, bytes: pages, total: pages))
    }
}
