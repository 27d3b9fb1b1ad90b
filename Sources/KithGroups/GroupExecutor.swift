import Dispatch

/// Runs one session's work on a thread that may wait for the disk, one piece after the other.
final class GroupExecutor: SerialExecutor {
    private let queue = DispatchQueue(label: "kith.group")

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { unsafe job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }

    func asUnownedSerialExecutor() -> UnownedSerialExecutor { unsafe UnownedSerialExecutor(ordinary: self) }
}
