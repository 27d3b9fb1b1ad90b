#if os(Linux)
import CKithSystem
import Glibc
import KithIO
import KithReach
import KithWire

/// A socket at the port of multicast DNS, which the responders of a machine share.
final class MDNSSocket: Sendable {
    /// A datagram as it came.
    struct Received {
        let bytes: [UInt8]
        let source: NetworkAddress
        let interface: UInt32
        /// True when it was not sent to the group.
        let isUnicast: Bool
    }

    /// True for the one of IPv6.
    let isIPv6: Bool
    private let socket: WatchedSocket

    /// Opens it; it hears no group before it has joined.
    init(isIPv6: Bool, on reactor: Reactor) throws(SystemError) {
        socket = try WatchedSocket(owning: kith_mdns_open(isIPv6 ? 1 : 0), on: reactor)
        self.isIPv6 = isIPv6
    }

    private var group: NetworkAddress { isIPv6 ? MDNS.group6 : MDNS.group }

    /// Hears the group on an interface from now on; returns the system's number when it cannot.
    func join(_ interface: UInt32) -> SystemError? {
        var address = kith_udp_address(group)
        let status = unsafe kith_multicast_join(socket.descriptor, &address, interface)
        return status == 0 ? nil : SystemError(-status)
    }

    /// Hears it there no longer.
    func leave(_ interface: UInt32) {
        var address = kith_udp_address(group)
        unsafe kith_multicast_leave(socket.descriptor, &address, interface)
    }

    /// Sends a datagram out of an interface, to the group or to one device; returns whether the system took it.
    func send(_ datagram: MDNSDatagram, by interface: UInt32) -> Bool {
        var address = kith_udp_address(datagram.destination ?? group)
        return unsafe datagram.bytes.withUnsafeBytes {
            unsafe kith_mdns_send(socket.descriptor, $0.baseAddress, $0.count, &address, interface)
        } >= 0
    }

    /// Waits for a datagram; one that is too long is passed over.
    ///
    /// - Returns: `nil` when the task is cancelled, or the socket has failed.
    func receive() async -> Received? {
        while !Task.isCancelled {
            var (from, to) = (kith_udp_address(), kith_udp_address())
            var interface: UInt32 = 0
            var count = 0
            let bytes = unsafe [UInt8](unsafeUninitializedCapacity: MDNS.maxLength + 1) { buffer, initialized in
                unsafe count = kith_mdns_receive(
                    socket.descriptor, buffer.baseAddress, buffer.count, &from, &to, &interface)
                initialized = min(max(count, 0), buffer.count)
            }
            if count > MDNS.maxLength { continue }
            if count >= 0 {
                return Received(
                    bytes: bytes, source: NetworkAddress(from), interface: interface,
                    isUnicast: !NetworkAddress(to).isMulticast)
            }
            switch Int32(clamping: -count) {
            case EBADF, ENOTSOCK, EINVAL, EFAULT: return nil
            case ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, EMSGSIZE: continue
            default: await socket.watch.wait(for: .reading)
            }
        }
        return nil
    }
}
#endif
