import CKithSystem
import KithWire

/// The networks that this machine is on: what is sent to an address there goes to its machine, and through no router.
///
/// A tunnel is none of them, as its other end may be anywhere.
struct OnLinkNetworks: Hashable, Sendable {
    /// A network: an address in it, and the number of bits that all of them share.
    struct Network: Hashable, Sendable {
        var address: NetworkAddress
        var prefix: Int
    }

    private let networks: [Network]

    /// Makes it of the networks.
    init(_ networks: [Network]) { self.networks = networks }

    /// Those that the machine is on now; asks the system.
    static var now: OnLinkNetworks {
        let capacity = 256
        var entries = [kith_interface](repeating: kith_interface(), count: capacity)
        let count = unsafe kith_network_interfaces(&entries, CInt(capacity))
        return OnLinkNetworks(
            entries.prefix(max(0, min(Int(count), capacity))).filter { $0.point_to_point == 0 }
                .map { Network(address: NetworkAddress($0.address), prefix: Int($0.prefix)) })
    }

    /// Tells whether an address is on one of them, of their links, or of this very machine.
    func contains(_ address: NetworkAddress) -> Bool {
        if address.isLoopback || address.isLinkLocal { return true }
        return networks.contains { network in
            network.address.isIPv6 == address.isIPv6 && network.prefix > 0
                && Self.sharedBits(network.address.ip, address.ip) >= network.prefix
        }
    }

    /// The number of bits at the beginning that are the same.
    private static func sharedBits(_ left: [UInt8], _ right: [UInt8]) -> Int {
        for (index, (one, other)) in zip(left, right).enumerated() where one != other {
            return index * 8 + (one ^ other).leadingZeroBitCount
        }
        return min(left.count, right.count) * 8
    }
}

extension NetworkAddress {
    /// Indicates whether an address is of this machine or of a network it is on; one that is private may well be another's.
    var isOfLocalNetwork: Bool { OnLinkNetworks.now.contains(self) }
}
