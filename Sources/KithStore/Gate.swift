import KithIdentity
import KithWire

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// A lock between processes for a moment, on a file of its own: whoever comes second waits.
struct Gate {
    private let descriptor: Int32

    /// Waits for the lock and takes it.
    init(_ path: String) throws(KithError) {
        descriptor = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else {
            throw SecretFile.failure("open", path, errno)
        }
        while flock(descriptor, LOCK_EX) != 0, errno == EINTR {}
    }

    /// Gives the lock back.
    func release() {
        flock(descriptor, LOCK_UN)
        close(descriptor)
    }
}
