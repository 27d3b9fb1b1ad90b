import CKithSystem
import KithWire

/// The networks that this machine is on: what is sent to an address there goes to its machine, and through no router.
///
/// A tunnel is none of them, as its other end may be anywhere.
struct OnLinkNetworks: Hashable, Sendable {
    private let networks: [NetworkPrefix]

    /// Makes it of the networks.
    init(_ networks: [NetworkPrefix]) { self.networks = networks }

    /// Those that the machine is on now; asks the system.
    static var now: OnLinkNetworks {
        let capacity = 256
        var entries = [kith_interface](repeating: kith_interface(), count: capacity)
        let count = unsafe kith_network_interfaces(&entries, CInt(capacity))
        return OnLinkNetworks(
            entries.prefix(max(0, min(Int(count), capacity))).filter { $0.point_to_point == 0 }
                .map { NetworkPrefix(of: NetworkAddress($0.address), length: Int($0.prefix)) })
    }

    /// Tells whether an address is on one of them, of their links, or of this very machine.
    func contains(_ address: NetworkAddress) -> Bool {
        if address.isLoopback || address.isLinkLocal { return true }
        return networks.contains { $0.length > 0 && $0.contains(address) }
    }
}

extension NetworkAddress {
    /// Indicates whether an address is of this machine or of a network it is on; one that is private may well be another's.
    var isOfLocalNetwork: Bool { OnLinkNetworks.now.contains(self) }
}
