import CKithSystem
import KithIO
import KithWire

/// A UDP socket for the datagrams of one group, which this device and others on the machine share.
final class MulticastSocket: Sendable {
    /// The group and its port.
    let group: NetworkAddress
    private let socket: WatchedSocket

    /// Opens a socket; it hears nothing before it has joined.
    init(group: NetworkAddress, on reactor: Reactor) throws(SystemError) {
        var address = kith_udp_address(group)
        socket = try WatchedSocket(owning: unsafe kith_multicast_open(&address), on: reactor)
        self.group = group
    }

    /// Hears the group on an interface from now on.
    func join(_ interface: UInt32) throws(SystemError) {
        var address = kith_udp_address(group)
        let status = unsafe kith_multicast_join(socket.descriptor, &address, interface)
        guard status == 0 else { throw SystemError(-status) }
    }

    /// Hears it there no longer.
    func leave(_ interface: UInt32) {
        var address = kith_udp_address(group)
        unsafe kith_multicast_leave(socket.descriptor, &address, interface)
    }

    /// Sends a datagram to the group, out of one interface; one task at a time.
    func send(_ bytes: [UInt8], to interface: UInt32, from source: NetworkAddress?) throws(SystemError) {
        var address = kith_udp_address(group)
        var origin = source.map { kith_udp_address($0) } ?? kith_udp_address()
        let count = unsafe bytes.withUnsafeBytes {
            unsafe kith_multicast_send(socket.descriptor, $0.baseAddress, $0.count, &address, interface, &origin)
        }
        guard count >= 0 else { throw SystemError(Int32(clamping: -count)) }
    }

    /// Waits for a datagram of at most `limit` bytes; a longer one is passed over.
    ///
    /// - Returns: the bytes and where they came from; `nil` when the task is cancelled, or the socket has failed.
    func receive(limit: Int) async -> (bytes: [UInt8], from: NetworkAddress)? { await socket.receive(upTo: limit) }
}
