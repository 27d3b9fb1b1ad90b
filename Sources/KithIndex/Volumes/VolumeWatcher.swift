import CKithSystem
import Foundation
import KithIO
package import KithWire

/// Tells when a file system is mounted, or goes.
package enum VolumeWatcher {
    /// An element whenever the table of mounts has changed; what was not taken yet is one.
    ///
    /// It ends with whoever takes them.
    ///
    /// - Throws: `.unsupported` where the system has no such table; `.exhausted` when no descriptor is free.
    package static func changes() throws(KithError) -> AsyncStream<Void> {
        let table = unsafe withCString(Array("/proc/self/mountinfo".utf8)) {
            unsafe kith_open(-1, $0, Int32(KITH_FILE_READ), 0)
        }
        guard table >= 0 else {
            throw KithError(.unsupported, "This system does not tell when a file system is mounted. List them again.")
        }
        var ends: [Int32] = [-1, -1]
        guard unsafe pipe(&ends) == 0 else {
            kith_file_close(table)
            throw KithError(.exhausted, "Cannot watch what is mounted: no file descriptor is free.")
        }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        let (wake, waker) = (ends[0], ends[1])
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        // Closing the one end makes the other readable.
        continuation.onTermination = { _ in kith_file_close(waker) }
        let thread = Thread {
            while kith_volume_wait(table, wake) == 1 { continuation.yield() }
            continuation.finish()
            kith_file_close(table)
            kith_file_close(wake)
        }
        thread.name = "kith-mounts"
        thread.start()
        return stream
    }
}
