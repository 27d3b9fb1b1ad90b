import Foundation
import Glibc
import Synchronization

/// A thread inside a network namespace, as a task executor.
///
/// What runs on it, and the threads and sockets that this makes, belong to that namespace for good.
final class Namespace: TaskExecutor, @unchecked Sendable {  // `jobs` is touched under `condition` only
    private let condition = NSCondition()
    private var jobs: [UnownedJob] = []
    private var isOver = false

    /// Enters the namespace that the file at `path` stands for.
    init(path: String) throws {
        let entered = DispatchSemaphore(value: 0)
        let failure = Mutex<String?>(nil)
        let thread = Thread { [self] in
            failure.withLock { $0 = Self.enter(path) }
            entered.signal()
            run()
        }
        thread.name = "namespace"
        thread.start()
        entered.wait()
        if let failure = failure.withLock({ $0 }) {
            end()
            throw LinkError("the namespace \(path) could not be entered: \(failure)")
        }
    }

    /// Lets the thread end when it has nothing left to do.
    func end() {
        condition.withLock {
            isOver = true
            condition.signal()
        }
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        condition.withLock {
            jobs.append(job)
            condition.signal()
        }
    }

    /// Moves the calling thread; returns what went wrong.
    ///
    /// The C library shows `setns` to programs that define `_GNU_SOURCE` only, so it is looked up by name.
    private static func enter(_ path: String) -> String? {
        guard let symbol = dlsym(nil, "setns") else { return "there is no setns" }
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return String(cString: strerror(errno)) }
        defer { close(file) }
        let setns = unsafeBitCast(symbol, to: (@convention(c) (CInt, CInt) -> CInt).self)
        let newNetwork: CInt = 0x4000_0000  // CLONE_NEWNET
        return setns(file, newNetwork) == 0 ? nil : String(cString: strerror(errno))
    }

    private func run() {
        while true {
            condition.lock()
            while jobs.isEmpty, !isOver { condition.wait() }
            guard !jobs.isEmpty else { return condition.unlock() }
            let job = jobs.removeFirst()
            condition.unlock()
            job.runSynchronously(on: asUnownedTaskExecutor())
        }
    }
}

/// What went wrong with the link or with a program at its end.
struct LinkError: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}
