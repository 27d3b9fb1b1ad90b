package import CKithSystem
package import KithIO
package import KithWire

extension kith_udp_address {
    /// The form of an address that system calls take.
    package init(_ address: NetworkAddress) {
        self.init()
        is_ipv6 = address.isIPv6 ? 1 : 0
        port = address.port
        zone = address.zone
        let bytes = address.ip
        unsafe withUnsafeMutableBytes(of: &ip) { unsafe $0.copyBytes(from: bytes) }
    }
}

extension NetworkAddress {
    /// An address as system calls return it.
    package init(_ address: kith_udp_address) {
        let bytes = unsafe withUnsafeBytes(of: address.ip) { ip in
            unsafe [UInt8](ip.prefix(address.is_ipv6 != 0 ? 16 : 4))
        }
        self =
            NetworkAddress(ip: bytes, port: address.port, zone: address.zone)
            ?? NetworkAddress(ipv4: 0, port: address.port)
    }
}

extension Reactor {
    /// Begins to watch the socket of a connection; it must stay open as long as the watch does.
    package func watch(connection descriptor: Int32) throws(KithError) -> Watch {
        do {
            return try watch(descriptor)
        } catch {
            throw KithError(
                .exhausted, "Cannot take another connection: the system watches no more sockets (\(error)).")
        }
    }
}
