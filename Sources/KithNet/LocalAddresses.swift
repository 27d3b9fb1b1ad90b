import CKithSystem
import KithWire

/// Finds the addresses of this device a peer could dial.
enum LocalAddresses {
    /// The addresses behind `bound`: itself, or for a wildcard those of every running interface of its family.
    static func concrete(_ bound: [NetworkAddress]) -> [NetworkAddress] {
        var found: [NetworkAddress] = []
        let interfaces = bound.contains(where: \.isUnspecified) ? interfaceAddresses() : []
        for address in bound {
            guard address.isUnspecified else {
                found.append(address)
                continue
            }
            for interface in interfaces where interface.isIPv6 == address.isIPv6 {
                // A link-local address means nothing without the other end's own zone.
                if interface.isIPv6, interface.isLinkLocal { continue }
                var reachable = interface
                reachable.port = address.port
                found.append(reachable)
            }
        }
        return found.distinct.sorted { rank($0) < rank($1) }
    }

    /// LAN first, then public, then loopback.
    private static func rank(_ address: NetworkAddress) -> Int {
        if address.isLoopback { return 3 }
        if address.isLinkLocal { return 2 }
        return address.isPrivate ? 0 : 1
    }

    /// The address this device would send from to reach `remote`; nil when there is no way now.
    static func source(to remote: NetworkAddress) -> NetworkAddress? {
        var wanted = kith_udp_address(remote)
        var source = kith_udp_address()
        guard unsafe kith_network_source(&wanted, &source) == 0 else { return nil }
        var address = NetworkAddress(source)
        address.port = 0
        return address
    }

    /// The addresses of all running interfaces.
    static func interfaceAddresses() -> [NetworkAddress] {
        let capacity = 128
        var addresses = [kith_udp_address](repeating: kith_udp_address(), count: capacity)
        var flags = [UInt8](repeating: 0, count: capacity)
        let count = unsafe kith_udp_interfaces(&addresses, &flags, CInt(capacity))
        guard count > 0 else { return [] }
        return addresses.prefix(Int(count)).map { NetworkAddress($0) }
    }
}

extension Sequence<NetworkAddress> {
    /// The addresses in the same order, each once.
    var distinct: [NetworkAddress] {
        var seen: Set<NetworkAddress> = []
        return filter { seen.insert($0).inserted }
    }
}
