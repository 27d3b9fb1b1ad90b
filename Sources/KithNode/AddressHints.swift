import KithAPI
import KithIdentity
public import KithNet
public import KithWire

/// A host by its name, and a port: `nas.example.org:4433`.
public struct HostAndPort: Hashable, Sendable, CustomStringConvertible {
    /// The name, in lower case.
    public let name: String
    /// The UDP port, not 0.
    public let port: UInt16

    /// Reads a name and a port; nil for anything else, as an address, or a name without a port.
    public init?(_ text: String) {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, let name = HostName.normalised(parts[0]), let port = UInt16(parts[1]), port != 0 else {
            return nil
        }
        (self.name, self.port) = (name, port)
    }

    /// The form that is read.
    public var description: String { "\(name):\(port)" }
}

/// The addresses to try before those at which a device was reached: hints, which decide nothing but the order.
struct AddressHints: Sendable {
    /// What is heard on the local network.
    var discovery: LocalDiscovery?
    /// Addresses that this device's person has given, by the name or the DeviceID of a device.
    var fixed: [String: [NetworkAddress]] = [:]
    /// Names of hosts that were given likewise.
    var hosts: [String: [HostAndPort]] = [:]
    /// Looks a name up; none when it is not known, or the task is cancelled.
    var lookUp: @Sendable (_ name: String, _ port: UInt16) async -> [NetworkAddress] = { name, port in
        await HostAddresses.of(name, port: port)
    }

    /// Returns the places to try, best first: where the device was just heard, where it is said to be, where it was.
    ///
    /// `named` are the addresses of its ``hosts(of:)``.
    func places(of device: KnownDevice, named: [NetworkAddress] = []) -> [NetworkAddress] {
        var seen: Set<NetworkAddress> = []
        return ((discovery?.addresses(of: device.id) ?? []) + Self.given(fixed, for: device) + named + device.addresses)
            .filter { seen.insert($0).inserted }
    }

    /// Returns the names of hosts at which a device is said to be.
    func hosts(of device: KnownDevice) -> [HostAndPort] { Self.given(hosts, for: device) }

    private static func given<Place>(_ places: [String: [Place]], for device: KnownDevice) -> [Place] {
        (places[device.name] ?? []) + places.filter { DeviceID($0.key) == device.id }.flatMap(\.value)
    }
}

extension Node {
    /// Finds paired devices by what `discovery` hears, and at the addresses in `fixed` and the hosts in `hosts`, by their
    /// names or DeviceIDs.
    ///
    /// Hosts are looked up each time a device is dialed. Call ``heard(_:)`` with what `discovery` notes.
    public func find(
        by discovery: LocalDiscovery?, fixed: [String: [NetworkAddress]] = [:], hosts: [String: [HostAndPort]] = [:]
    ) {
        hints = AddressHints(discovery: discovery, fixed: fixed, hosts: hosts)
    }

    /// Takes in what was heard on the local network: an attempt to reach the device that is under way goes there, too.
    public func heard(_ event: LocalDiscovery.Event) {
        if case .found(let device, let addresses) = event { dialer?.found(device, at: addresses) }
    }

    /// The longest that names of hosts are looked up before a device is dialed without them.
    private static let lookUpTime = Duration.seconds(3)

    /// Returns the places to try, with the addresses that the names of hosts have now; half of `timeout` at most goes to
    /// looking them up.
    func places(of device: KnownDevice, within timeout: Duration = Duration.seconds(10)) async -> [NetworkAddress] {
        let hints = hints
        let hosts = hints.hosts(of: device)
        guard !hosts.isEmpty else { return hints.places(of: device) }
        let named = await withTaskGroup(of: (Int, [NetworkAddress]).self) { group in
            for (index, host) in hosts.enumerated() {
                group.addTask { [clock] in
                    let found = try? await withDeadline(min(Self.lookUpTime, timeout / 2), on: clock) {
                        await hints.lookUp(host.name, host.port)
                    }
                    // Not in time, or the caller is gone: without it.
                    return (index, found ?? [])
                }
            }
            var found: [(Int, [NetworkAddress])] = []
            for await answer in group { found.append(answer) }
            return found.sorted { $0.0 < $1.0 }.flatMap(\.1)
        }
        return hints.places(of: device, named: named)
    }
}
