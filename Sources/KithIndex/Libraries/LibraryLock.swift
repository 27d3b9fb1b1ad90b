import Foundation
package import KithWire
import Synchronization

/// The right to use a library's folder: held by one process at a time, given back by the kernel when it ends.
///
/// The lock is `flock` on the file `lock`, which also holds the number of the process, for messages. Nobody takes it
/// because it is old.
package final class LibraryLock: Sendable {
    private let descriptor: Mutex<Int32>

    /// Takes the lock.
    ///
    /// - Throws: `.conflict` when another process has it, or this one already.
    package init(folder: String) throws(KithError) {
        let path = folder + "/lock"
        let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0o600)
        guard descriptor >= 0 else {
            let failure = SystemFailure()
            throw KithError(failure.code, "The library in \(folder) cannot be opened: \(failure).")
        }
        var info = stat()
        guard unsafe fstat(descriptor, &info) == 0, info.st_mode & S_IFMT == S_IFREG else {
            close(descriptor)
            throw KithError(.corrupt, "The library in \(folder) cannot be opened: \(path) is not a file.")
        }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let failure = SystemFailure()
            let holder = Self.holder(descriptor)
            close(descriptor)
            guard failure.number == EWOULDBLOCK else {
                throw KithError(failure.code, "The library in \(folder) cannot be locked: \(failure).")
            }
            throw KithError(
                .conflict,
                "The library in \(folder) is in use by \(holder). Close it there: kith library close, or kith down.")
        }
        ftruncate(descriptor, 0)
        let text = Array("\(getpid())\n".utf8)
        // The number is for messages only: the lock itself is the kernel's.
        _ = unsafe text.withUnsafeBytes { unsafe pwrite(descriptor, $0.baseAddress, $0.count, 0) }
        self.descriptor = Mutex(descriptor)
    }

    /// Gives the lock back.
    package func release() {
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

    private static func holder(_ descriptor: Int32) -> String {
        var text = [UInt8](repeating: 0, count: 32)
        let count = unsafe text.withUnsafeMutableBytes { unsafe pread(descriptor, $0.baseAddress, $0.count, 0) }
        let number = String(decoding: text.prefix(max(count, 0)), as: UTF8.self).prefix { $0.isNumber }
        guard !number.isEmpty else { return "another process" }
        return number == "\(getpid())" ? "this process" : "process \(number)"
    }
}
