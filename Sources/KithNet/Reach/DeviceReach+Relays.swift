import KithIO
import KithIdentity
import KithReach
import NIOPosix
import Synchronization

// The links to relays: those at which this device is to be found, and those that lead to other devices.
extension DeviceReach {
    nonisolated var ownRelays: Set<RelayAddress> { Set(own.withLock { $0 }) }

    func perform(_ action: RelayChoice.Action, at now: ContinuousClock.Instant) {
        switch action {
        case .attach(let address):
            guard let relay = open(address, at: now) else { return }
            relays[address]?.isAttached = true
            relays[address]?.unneeded = nil
            if case .connected = relay.state {
                choice.letIn(by: address, at: now)
            } else {
                relay.link.client.connect()
            }
        case .detach(let address):
            relays[address]?.isAttached = false
            needsChanged(at: now)
        case .announce: break
        }
    }

    /// The link to a relay; nil when it refused this device a moment ago, or when there are too many.
    func open(_ address: RelayAddress, at now: ContinuousClock.Instant) -> Relay? {
        guard phase != .stopped else { return nil }
        if let relay = relays[address] {
            // One that refused is asked again after a while.
            if case .denied = relay.state, !relay.isAttached, refusals[address].map({ $0 <= now }) ?? true {
                refusals[address] = now + Self.refusalTime
                relay.link.client.connect()
            }
            return relay
        }
        let mine = ownRelays
        if !mine.contains(address) {
            refusals = refusals.filter { $0.value > now }
            guard refusals[address] == nil else { return nil }
            guard relays.keys.count(where: { !mine.contains($0) }) < Self.maxForeign else { return nil }
        }
        var settings = RelayClient.Options(address)
        settings.token = token(for: address)
        (settings.keepAlive, settings.longestPause) = (options.times.relayPings, options.times.longestPause)
        // NATs forget UDP within half a minute, TCP within hours.
        if options.times == .saving { settings.usesQUIC = false }
        settings.trustedCertificates = options.trustedCertificates
        if let hosted = options.hosted, hosted.relay == address { settings.connectsTo = hosted.address }
        settings.proxy = options.proxy
        settings.way = { [weak self] in self?.way(to: $0) ?? $0 }
        // Its name must not lead where its address might not.
        settings.refusesThisMachine = !mine.contains(address) && address.mayBeNamedByPeers
        let feed = inputs.continuation
        let number = freeNumber()
        let link = RelayLink(
            number: number, key: key, options: settings, endpoint: endpoint,
            on: MultiThreadedEventLoopGroup.singleton.next(),
            note: { feed.yield(.relay(address, link: number, $0)) })
        var relay = Relay(link: link)
        relay.lostAt = now
        relays[address] = relay
        link.client.connect()
        return relay
    }

    /// The relay to use for one that another device or a record names: with and without its key it is one.
    ///
    /// What this device's settings say of it counts. Where they know no key, a certificate has to prove the relay; as
    /// long as none does, the named key may. Elsewhere a key counts once the relay has proven it.
    func used(for named: RelayAddress) -> RelayAddress {
        let mine = own.withLock { $0 }
        if mine.contains(named) { return named }
        if let own = mine.first(where: { $0.isSameRelay(as: named) }) {
            return own.key != nil || relays[own]?.isPromising != false ? own : named
        }
        guard named.key == nil else { return named }
        return relays.first { $0.key.isSameRelay(as: named) && $0.key.key != nil && $0.value.wasLetIn }?.key ?? named
    }

    /// The relays to use for those that are named, each once.
    func used(for named: [RelayAddress]) -> [RelayAddress] {
        named.reduce(into: []) { relays, relay in
            let used = used(for: relay)
            if !relays.contains(used) { relays.append(used) }
        }
    }

    /// Has the devices that name a relay otherwise be reached by the link that is of use now.
    private func relink(_ address: RelayAddress, at now: ContinuousClock.Instant) {
        for device in peers.devices
        where peers.relays(of: device).contains(where: { $0 != address && $0.isSameRelay(as: address) }) {
            usePeerRelays(of: device, at: now)
        }
    }

    func freeNumber() -> UInt32 {
        let used = Set(relays.values.map(\.link.number))
        repeat { nextNumber = (nextNumber + 1) & 0x7FFF } while used.contains(nextNumber)
        return nextNumber
    }

    func relayChanged(
        _ address: RelayAddress, _ number: UInt32, to state: RelayClient.State, at now: ContinuousClock.Instant
    ) {
        // Of one that was closed and opened anew, nothing counts any more.
        guard let relay = relays[address], relay.link.number == number else { return }
        let wasConnected = if case .connected = relay.state { true } else { false }
        relays[address]?.state = state
        relays[address]?.noteFailure(in: state, at: now)
        switch state {
        case .connected(let roundTrip):
            if !wasConnected {
                relays[address]?.wasLetIn = true
                endpoint.add(relay.link)
                choice.letIn(by: address, at: now)
                opened(address, number)
                relink(address, at: now)
                // At another device's relay a guest learns its address outside as well.
                if servers[address] == nil { lookUp(address) }
            }
            if let roundTrip { choice.measured(address, roundTrip: roundTrip, at: now) }
        case .restarting, .waiting, .captive:
            if wasConnected { endpoint.removeLink(number) }
            choice.lost(address, at: now)
            opened(address, nil)
            if !relay.wasLetIn { relink(address, at: now) }
        case .denied(let reason):
            endpoint.removeLink(number)
            choice.refused(by: address, at: now)
            opened(address, nil)
            if !relay.wasLetIn { relink(address, at: now) }
            if relay.isAttached {
                logger.warning(
                    "a relay does not let this device in",
                    metadata: ["relay": "\(address)", "reason": "\(reason.prefix(200))"])
            } else {
                refusals[address] = now + Self.refusalTime
            }
        case .idle, .connecting, .closed: break
        }
    }

    /// Ends the wait for a link.
    func opened(_ address: RelayAddress, _ number: UInt32?) {
        relays[address]?.opening?.fulfil(number)
        relays[address]?.opening = nil
    }

    /// Notes which relays nothing needs any more.
    func needsChanged(at now: ContinuousClock.Instant) {
        let needed = Set(peers.relays.map { used(for: $0) })
        for (address, relay) in relays {
            if relay.isAttached || needed.contains(address) {
                relays[address]?.unneeded = nil
            } else if relay.unneeded == nil {
                relays[address]?.unneeded = now
                nextSweep = now
            }
        }
    }

    /// Leaves relays that nothing needs; one by which a connection still sends a little later.
    func sweep() async {
        peers.expire(at: .now) { endpoint.connection(to: $0) != nil }
        needsChanged(at: .now)
        nextSweep = .now + PeerRelays.idleTime / 4
        guard relays.values.contains(where: { $0.unneeded != nil }) else { return }
        let active = await endpoint.activeLinks()
        for address in Array(relays.keys) {
            guard let relay = relays[address], let since = relay.unneeded else { continue }
            guard !active.contains(relay.link.number) || .now - since > Self.farewell else { continue }
            await close(address)
        }
    }

    func close(_ address: RelayAddress) async {
        guard let relay = relays.removeValue(forKey: address) else { return }
        relay.opening?.fulfil(nil)
        if !ownRelays.contains(address) { servers[address] = nil }
        endpoint.removeLink(relay.link.number)
        await relay.link.client.close()
    }
}
