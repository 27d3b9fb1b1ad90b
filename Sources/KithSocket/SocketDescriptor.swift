#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif
import KithWire

/// A non-blocking stream socket, closed when the last reference goes.
///
/// ``shutDown()`` ends it for both ends at once while others may still be inside a call: the number stays
/// reserved until nobody can use it any more.
final class SocketDescriptor: Sendable {
    /// The system's number.
    let number: Int32

    /// The result of a receive.
    enum Received {
        case bytes([UInt8])
        case end
        case wouldBlock
    }

    init(owning number: Int32) {
        self.number = number
        _ = fcntl(number, F_SETFL, fcntl(number, F_GETFL) | O_NONBLOCK)
        _ = fcntl(number, F_SETFD, FD_CLOEXEC)
        Platform.configure(number)
        // Larger than the default of about 200 KiB: fewer switches between the two processes.
        var size: Int32 = 1 << 20
        unsafe setsockopt(number, SOL_SOCKET, SO_SNDBUF, &size, socklen_t(MemoryLayout<Int32>.size))
        unsafe setsockopt(number, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<Int32>.size))
    }

    deinit { close(number) }

    /// Ends both directions at once; every waiting call of either end returns.
    func shutDown() { _ = shutdown(number, Int32(SHUT_RDWR)) }

    /// Ends the direction in which this end writes; the other end reads what was sent before.
    func endWriting() { _ = shutdown(number, Int32(SHUT_WR)) }

    /// Ends both directions at once, also for another end that waits for room to write; what is on its way may be lost.
    func breakOff() {
        shutDown()
        Platform.reset(number)
    }

    /// The process at the other end.
    var peer: PeerCredentials { PeerCredentials(ofSocket: number) }

    // MARK: - Bytes

    /// Takes at most `limit` bytes that are there now.
    func receive(upTo limit: Int) throws(KithError) -> Received {
        var count = 0
        var failure: Int32 = 0
        let bytes = unsafe [UInt8](unsafeUninitializedCapacity: limit) { buffer, initialized in
            repeat {
                count = unsafe recv(number, buffer.baseAddress, limit, 0)
                failure = count < 0 ? errno : 0
            } while failure == EINTR
            initialized = max(count, 0)
        }
        return try received(bytes, count: count, failure: failure)
    }

    /// Takes four bytes and at most `limit` more in one call: a frame's head and what follows it.
    func receive(head: inout (UInt8, UInt8, UInt8, UInt8), upTo limit: Int) throws(KithError) -> (Received, head: Int) {
        var count = 0
        var failure: Int32 = 0
        let bytes = unsafe withUnsafeMutableBytes(of: &head) { head in
            unsafe [UInt8](unsafeUninitializedCapacity: limit) { buffer, initialized in
                var parts = unsafe (
                    iovec(iov_base: head.baseAddress, iov_len: 4), iovec(iov_base: buffer.baseAddress, iov_len: limit)
                )
                unsafe withUnsafeMutableBytes(of: &parts) { parts in
                    repeat {
                        count = unsafe readv(number, parts.assumingMemoryBound(to: iovec.self).baseAddress, 2)
                        failure = count < 0 ? errno : 0
                    } while failure == EINTR
                }
                initialized = max(count - 4, 0)
            }
        }
        return (try received(bytes, count: count, failure: failure), head: min(max(count, 0), 4))
    }

    private func received(_ bytes: [UInt8], count: Int, failure: Int32) throws(KithError) -> Received {
        if count > 0 { return .bytes(bytes) }
        if count == 0 { return .end }
        switch failure {
        case EAGAIN, EWOULDBLOCK: return .wouldBlock
        case ECONNRESET, ENOTCONN, EPIPE: return .end
        default: throw KithError(.closed, "Reading from the socket failed: \(Self.text(failure)).")
        }
    }

    /// Writes as much of `head` and then `bytes`, from `offset` of the two together, as fits; returns 0 when full.
    func send(head: [UInt8] = [], _ bytes: [UInt8], from offset: Int) throws(KithError) -> Int {
        var count = 0
        var failure: Int32 = 0
        unsafe head.withUnsafeBytes { head in
            unsafe bytes.withUnsafeBytes { bytes in
                let first = unsafe UnsafeRawBufferPointer(rebasing: head[min(offset, head.count)...])
                let second = unsafe UnsafeRawBufferPointer(rebasing: bytes[max(offset - head.count, 0)...])
                var parts = unsafe (
                    iovec(iov_base: UnsafeMutableRawPointer(mutating: first.baseAddress), iov_len: first.count),
                    iovec(iov_base: UnsafeMutableRawPointer(mutating: second.baseAddress), iov_len: second.count)
                )
                unsafe withUnsafeMutableBytes(of: &parts) { parts in
                    var message = unsafe msghdr()
                    unsafe message.msg_iov = unsafe parts.assumingMemoryBound(to: iovec.self).baseAddress
                    unsafe message.msg_iovlen = 2
                    repeat {
                        count = unsafe sendmsg(number, &message, Platform.sendFlags)
                        failure = count < 0 ? errno : 0
                    } while failure == EINTR
                }
            }
        }
        if count >= 0 { return count }
        switch failure {
        case EAGAIN, EWOULDBLOCK, ENOBUFS: return 0
        default: throw KithError(.closed, "The other end of the socket is gone.")
        }
    }

    static func text(_ failure: Int32) -> String { unsafe String(cString: strerror(failure)) }

    // MARK: - Names

    /// Connects to the socket at `path`; `nil` when nobody listens there.
    static func connect(to path: String) throws(KithError) -> SocketDescriptor? {
        let descriptor = try make()
        var failure: Int32 = 0
        try unsafe withAddress(path) { address, length in
            repeat {
                failure = unsafe systemConnect(descriptor.number, address, length) == 0 ? 0 : errno
            } while failure == EINTR
        }
        switch failure {
        case 0, EISCONN: break
        case ENOENT, ECONNREFUSED, ENOTDIR: return nil
        case EAGAIN: throw KithError(.exhausted, "The device at \(path) has too many callers waiting. Try again.")
        case EACCES, EPERM: throw KithError(.denied, "The socket \(path) belongs to another user.")
        default: throw KithError(.unreachable, "Could not connect to \(path): \(text(failure)).")
        }
        guard descriptor.peer.isOwnUser else {
            throw KithError(.denied, "The process that listens at \(path) belongs to another user.")
        }
        return descriptor
    }

    /// Listens at `path`, readable and writable by this user only.
    static func listen(at path: String) throws(KithError) -> SocketDescriptor {
        let descriptor = try make()
        var failure: Int32 = 0
        try unsafe withAddress(path) { address, length in
            if unsafe bind(descriptor.number, address, length) != 0 { failure = errno }
        }
        if failure == 0, unsafe chmod(path, 0o600) != 0 { failure = errno }
        if failure == 0, systemListen(descriptor.number, 128) != 0 { failure = errno }
        guard failure == 0 else {
            throw KithError(
                failure == EADDRINUSE ? .conflict : .denied, "Could not listen at \(path): \(text(failure)).")
        }
        return descriptor
    }

    /// The result of an accept.
    enum Accepted {
        case connection(SocketDescriptor)
        case wouldBlock
        /// No descriptor is left, or the caller vanished: try again a little later.
        case notNow
    }

    /// Takes one waiting caller.
    func accept() throws(KithError) -> Accepted {
        let number = systemAccept(number)
        if number >= 0 { return .connection(SocketDescriptor(owning: number)) }
        switch errno {
        case EAGAIN, EWOULDBLOCK: return .wouldBlock
        case EMFILE, ENFILE, ENOMEM, ENOBUFS, ECONNABORTED, EINTR: return .notNow
        case let failure: throw KithError(.closed, "The socket cannot accept callers any more: \(Self.text(failure)).")
        }
    }

    private static func make() throws(KithError) -> SocketDescriptor {
        let number = Platform.makeSocket()
        guard number >= 0 else { throw KithError(.exhausted, "Could not make a socket: \(text(errno)).") }
        return SocketDescriptor(owning: number)
    }

    /// The longest path of a socket, in bytes.
    static let pathLimit = MemoryLayout.size(ofValue: sockaddr_un().sun_path) - 1

    private static func withAddress(
        _ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Void
    ) throws(KithError) {
        let name = Array(path.utf8)
        guard name.count <= pathLimit, !name.contains(0) else {
            throw KithError(.invalid, "The path \(path) is too long for a socket (\(pathLimit) bytes).")
        }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: name) }
        unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }
}

// The C functions whose names the methods above hide.

private func systemConnect(_ number: Int32, _ address: UnsafePointer<sockaddr>, _ length: socklen_t) -> Int32 {
    unsafe connect(number, address, length)
}
private func systemListen(_ number: Int32, _ backlog: Int32) -> Int32 { listen(number, backlog) }
private func systemAccept(_ number: Int32) -> Int32 { accept(number, nil, nil) }
