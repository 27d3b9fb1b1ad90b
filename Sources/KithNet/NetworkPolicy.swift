public import KithWire

/// The networks a device uses: a value, evaluated over a list of interfaces.
public struct NetworkPolicy: Codable, Hashable, Sendable {
    /// True to use no network but Wi-Fi, and what is not cellular where the system does not say which is Wi-Fi.
    public var isWiFiOnly: Bool
    /// False to announce and find no devices on cellular networks.
    public var allowsCellularDiscovery: Bool
    /// The only interface to use, by its name; `nil` for all.
    public var interface: String?
    /// False to use IPv4 alone.
    public var allowsIPv6: Bool

    /// Every network.
    public init(
        isWiFiOnly: Bool = false, allowsCellularDiscovery: Bool = true, interface: String? = nil,
        allowsIPv6: Bool = true
    ) {
        self.isWiFiOnly = isWiFiOnly
        self.allowsCellularDiscovery = allowsCellularDiscovery
        self.interface = interface
        self.allowsIPv6 = allowsIPv6
    }

    /// True when every network is used.
    public var isUnrestricted: Bool { !isWiFiOnly && interface == nil && allowsIPv6 }

    /// Returns the interfaces that may be used, with the addresses that may; this machine's own loopback always is one.
    public func permitted(_ interfaces: [NetworkInterface]) -> [NetworkInterface] {
        let knowsWiFi = interfaces.contains { $0.kind == .wifi }
        return interfaces.compactMap { interface in
            var interface = interface
            if interface.kind != .loopback {
                if let name = self.interface, interface.name != name { return nil }
                if isWiFiOnly {
                    guard interface.kind == .wifi || (!knowsWiFi && interface.kind != .cellular) else { return nil }
                }
            }
            if !allowsIPv6 { interface.addresses.removeAll(where: \.isIPv6) }
            return interface.addresses.isEmpty ? nil : interface
        }
    }

    /// Returns the interfaces on which devices announce themselves: those that may be used, carry datagrams to groups,
    /// and lead to other machines; and this machine's own loopback.
    public func discoverable(_ interfaces: [NetworkInterface]) -> [NetworkInterface] {
        permitted(interfaces).filter { interface in
            if interface.kind == .loopback { return true }
            return interface.carriesMulticast && interface.leadsElsewhere
                && (allowsCellularDiscovery || interface.kind != .cellular)
        }
    }

    /// True when other machines can be reached through one of the interfaces.
    public func isReachable(_ interfaces: [NetworkInterface]) -> Bool {
        permitted(interfaces).contains(where: \.leadsElsewhere)
    }

    /// Returns those of a device's addresses that other devices are to be told.
    public func permitted(_ addresses: [NetworkAddress], on interfaces: [NetworkInterface]) -> [NetworkAddress] {
        guard !isUnrestricted else { return addresses }
        let allowed = permitted(interfaces).flatMap(\.addresses)
        return addresses.filter { address in allowed.contains { $0.hasSameIP(as: address) } }
    }
}
