import CKithSystem
import KithIO
import KithWire

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// A UDP socket for the datagrams of one group, which this device and others on the machine share.
final class MulticastSocket: Sendable {
    /// The group and its port.
    let group: NetworkAddress
    private let descriptor: Int32
    private let watch: Watch

    /// Opens a socket; it hears nothing before it has joined.
    init(group: NetworkAddress, on reactor: Reactor) throws(SystemError) {
        var address = kith_udp_address(group)
        let descriptor = unsafe kith_multicast_open(&address)
        guard descriptor >= 0 else { throw SystemError(-descriptor) }
        do {
            watch = try reactor.watch(descriptor)
        } catch {
            kith_socket_close(descriptor)
            throw error
        }
        self.group = group
        self.descriptor = descriptor
    }

    deinit {
        watch.close()
        kith_socket_close(descriptor)
    }

    /// Hears the group on an interface from now on.
    func join(_ interface: UInt32) throws(SystemError) {
        var address = kith_udp_address(group)
        let status = unsafe kith_multicast_join(descriptor, &address, interface)
        guard status == 0 else { throw SystemError(-status) }
    }

    /// Hears it there no longer.
    func leave(_ interface: UInt32) {
        var address = kith_udp_address(group)
        unsafe kith_multicast_leave(descriptor, &address, interface)
    }

    /// Sends a datagram to the group, out of one interface; one task at a time.
    func send(_ bytes: [UInt8], to interface: UInt32, from source: NetworkAddress?) throws(SystemError) {
        var address = kith_udp_address(group)
        var origin = source.map { kith_udp_address($0) } ?? kith_udp_address()
        let count = unsafe bytes.withUnsafeBytes {
            unsafe kith_multicast_send(descriptor, $0.baseAddress, $0.count, &address, interface, &origin)
        }
        guard count >= 0 else { throw SystemError(Int32(clamping: -count)) }
    }

    /// Waits for a datagram of at most `limit` bytes; a longer one is passed over.
    ///
    /// - Returns: the bytes and where they came from; `nil` when the task is cancelled, or the socket has failed.
    func receive(limit: Int) async -> (bytes: [UInt8], from: NetworkAddress)? {
        while !Task.isCancelled {
            var from = kith_udp_address()
            var count = 0
            let bytes = unsafe [UInt8](unsafeUninitializedCapacity: limit + 1) { buffer, initialized in
                unsafe count = kith_datagram_receive(descriptor, buffer.baseAddress, buffer.count, &from)
                initialized = min(max(count, 0), buffer.count)
            }
            if count > limit { continue }
            if count >= 0 { return (bytes, NetworkAddress(from)) }
            switch Int32(clamping: -count) {
            case EBADF, ENOTSOCK, EINVAL, EFAULT: return nil
            // What the network says of datagrams that were sent is nobody's business; the next one wakes us.
            default: await watch.wait(for: .reading)
            }
        }
        return nil
    }
}
