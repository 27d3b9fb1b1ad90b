#if canImport(Darwin)
import Darwin

/// The socket calls of Apple's systems.
enum Platform {
    /// Flags of every send; the socket option set by ``configure(_:)`` keeps signals away.
    static let sendFlags: Int32 = 0

    /// Opens a stream socket of the Unix family; negative on failure.
    static func makeSocket() -> Int32 { socket(AF_UNIX, SOCK_STREAM, 0) }

    /// Opens a pair of stream sockets that are connected.
    static func makePair(_ ends: inout (Int32, Int32)) -> Bool {
        let isDone = unsafe withUnsafeMutableBytes(of: &ends) { ends in
            unsafe socketpair(AF_UNIX, SOCK_STREAM, 0, ends.assumingMemoryBound(to: Int32.self).baseAddress) == 0
        }
        guard isDone else { return false }
        // The end that is not made a descriptor of ours would otherwise be inherited.
        _ = fcntl(ends.0, F_SETFD, FD_CLOEXEC)
        configure(ends.0)
        return true
    }

    /// Opens a TCP socket; negative on failure.
    static func makeLoopbackSocket(isIPv6: Bool) -> Int32 { socket(isIPv6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0) }

    /// Does what can be said only after opening.
    static func configure(_ descriptor: Int32) {
        var on: Int32 = 1
        unsafe setsockopt(descriptor, SOL_SOCKET, SO_NOSIGPIPE, &on, socklen_t(MemoryLayout<Int32>.size))
    }

    /// Does nothing: what comes at a connection that is shut down is dropped, and its writer goes on.
    static func reset(_ descriptor: Int32) {}

    /// The user at the other end of a connected socket; `nil` when the system does not say.
    static func peerUser(_ descriptor: Int32) -> uid_t? {
        var user: uid_t = 0
        var group: gid_t = 0
        return unsafe getpeereid(descriptor, &user, &group) == 0 ? user : nil
    }
}
#endif
