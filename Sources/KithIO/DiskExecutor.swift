import Dispatch

/// Threads for work that blocks on a disk, or on a keyring, so that the threads of the network never do.
package final class DiskExecutor: TaskExecutor {
    private let queue = DispatchQueue(label: "kith.disk", qos: .userInitiated, attributes: .concurrent)

    /// Makes one; its threads come with the work.
    package init() {}

    /// Takes a part of a task.
    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { unsafe job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }

    /// Runs work that blocks, off the caller's thread, in the caller's task.
    package func run<Result: Sendable>(_ work: @escaping @Sendable () async throws -> Result) async throws -> Result {
        try await withTaskExecutorPreference(self) { try await work() }
    }
}
