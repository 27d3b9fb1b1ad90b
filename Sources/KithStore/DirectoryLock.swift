import KithIdentity
import KithWire
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The right to use a data directory: held by one process at a time, given back by the kernel when it ends.
///
/// The lock is `flock` on the file `lock`, which also holds the number of the process, for messages.
final class DirectoryLock: Sendable {
    private let descriptor: Mutex<Int32>

    /// Takes the lock.
    ///
    /// - Throws: `KithError` `.conflict` when another process has it.
    init(directory: String) throws(KithError) {
        let path = directory + "/lock"
        let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else {
            throw SecretFile.failure("open", path, errno)
        }
        guard Self.lock(descriptor) else {
            close(descriptor)
            let holder = Self.holder(of: directory).map { "process \($0)" } ?? "another process"
            throw KithError(
                .conflict,
                "\(directory) is in use by \(holder). A device runs once; `kith status` asks the running one.")
        }
        ftruncate(descriptor, 0)
        let text = Array("\(getpid())\n".utf8)
        // The number is for messages only: the lock itself is the kernel's.
        _ = unsafe text.withUnsafeBytes { unsafe pwrite(descriptor, $0.baseAddress, $0.count, 0) }
        self.descriptor = Mutex(descriptor)
    }

    /// Takes the lock for this process alone.
    ///
    /// Whoever asks for the ``holder(of:)`` shares the lock for a moment, which is not a reason to give up: only a lock that
    /// cannot even be shared has an owner.
    private static func lock(_ descriptor: Int32) -> Bool {
        for _ in 0..<10_000 {
            if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return true }
            guard flock(descriptor, LOCK_SH | LOCK_NB) == 0 else { return false }
            flock(descriptor, LOCK_UN)
            sched_yield()
        }
        return false
    }

    /// Gives the lock back.
    func release() {
        let descriptor = descriptor.withLock { value in
            defer { value = -1 }
            return value
        }
        guard descriptor >= 0 else { return }
        // Closing is not enough: a process just being spawned shares the lock until it executes its program.
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }

    deinit { release() }

    /// The process that holds the lock now; `nil` when none does.
    static func holder(of directory: String) -> Int32? {
        let descriptor = unsafe open(directory + "/lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        guard flock(descriptor, LOCK_SH | LOCK_NB) != 0 else { return nil }
        var text = [UInt8](repeating: 0, count: 32)
        let count = unsafe text.withUnsafeMutableBytes { unsafe pread(descriptor, $0.baseAddress, $0.count, 0) }
        guard count > 0 else { return 0 }
        return Int32(String(decoding: text.prefix(count), as: UTF8.self).prefix { $0.isNumber }) ?? 0
    }
}
