import ArgumentParser
import Kith
import KithNet
import KithReach
import KithRelayServer
import KithWire

/// The place at which others reach a relay of this machine: a name or an address, and a TCP port.
struct RelayPlace: CustomStringConvertible {
    /// The port when none is given.
    static let defaultPort: UInt16 = 3_340

    let host: String
    let port: UInt16

    init(host: String, port: UInt16 = defaultPort) { (self.host, self.port) = (host, port) }

    init(_ argument: String) throws {
        guard let address = RelayAddress("https://" + argument), address.key == nil else {
            throw ValidationError(
                "--relay-address takes a name or an address, such as home.example.org, 203.0.113.7:3340 or [2001:db8::7]:3340."
            )
        }
        host = address.host
        // A URL without a port has that of HTTPS; so has one that names it.
        let isNamed = argument.hasSuffix(":\(address.port)")
        port = isNamed ? address.port : Self.defaultPort
    }

    var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

    /// The address of this machine that most others reach: a public one, IPv4 first; else one of its local network.
    static var ofThisMachine: RelayPlace? {
        guard let best = addressesOfThisMachine.first,
            let address = RelayAddress("https://\(best.withPort(defaultPort))")
        else { return nil }
        return RelayPlace(host: address.host)
    }

    /// The addresses at which others may reach this machine: public ones before those of its local network, IPv4 first.
    static var addressesOfThisMachine: [NetworkAddress] {
        func rank(_ address: NetworkAddress) -> Int { (address.isPrivate ? 2 : 0) + (address.isIPv6 ? 1 : 0) }
        return NetworkInterface.all.filter(\.leadsElsewhere).flatMap(\.addresses).filter {
            !$0.isLoopback && !$0.isLinkLocal && !$0.isUnspecified
        }
        .sorted { rank($0) < rank($1) }
    }

    /// An address as a URL's host has it, without its port and without brackets.
    static func host(of address: NetworkAddress) -> String {
        let text = String(address.description.prefix { $0 != "]" }.drop { $0 == "[" })
        return address.isIPv6 ? text : String(text.prefix { $0 != ":" })
    }

    /// Indicates whether only devices on this machine's own network reach it.
    var isLocal: Bool {
        NetworkAddress(host.contains(":") ? "[\(host)]:1" : "\(host):1").map { $0.isPrivate || $0.isLoopback } ?? false
    }
}

extension UpCommand {
    /// Settles where the relay of this process listens, and where others reach it.
    func relayPlan() throws -> Device.HostedRelay {
        guard let place = relayPlace ?? RelayPlace.ofThisMachine else {
            throw KithError(
                .unreachable,
                "No address of this machine is known at which others reach a relay. Say it: --relay-address HOST:PORT")
        }
        guard let everywhere = NetworkAddress("[::]:\(place.port)") else { preconditionFailure("an address") }
        return Device.HostedRelay(host: place.host, port: place.port, listen: relayListen ?? everywhere)
    }

    /// Says so where devices on other networks do not reach the relay of this device.
    func noteLocalRelay() {
        guard hostsRelay, let place = relayPlace ?? RelayPlace.ofThisMachine, place.isLocal else { return }
        note(
            "This machine stands behind a NAT, or on a network of its own: \(relayPlace == nil ? "none of its addresses is public" : "\(place.host) is not a public address"). Devices on other networks do not reach a relay at \(place.host). Have the router pass TCP and UDP port \(place.port) and UDP port 3478 on to this machine, and say the address outside: --relay-address HOST:PORT."
        )
    }

    /// Says so where others are going to be told a relay by an address that leads there from one network only.
    func noteLocalAddresses() {
        for relay in relays.compactMap(\.self) where relay.isOfLocalNetwork {
            note(
                "\(relay.host) is an address of a local network. Invitations and directories name the relay by it, and devices on other networks do not reach it there: use its name, or its address outside."
            )
        }
    }

    /// Starts the relay of this process, which proves itself by a key of its own.
    func openRelay(_ plan: Device.HostedRelay, for device: Device) async throws -> RelayServer {
        var options = RelayServerOptions(address: plan.listen)
        options.identity = try device.relayKey
        options.decide = { [weak device] in device?.relayAccess(of: $0) ?? .deny("this device is going") }
        options.loops = 1
        // At the port of the URL, as TCP.
        (options.quicAddress, options.quicKey) = (plan.listen, options.identity)
        // It is a part of the device, which needs descriptors, too.
        (options.limits.sockets, options.limits.allSockets, options.limits.halfOpen) = (64, 1_024, 128)
        if relaySTUN != "none" {
            options.stunAddress = try relaySTUN.map(RelayCommand.address) ?? plan.listen.withPort(3_478)
            RelayCommand.noteSTUNPort(options.stunAddress)
            options.discoveryAddress = plan.listen.withPort(AddressDiscovery.port)
        }
        let server = try await RelayServer.open(options, logger: globals.logger)
        return server
    }
}
