import KithIdentity
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
            lookAgain(isElsewhere: true, at: now)
        }
        info.candidates.set(addresses)
        info.isMetered =
            options.times == .saving
            || !found.contains { $0.leadsElsewhere && $0.kind != .cellular } && found.contains { $0.kind == .cellular }
        stun.removeAll()
        observations.removeAll()
        unanswered = [:]
        endMapping()
        reporter = NetworkReporter(localAddresses: addresses.map(\.address))
        nextQuestions = now
        mappingChanged()
        advertised.keep(Set(found.map(\.index)))
        lookForNAT64(in: found)
    }

    /// The network is another, or time has passed unnoticed: nothing that was known of servers and relays need hold.
    func lookAgain(isElsewhere: Bool, at now: ContinuousClock.Instant) {
        for relay in relays.values { relay.link.client.networkChanged(isElsewhere: isElsewhere) }
        for relay in servers.keys { lookUp(relay) }
        nextQuestions = now
    }

    /// This device's addresses, with the port it listens at.
    var localAddresses: [LocalAddress] {
        let bound = Set(endpoint.localAddresses)
        return (interfaces ?? []).flatMap { interface in
            interface.addresses.compactMap { address in
                let local = address.withPort(endpoint.port)
                guard bound.contains(local) else { return nil }
                return LocalAddress(
                    local,
                    on: interface.kind == .cellular ? .cellular : LocalAddress.Interface(named: interface.name),
                    isDeprecated: interface.deprecated.contains(address),
                    isTemporary: interface.temporary.contains(address))
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
        let isOwn = ownRelays.contains(relay)
        Task { [feed = inputs.continuation] in
            var addresses = await HostAddresses.of(relay.host, port: Self.stunPort)
            if !isOwn {
                // The name must not lead where its address might not, nor to many.
                if relay.mayBeNamedByPeers { addresses.removeAll { !$0.mayBeNamedByPeers } }
                addresses = [false, true].compactMap { isIPv6 in addresses.first { $0.isIPv6 == isIPv6 } }
            }
            feed.yield(.servers(addresses, of: relay))
        }
    }

    /// The addresses of the servers to ask, by the ways that lead there from here.
    ///
    /// Those at relays of other devices, where this one is a guest, count as long as none of its own has answered:
    /// whoever runs them could say what is not so.
    private var serversToAsk: Set<NetworkAddress> {
        let mine = ownRelays
        func reachable(_ isIncluded: (RelayAddress) -> Bool) -> Set<NetworkAddress> {
            Set(servers.filter { isIncluded($0.key) }.values.joined().map { way(to: $0) }.filter { mayReach($0) })
        }
        let own = reachable(mine.contains)
        return reporter.hasHeard(of: own) ? own : own.union(reachable { !mine.contains($0) })
    }

    /// Tells whether this device has a way to an address, as far as its own say.
    func mayReach(_ server: NetworkAddress) -> Bool {
        endpoint.localAddresses.contains { address in
            address.isIPv6 == server.isIPv6 && !address.isLinkLocal && address.isLoopback == server.isLoopback
        }
    }

    /// The time between two questions to servers while another device is connected.
    func pauseBetweenQuestions(at now: ContinuousClock.Instant) -> Duration {
        reporter.report(at: now).udp == .works ? options.times.questions : options.times.unansweredQuestions
    }

    /// Asks servers from where they see this device, and takes their answers in.
    func askServers(at now: ContinuousClock.Instant) {
        stun.timedOut(at: now)
        if let due = nextQuestions, due <= now {
            let isIdle = endpoint.connections.isEmpty
            // The first device that connects has them asked again.
            nextQuestions = (isIdle ? options.times.idleQuestions : pauseBetweenQuestions(at: now)).map { now + $0 }
            lastQuestions = now
            // Who goes through relays alone needs no address outside.
            let isWanted = info.preference == .auto || info.preference == .direct
            let reachable = isWanted ? serversToAsk : []
            mailbox.withLock { $0.servers = reachable }
            if !reachable.isEmpty { reporter.keep(reachable) }
            for server in reachable
            where stun.ask(STUNClient.Request(server: server), at: now, using: &random) {
                reporter.asked(server, byNAT64: isByNAT64(server), at: now)
            }
            // A name that had no address may have one by now.
            for (relay, addresses) in servers where addresses.isEmpty && !isIdle { lookUp(relay) }
            if nat64.withLock({ $0 == nil }), let interfaces { lookForNAT64(in: interfaces) }
        }
        while let datagram = stun.nextDatagram(at: now) { endpoint.send(datagram.bytes, to: datagram.server) }
        var isNew = false
        while let result = stun.nextResult() {
            switch result.outcome {
            case .answered(let mapped, _, let roundTrip):
                reporter.answered(result.request.server, mapped: mapped)
                measured(result.request.server, roundTrip: roundTrip, at: now)
                isNew = true
                // On a battery nobody asks before a device is connected, which is what it would be for.
                let isSaving = options.times == .saving && endpoint.connections.isEmpty
                if !isSaving, reporter.wantsOtherPort(of: result.request.server, at: now) {
                    askByQUIC(result.request.server, after: Self.portInterval, at: now)
                }
            case .timedOut: askByQUIC(result.request.server, after: Self.unansweredInterval, at: now)
            case .refused: break
            }
        }
        if isNew { addressesObserved(at: now) }
    }

    /// Notes the round trip to a server as that to its relay, which need not be connected for that.
    private func measured(_ server: NetworkAddress, roundTrip: Duration, at now: ContinuousClock.Instant) {
        for (relay, addresses) in servers where addresses.contains(where: { way(to: $0).hasSameIP(as: server) }) {
            // Through a proxy the way is another.
            if let route = options.proxy?.route(to: relay), route != .direct { continue }
            choice.measured(relay, roundTrip: roundTrip, at: now)
        }
    }

    /// Indicates whether a server is one of IPv4, reached by a NAT64.
    private func isByNAT64(_ server: NetworkAddress) -> Bool {
        server.isIPv6 && servers.values.contains { $0.contains { !$0.isIPv6 && way(to: $0) == server } }
    }

    /// Asks a relay over QUIC: one that does not answer STUN, or whose other port is to say what it sees.
    ///
    /// When it did not answer that either, it is asked again after a pause.
    private func askByQUIC(_ server: NetworkAddress, after pause: Duration, at now: ContinuousClock.Instant) {
        // Of a network before, or of a relay that is left.
        guard mailbox.withLock({ $0.servers.contains(server) }),
            let relay = servers.first(where: { $0.value.contains { way(to: $0) == server } })?.key
        else { return }
        let asked = server.withPort(AddressDiscovery.port)
        guard unanswered[asked].map({ now - $0 >= pause }) ?? true, askedByQUIC.insert(asked).inserted else { return }
        let isName = NetworkAddress(relay.host.contains(":") ? "[\(relay.host)]:1" : "\(relay.host):1") == nil
        reporter.asked(asked, byNAT64: isByNAT64(server), at: now)
        Task { [endpoint, feed = inputs.continuation, generation = info.candidates.generation] in
            let answer = await endpoint.observedAddress(
                by: asked, named: isName ? relay.host : nil, key: relay.key)
            feed.yield(.observed(answer, by: asked, generation: generation))
        }
    }

    /// Takes the answer of a server over QUIC in.
    func serverObserved(
        _ answer: AddressDiscovery.Answer?, by server: NetworkAddress, generation: UInt32,
        at now: ContinuousClock.Instant
    ) {
        askedByQUIC.remove(server)
        guard generation == info.candidates.generation else { return }
        guard let answer else {
            unanswered = unanswered.filter { now - $0.value < Self.portInterval }
            unanswered[server] = now
            return
        }
        unanswered[server] = nil
        reporter.answered(server, mapped: answer.mapped)
        measured(server, roundTrip: answer.roundTrip, at: now)
        addressesObserved(at: now)
    }

    /// Takes in where devices see this one.
    func devicesObserved(_ news: [DeviceID: [NetworkAddress]], at now: ContinuousClock.Instant) {
        for (device, addresses) in news {
            // Who is reached by relays or here alone needs no address outside.
            let preference = preference(for: device)
            guard preference == .auto || preference == .direct else { continue }
            for address in addresses { _ = observations.observed(address, by: device) }
        }
        addressesObserved(at: now)
    }

    /// The addresses of this device that its record has: public ones of its own, one that its router passes on, and those
    /// that servers see where everybody sees the same.
    func publishedAddresses(by report: NetworkReport) -> [NetworkAddress] {
        guard options.publishesAddresses, info.preference == .auto || info.preference == .direct else { return [] }
        let seen = report.nat.isHard ? [report.publicIPv6] : [report.publicIPv4, report.publicIPv6]
        let own = localAddresses.filter { !$0.isDeprecated }.map(\.address)
        let all = own + [mapping?.external].compactMap(\.self) + seen.compactMap(\.self)
        return Array(all.distinct.filter(PeerObservations.isPublic).prefix(DeviceRecord.maxAddresses))
    }

    /// Tells other devices the addresses outside: those that servers see, and after them those that devices see.
    private func addressesObserved(at now: ContinuousClock.Instant) {
        let report = reporter.report(at: now)
        let servers = [report.publicIPv4, report.publicIPv6].compactMap(\.self)
        info.candidates.set(servers + observations.addresses(besides: servers), of: .reflexive)
        if reporter.wantsNewMapping { observeMapping(at: now) }
    }
}
