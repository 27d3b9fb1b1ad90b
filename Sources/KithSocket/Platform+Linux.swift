#if !canImport(Darwin)
#if canImport(Glibc)
import Glibc
#else
import Musl
#endif

/// The socket calls of Linux.
enum Platform {
    /// Flags of every send: a vanished reader is an error to handle, not a signal.
    static let sendFlags = Int32(MSG_NOSIGNAL)

    /// Opens a stream socket of the Unix family; negative on failure.
    static func makeSocket() -> Int32 {
        socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    }

    /// Opens a pair of stream sockets that are connected.
    static func makePair(_ ends: inout (Int32, Int32)) -> Bool {
        unsafe withUnsafeMutableBytes(of: &ends) { ends in
            unsafe socketpair(
                AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0,
                ends.assumingMemoryBound(to: Int32.self).baseAddress) == 0
        }
    }

    /// Opens a TCP socket; negative on failure.
    static func makeLoopbackSocket(isIPv6: Bool) -> Int32 {
        socket(isIPv6 ? AF_INET6 : AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    }

    /// Does what can be said only after opening.
    static func configure(_ descriptor: Int32) {}

    /// Ends a TCP connection for whoever still writes to it; does nothing of another socket.
    ///
    /// A connection that is shut down takes what comes, until its buffer is full, and its writer waits from then on.
    static func reset(_ descriptor: Int32) {
        var nobody = sockaddr(sa_family: sa_family_t(AF_UNSPEC), sa_data: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
        _ = unsafe connect(descriptor, &nobody, socklen_t(MemoryLayout<sockaddr>.size))
    }

    /// The user at the other end of a connected socket; `nil` when the system does not say.
    static func peerUser(_ descriptor: Int32) -> uid_t? {
        // struct ucred { pid, uid, gid }: glibc hides it from Swift.
        var credentials: (pid: Int32, uid: UInt32, gid: UInt32) = (0, 0, 0)
        var length = socklen_t(MemoryLayout.size(ofValue: credentials))
        guard unsafe getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0,
            Int(length) == MemoryLayout.size(ofValue: credentials),
            // Of a socket that is not of this machine.
            credentials.uid != UInt32.max
        else { return nil }
        return credentials.uid
    }
}
#endif
