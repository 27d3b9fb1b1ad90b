import Foundation
import KithIO
package import KithWire
package import Logging

/// The queue of a device, which several services add to and share.
///
/// Each service tells the kinds of its jobs when it is made; the queue is opened by the first call that needs it. It runs
/// what waits from ``start()`` on, and closes with ``stop()``; after that it can be started again.
package actor JobBoard {
    private let path: String
    private let logger: Logger
    private let kinds = JobKinds()
    private var opened: JobQueue?
    private var isStopped = false

    /// Makes the board of a queue in a database at `path`, whose folder is there.
    package init(path: String, logger: Logger) {
        self.path = path
        self.logger = logger
    }

    /// Adds kinds of jobs, also when another service has had the queue opened already.
    package nonisolated func register(_ more: [any JobKind]) { kinds.add(more) }

    /// The queue, opened now if it is not; it runs nothing before ``start()``.
    ///
    /// - Throws: `.closed` once it was stopped, and as `JobQueue`.
    package func queue() throws(KithError) -> JobQueue {
        if let opened { return opened }
        guard !isStopped else { throw KithError(.closed, "This device stops.") }
        let queue = try JobQueue(path: path, sharing: kinds, logger: logger)
        opened = queue
        return queue
    }

    /// True when there is a queue already, with jobs in it or not.
    package var isThere: Bool { opened != nil || FileManager.default.fileExists(atPath: path) }

    /// Runs what waits, from now on.
    ///
    /// - Throws: as ``queue()``.
    @discardableResult
    package func start() async throws(KithError) -> JobQueue {
        let queue = try queue()
        try await queue.start()
        return queue
    }

    /// Lets jobs be run again after ``stop()``.
    package func reopen() { isStopped = false }

    /// Ends what runs at its last checkpoint, and closes the queue.
    package func stop() async {
        isStopped = true
        let queue = opened
        opened = nil
        await queue?.stop()
    }
}
