#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif
import KithWire

/// TCP between the processes of one machine.
extension SocketDescriptor {
    /// A loopback address.
    enum Loopback: Hashable, Sendable, CaseIterable {
        case ipv4, ipv6

        /// The address with a port, as a person writes it.
        func text(port: UInt16) -> String {
            switch self {
            case .ipv4: "127.0.0.1:\(port)"
            case .ipv6: "[::1]:\(port)"
            }
        }
    }

    /// Listens at a port of a loopback address; `port` 0 is any that is free.
    ///
    /// - Returns: `nil` when this machine has no such address.
    /// - Throws: `KithError` `.conflict` when the port is taken, `.denied` when the system refuses.
    static func listen(_ loopback: Loopback, port: UInt16) throws(KithError) -> (SocketDescriptor, port: UInt16)? {
        let number = Platform.makeLoopbackSocket(isIPv6: loopback == .ipv6)
        guard number >= 0 else {
            if errno == EAFNOSUPPORT { return nil }
            throw KithError(.exhausted, "Could not make a socket: \(text(errno)).")
        }
        let descriptor = SocketDescriptor(owning: number)
        descriptor.set(SO_REUSEADDR, of: SOL_SOCKET)
        if loopback == .ipv6 { descriptor.set(IPV6_V6ONLY, of: Int32(IPPROTO_IPV6)) }
        var failure: Int32 = 0
        var bound: UInt16 = 0
        unsafe withAddress(loopback, port: port) { address, length in
            if unsafe bind(number, address, length) != 0 { failure = errno }
        }
        if failure == 0, systemListen(number, 128) != 0 { failure = errno }
        if failure == 0 {
            var storage = sockaddr_storage()
            var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
            failure = unsafe withUnsafeMutablePointer(to: &storage) { pointer in
                unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    unsafe getsockname(number, $0, &length) == 0 ? 0 : errno
                }
            }
            // The port stands at the same place for both families.
            unsafe withUnsafeBytes(of: &storage) { unsafe bound = UInt16($0[2]) << 8 | UInt16($0[3]) }
        }
        switch failure {
        case 0: return (descriptor, bound)
        case EADDRNOTAVAIL, EAFNOSUPPORT: return nil
        case EADDRINUSE:
            throw KithError(
                .conflict,
                "Another program listens at \(loopback.text(port: port)). Choose another port, or 0 for any that is free."
            )
        default:
            throw KithError(.denied, "Could not listen at \(loopback.text(port: port)): \(text(failure)).")
        }
    }

    /// Begins to connect to a port of 127.0.0.1; ``connectionFailure`` says how it went, once it can be written to.
    static func connect(loopbackPort port: UInt16) throws(KithError) -> SocketDescriptor {
        let number = Platform.makeLoopbackSocket(isIPv6: false)
        guard number >= 0 else { throw KithError(.exhausted, "Could not make a socket: \(text(errno)).") }
        let descriptor = SocketDescriptor(owning: number)
        descriptor.sendsAtOnce()
        var failure: Int32 = 0
        unsafe withAddress(.ipv4, port: port) { address, length in
            if unsafe systemConnect(number, address, length) != 0 { failure = errno }
        }
        switch failure {
        case 0, EINPROGRESS, EINTR: return descriptor
        case ECONNREFUSED: throw refused(port)
        default: throw KithError(.unreachable, "Could not connect to port \(port): \(text(failure)).")
        }
    }

    /// Says how connecting went.
    ///
    /// - Throws: `KithError` `.notFound` when nobody listens there, `.unreachable` for another failure.
    func checkConnection(toPort port: UInt16) throws(KithError) {
        var failure: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        guard unsafe getsockopt(number, SOL_SOCKET, SO_ERROR, &failure, &length) == 0 else { failure = errno; return }
        switch failure {
        case 0: return
        case ECONNREFUSED: throw Self.refused(port)
        default: throw KithError(.unreachable, "Could not connect to port \(port): \(Self.text(failure)).")
        }
    }

    /// Sends small pieces at once, rather than waiting for more to send with them.
    func sendsAtOnce() { set(TCP_NODELAY, of: Int32(IPPROTO_TCP)) }

    private static func refused(_ port: UInt16) -> KithError {
        KithError(
            .notFound, "No device listens at port \(port) of this machine. `kith up --api-port \(port)` starts one.")
    }

    /// Turns an option of the socket on; one that the system does not know is done without.
    private func set(_ option: Int32, of level: Int32) {
        var on: Int32 = 1
        unsafe setsockopt(number, level, option, &on, socklen_t(MemoryLayout<Int32>.size))
    }

    private static func withAddress(
        _ loopback: Loopback, port: UInt16, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Void
    ) {
        switch loopback {
        case .ipv4:
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = port.bigEndian
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            unsafe withUnsafePointer(to: &address) { pointer in
                unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    unsafe body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
        case .ipv6:
            var address = sockaddr_in6()
            address.sin6_family = sa_family_t(AF_INET6)
            address.sin6_port = port.bigEndian
            address.sin6_addr = in6addr_loopback
            unsafe withUnsafePointer(to: &address) { pointer in
                unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    unsafe body($0, socklen_t(MemoryLayout<sockaddr_in6>.size))
                }
            }
        }
    }
}

// The C functions whose names the methods above hide.

private func systemConnect(_ number: Int32, _ address: UnsafePointer<sockaddr>, _ length: socklen_t) -> Int32 {
    unsafe connect(number, address, length)
}
private func systemListen(_ number: Int32, _ backlog: Int32) -> Int32 { listen(number, backlog) }
