import Dispatch

/// Threads for work that blocks on a disk, so that those of the tasks never do.
final class DiskThreads: TaskExecutor {
    static let shared = DiskThreads()

    private let queue = DispatchQueue(label: "kith.index", qos: .utility, attributes: .concurrent)

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { unsafe job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
