import CKithSystem
import Foundation
import KithIO
import KithNode
import KithWire

/// A UDP socket.
final class DatagramSocket: Sendable {
    /// The address it is bound to, with the actual port.
    let address: NetworkAddress
    private let descriptor: Int32
    private let watch: Watch

    /// Opens a socket at an address.
    init(at wanted: NetworkAddress, on reactor: Reactor) throws(KithError) {
        var address = kith_udp_address(wanted)
        let descriptor = unsafe kith_datagram_open(&address)
        guard descriptor >= 0 else { throw ListeningSocket.failure(SystemError(-descriptor), "\(wanted)") }
        do {
            watch = try reactor.watch(connection: descriptor)
        } catch {
            kith_socket_close(descriptor)
            throw error
        }
        _ = unsafe kith_udp_local(descriptor, &address)
        self.address = NetworkAddress(address)
        self.descriptor = descriptor
    }

    deinit {
        watch.close()
        kith_socket_close(descriptor)
    }

    /// Waits for a datagram.
    ///
    /// That one before could not be delivered (ICMP) is nobody's business here: which one, the system does not say.
    func receive() async throws -> (payload: [UInt8], from: NetworkAddress) {
        while true {
            try Task.checkCancellation()
            var from = kith_udp_address()
            var count = 0
            let bytes = unsafe [UInt8](unsafeUninitializedCapacity: DatagramFrame.longestPayload) {
                buffer, initialized in
                count = unsafe kith_datagram_receive(descriptor, buffer.baseAddress, buffer.count, &from)
                initialized = min(max(count, 0), buffer.count)
            }
            // Small ones may wait somewhere: not with the room for a large one each.
            if count >= 0 { return (Array(bytes[...]), NetworkAddress(from)) }
            let error = SystemError(Int32(-count))
            switch error.number {
            case EAGAIN, EWOULDBLOCK: await watch.wait(for: .reading)
            case EBADF, ENOTSOCK, EINVAL, EFAULT: throw KithError(.closed, "The socket at \(address) failed: \(error).")
            case ENOMEM, ENOBUFS: try await Task.sleep(for: .milliseconds(10))
            default: break
            }
        }
    }

    /// Sends a datagram, or loses it as networks do.
    func send(_ payload: [UInt8], to remote: NetworkAddress) {
        guard remote.isIPv6 == address.isIPv6, remote.port != 0 else { return }
        var to = kith_udp_address(remote)
        _ = unsafe payload.withUnsafeBytes {
            unsafe kith_datagram_send(descriptor, $0.baseAddress, $0.count, &to)
        }
    }
}
