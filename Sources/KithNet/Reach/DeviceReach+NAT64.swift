import KithReach
import KithWire
import Synchronization

// A network of IPv6 alone, which reaches IPv4 through a NAT64: by its prefix, whatever names this device's resolver makes
// up for it. Its routers tell the prefix (RFC 8781), or else the resolver (RFC 7050).
extension DeviceReach {
    /// Some address of the internet: the first of ``NAT64Prefix/wellKnownName``.
    private static let ipv4Internet = NetworkAddress(ipv4: (192, 0, 0, 170), port: 9)

    /// Looks for a NAT64, in the background, where the network has no IPv4; forgets it where it has.
    func lookForNAT64(in found: [NetworkInterface]) {
        // An address that leads to containers alone is no way to the internet.
        let hasIPv4 = LocalAddresses.source(to: Self.ipv4Internet) != nil
        // Where nothing is to leave the local network, its resolver is not asked either.
        guard !hasIPv4, found.contains(where: \.leadsElsewhere), info.preference != .local else { return use(nil) }
        if let prefix = advertised.prefix { return take(prefix) }
        Task { [feed = inputs.continuation, generation = info.candidates.generation] in
            let addresses = await HostAddresses.of(NAT64Prefix.wellKnownName, port: 0)
            feed.yield(.nat64(NAT64Prefix(of: addresses), generation: generation))
        }
    }

    /// Takes in what the resolver said of a NAT64 of the network: what a router says goes before it (RFC 8781 §5.1).
    func foundNAT64(_ prefix: NAT64Prefix?, generation: UInt32) {
        guard generation == info.candidates.generation, advertised.prefix == nil else { return }
        take(prefix)
    }

    /// Takes in what routers say of it.
    func routersAdvertised(_ options: [RouterOption], at now: ContinuousClock.Instant) {
        advertisementsChanged { advertised in
            for option in options { advertised.received(option, at: now) }
        }
    }

    /// Changes what routers say of it, and looks again where they say another thing then.
    func advertisementsChanged(_ change: (inout AdvertisedPrefixes) -> Void) {
        let before = advertised.prefix
        change(&advertised)
        guard advertised.prefix != before else { return }
        // It holds no more, whatever the resolver is going to say.
        if advertised.prefix == nil { use(nil) }
        if let interfaces { lookForNAT64(in: interfaces) }
    }

    private func take(_ prefix: NAT64Prefix?) {
        guard prefix != nat64.withLock({ $0 }) else { return }
        use(prefix)
        guard prefix != nil else { return }
        nextQuestions = .now
        for relay in relays.values { relay.link.client.networkChanged() }
    }

    private func use(_ prefix: NAT64Prefix?) {
        nat64.withLock { $0 = prefix }
        endpoint.use(prefix)
    }

    /// The address by which an address is reached from this network.
    nonisolated func way(to address: NetworkAddress) -> NetworkAddress {
        nat64.withLock { $0 }?.way(to: address) ?? address
    }
}

extension EndpointDriver {
    /// The addresses by which others are reached from this network: those of IPv4 by its NAT64, where it has no other way.
    func ways(to addresses: [NetworkAddress]) -> [NetworkAddress] {
        guard let nat64 else { return addresses }
        return addresses.map { nat64.way(to: $0) }
    }
}

extension Endpoint {
    /// Reaches addresses of IPv4 by a NAT64 from now on; `nil` for directly.
    func use(_ prefix: NAT64Prefix?) {
        let driver = self.driver
        driver.loop.execute { driver.nat64 = prefix }
    }
}
