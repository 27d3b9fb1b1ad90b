import Dispatch

/// Threads for work that blocks on a disk, so that the threads of the network never do.
final class DiskExecutor: TaskExecutor {
    private let queue = DispatchQueue(label: "kith.files", qos: .userInitiated, attributes: .concurrent)

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { unsafe job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }

    /// Runs work that blocks, off the caller's thread, in the caller's task.
    func run<Result: Sendable>(_ work: @escaping @Sendable () async throws -> Result) async throws -> Result {
        try await withTaskExecutorPreference(self) { try await work() }
    }
}
