import CKithSystem
import KithWire
import NIOPosix

/// The addresses of hosts, by the system's resolver.
enum HostAddresses {
    /// The most addresses of one host.
    private static let maxCount = 8

    /// The addresses of a name or address, with a port; none when the name is not known.
    ///
    /// The resolver waits in a thread of its own, as long as the system has it.
    static func of(_ host: String, port: UInt16) async -> [NetworkAddress] {
        let found = try? await NIOThreadPool.singleton.runIfActive {
            var addresses = [kith_udp_address](repeating: kith_udp_address(), count: maxCount)
            let count = unsafe kith_network_resolve(host, port, &addresses, CInt(maxCount))
            return addresses.prefix(max(0, Int(count))).map { NetworkAddress($0) }
        }
        // Fails only when the process ends.
        return found ?? []
    }
}
