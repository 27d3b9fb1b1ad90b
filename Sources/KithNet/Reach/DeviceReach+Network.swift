import KithReach
import KithWire
import Synchronization

// This device's network: its addresses, and what servers outside and the router say of them.
extension DeviceReach {
    func networkChanged(to found: [NetworkInterface], at now: ContinuousClock.Instant) {
        let before = interfaces
        interfaces = found
        guard before != found else { return }
        let addresses = localAddresses
        if before != nil {
            info.candidates.networkChanged()
            choice.networkChanged(at: now)
            lookAgain(at: now)
        }
        info.candidates.set(addresses)
        info.isMetered =
            !found.contains { $0.leadsElsewhere && $0.kind != .cellular } && found.contains { $0.kind == .cellular }
        stun.removeAll()
        endMapping()
        reporter = NetworkReporter(localAddresses: addresses.map(\.address))
        nextQuestions = now
        mappingChanged()
    }

    /// The network is another, or time has passed unnoticed: nothing that was known of servers and relays need hold.
    func lookAgain(at now: ContinuousClock.Instant) {
        for relay in relays.values { relay.link.client.networkChanged() }
        for relay in servers.keys { lookUp(relay) }
        nextQuestions = now
    }

    /// This device's addresses, with the port it listens at.
    var localAddresses: [LocalAddress] {
        let bound = Set(endpoint.localAddresses)
        return (interfaces ?? []).flatMap { interface in
            interface.addresses.compactMap { address in
                let address = address.withPort(endpoint.port)
                guard bound.contains(address) else { return nil }
                return LocalAddress(
                    address, on: interface.kind == .cellular ? .cellular : LocalAddress.Interface(named: interface.name)
                )
            }
        }
    }

    func mappingChanged() {
        reporter.mapped(to: mapping?.external)
        info.candidates.set(mapping.map { [$0.external] } ?? [], of: .mapped)
    }

    /// Finds the servers at a relay, in the background.
    func lookUp(_ relay: RelayAddress) {
        // This very machine would see another address than servers outside.
        guard relay != options.hosted?.relay else { return }
        servers[relay] = servers[relay] ?? []
        Task { [feed = inputs.continuation] in
            feed.yield(.servers(await HostAddresses.of(relay.host, port: Self.stunPort), of: relay))
        }
    }

    /// Tells whether this device has a way to an address, as far as its own say.
    func mayReach(_ server: NetworkAddress) -> Bool {
        endpoint.localAddresses.contains { address in
            address.isIPv6 == server.isIPv6 && !address.isLinkLocal && address.isLoopback == server.isLoopback
        }
    }

    /// Asks servers from where they see this device, and takes their answers in.
    func askServers(at now: ContinuousClock.Instant) {
        stun.timedOut(at: now)
        if nextQuestions <= now {
            let isIdle = endpoint.connections.isEmpty
            nextQuestions = now + (isIdle ? Self.idleQuestionInterval : Self.questionInterval)
            lastQuestions = now
            // Who goes through relays alone needs no address outside.
            let isWanted = info.preference == .auto || info.preference == .direct
            let reachable = isWanted ? Set(servers.values.joined().filter { mayReach($0) }) : []
            mailbox.withLock { $0.servers = reachable }
            for server in reachable
            where stun.ask(STUNClient.Request(server: server), at: now, using: &random) {
                reporter.asked(server, at: now)
            }
            // A name that had no address may have one by now.
            for (relay, addresses) in servers where addresses.isEmpty && !isIdle { lookUp(relay) }
        }
        while let datagram = stun.nextDatagram(at: now) { endpoint.send(datagram.bytes, to: datagram.server) }
        var isNew = false
        while let result = stun.nextResult() {
            guard case .answered(let mapped, _, _) = result.outcome else { continue }
            reporter.answered(result.request.server, mapped: mapped)
            isNew = true
        }
        guard isNew else { return }
        let report = reporter.report(at: now)
        info.candidates.set([report.publicIPv4, report.publicIPv6].compactMap(\.self), of: .reflexive)
        if reporter.wantsNewMapping { observeMapping(at: now) }
    }
}
