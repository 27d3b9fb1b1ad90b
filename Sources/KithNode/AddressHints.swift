import KithIdentity
public import KithNet
public import KithWire

/// The addresses to try before those at which a device was reached: hints, which decide nothing but the order.
struct AddressHints: Sendable {
    /// What is heard on the local network.
    var discovery: LocalDiscovery?
    /// Addresses that this device's person has given, by the name or the DeviceID of a device.
    var fixed: [String: [NetworkAddress]] = [:]

    /// Returns the places to try, best first: where the device was just heard, where it is said to be, where it was.
    func places(of device: KnownDevice) -> [NetworkAddress] {
        let given = (fixed[device.name] ?? []) + fixed.filter { DeviceID($0.key) == device.id }.flatMap(\.value)
        var seen: Set<NetworkAddress> = []
        return ((discovery?.addresses(of: device.id) ?? []) + given + device.addresses)
            .filter { seen.insert($0).inserted }
    }
}

extension Node {
    /// Finds paired devices by what `discovery` hears, and at the addresses in `fixed`, by their names or DeviceIDs.
    ///
    /// Call ``heard(_:)`` with what `discovery` notes.
    public func find(by discovery: LocalDiscovery?, fixed: [String: [NetworkAddress]] = [:]) {
        hints = AddressHints(discovery: discovery, fixed: fixed)
    }

    /// Takes in what was heard on the local network: an attempt to reach the device that is under way goes there, too.
    public func heard(_ event: LocalDiscovery.Event) {
        if case .found(let device, let addresses) = event { dialer?.found(device, at: addresses) }
    }
}
