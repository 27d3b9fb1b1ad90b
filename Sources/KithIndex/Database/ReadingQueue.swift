import Dispatch
import GRDB
import KithIO

/// A thread of its own for what tasks do between waiting for a connection and giving it back.
///
/// GRDB gives the connection of an asynchronous read back in the task that reads. On a thread of the task pool that may
/// never happen: as many callers as the pool has threads may be blocked there, waiting for just that connection, in
/// `DatabasePool.read` or `DatabasePool.close` of functions that do not suspend. Nothing here blocks.
final class ReadingExecutor: TaskExecutor {
    private let queue = DispatchQueue(label: "kith.index.reading", qos: .userInitiated)

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { unsafe job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}

/// The tasks that read at once, and how they do without a connection that others need.
struct ReadingQueue: Sendable {
    /// The most connections for reading.
    static let connections = 5
    /// The most of them that tasks have: one is left for functions that do not suspend, which hold it for an instant.
    static let places = connections - 1

    private let free = AsyncSemaphore(places, limit: places)
    private let executor = ReadingExecutor()

    /// Reads in a transaction of its own, as soon as there is a place: first come, first served.
    ///
    /// - Throws: `CancellationError` when the task is cancelled, while it waits as well as while it reads; what `body`
    ///   throws.
    func read<Result: Sendable>(
        _ database: DatabasePool, _ body: @escaping @Sendable (Database) throws -> Result
    ) async throws -> Result {
        _ = try await free.take()
        defer { free.add(1) }
        return try await withTaskExecutorPreference(executor) { try await database.read(body) }
    }
}

extension FileIndex {
    /// The most tasks that read at once; more wait.
    package static var readingTasks: Int { ReadingQueue.places }

    /// Reads in a transaction of its own, beside others and beside a scan that writes.
    ///
    /// The one way to read in a task: see ``ReadingExecutor``.
    ///
    /// - Throws: as ``ReadingQueue/read(_:_:)``.
    func read<Result: Sendable>(_ body: @escaping @Sendable (Database) throws -> Result) async throws -> Result {
        try await reading.read(database, body)
    }
}
