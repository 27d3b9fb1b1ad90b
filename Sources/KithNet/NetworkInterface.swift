import CKithSystem
public import KithWire

/// An interface of this machine that is running, and its addresses.
public struct NetworkInterface: Hashable, Sendable {
    /// The medium, as far as the system says.
    @nonexhaustive
    public enum Kind: String, Hashable, Sendable, Codable {
        /// This machine itself.
        case loopback
        /// A wireless network.
        case wifi
        /// A mobile operator's network, which is paid for as a rule.
        case cellular
        /// A cable, a tunnel, a bridge.
        case other
    }

    /// The system's name for it.
    public var name: String
    /// The system's number for it.
    public var index: UInt32
    /// The medium.
    public var kind: Kind
    /// True when datagrams to groups go out of it.
    public var carriesMulticast: Bool
    /// Its addresses, without ports.
    public var addresses: [NetworkAddress]
    /// The networks that those addresses are in.
    public var networks: [NetworkPrefix]
    /// Those of the addresses that the system is about to give up (RFC 4862 §5.5.4), where it says so (Linux).
    public var deprecated: Set<NetworkAddress> = []
    /// Those that are temporary (RFC 8981), where it says so (Linux).
    public var temporary: Set<NetworkAddress> = []

    /// Describes an interface.
    public init(
        name: String, index: UInt32, kind: Kind, carriesMulticast: Bool = true, addresses: [NetworkAddress],
        networks: [NetworkPrefix] = []
    ) {
        self.name = name
        self.index = index
        self.kind = kind
        self.carriesMulticast = carriesMulticast
        self.addresses = addresses
        self.networks = networks
    }

    /// True when other machines can be reached through it: it has an address that is valid beyond its own link.
    public var leadsElsewhere: Bool {
        kind != .loopback && addresses.contains { !$0.isLoopback && !($0.isIPv6 && $0.isLinkLocal) }
    }

    /// The networks that are taken to be on its link.
    ///
    /// An address of IPv6 may come without its network, which a router names: then it is the usual one, of 64 bits.
    var linkNetworks: [NetworkPrefix] {
        networks.map { $0.base.isIPv6 ? NetworkPrefix(of: $0.base, length: min($0.length, 64)) : $0 }
    }

    /// The running interfaces of this machine, in the order of their numbers.
    public static var all: [NetworkInterface] {
        let capacity = 256
        var entries = [kith_interface](repeating: kith_interface(), count: capacity)
        let count = unsafe kith_network_interfaces(&entries, CInt(capacity))
        var found: [UInt32: NetworkInterface] = [:]
        for entry in entries.prefix(max(0, min(Int(count), capacity))) {
            let address = NetworkAddress(entry.address)
            let network = NetworkPrefix(of: address, length: Int(entry.prefix))
            var interface =
                found[entry.index]
                ?? NetworkInterface(
                    name: Self.name(of: entry), index: entry.index, kind: Kind(entry.kind),
                    carriesMulticast: entry.multicast != 0, addresses: [])
            interface.addresses.append(address)
            interface.networks.append(network)
            if entry.deprecated != 0 { interface.deprecated.insert(address) }
            if entry.temporary != 0 { interface.temporary.insert(address) }
            found[entry.index] = interface
        }
        return found.values.sorted { $0.index < $1.index }
    }

    private static func name(of entry: kith_interface) -> String {
        unsafe withUnsafeBytes(of: entry.name) { bytes in
            unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        }
    }
}

extension NetworkInterface.Kind {
    fileprivate init(_ number: UInt8) {
        self =
            switch Int(number) {
            case KITH_INTERFACE_LOOPBACK: .loopback
            case KITH_INTERFACE_WIFI: .wifi
            case KITH_INTERFACE_CELLULAR: .cellular
            default: .other
            }
    }
}
