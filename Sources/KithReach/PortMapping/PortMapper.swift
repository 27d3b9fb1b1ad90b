package import KithWire

/// Has a router pass a port on to this device: by PCP, by NAT-PMP or by UPnP, whichever it speaks.
///
/// All three are tried at once; a mapping is made by the best that answers, and only by that one, so that no two of them
/// undo each other. PCP asks for it in its first datagram; NAT-PMP and UPnP look first, and wait up to ``patience`` for
/// a better one. What is mapped is renewed at half its life, is asked for again when the router was started anew, and
/// is given back by ``release()``. When nothing answers, the next attempt comes after a minute, and then after twice
/// as long each time, up to an hour; another network is another mapper.
///
/// A value: the driver sends ``nextDatagram(at:)``, makes ``nextExchange()``, feeds what arrives and the time, and takes
/// ``nextUpdate()``.
package struct PortMapper: Sendable {
    /// The time for which a better protocol is waited for.
    package static let patience = Duration.milliseconds(500)
    /// The wait after the first attempt that failed, and the longest.
    package static let waits = (first: Duration.seconds(60), longest: Duration.seconds(3_600))

    /// The router.
    package let gateway: NetworkAddress
    private var pcp: GatewayClient
    private var natPMP: GatewayClient
    private var upnp: UPnPClient
    private let fresh: (pcp: GatewayClient, natPMP: GatewayClient, upnp: UPnPClient)
    private var chosen: PortMapping.Method?
    private var started: ContinuousClock.Instant?
    private var retry: ContinuousClock.Instant?
    private var failures = 0
    private var updates: [PortMappingUpdate] = []
    private var last: PortMappingUpdate?

    /// Makes a mapper for the router at `gateway`; `local` is this device's address there, with its port.
    ///
    /// Of IPv6, PCP and UPnP are tried: they let packets in at the address that the device has.
    package init(gateway: NetworkAddress, local: NetworkAddress, using random: inout some RandomNumberGenerator) {
        self.gateway = gateway
        let nonce = PCPNonce(using: &random)
        pcp = GatewayClient(.pcp(nonce), gateway: gateway, local: local)
        natPMP = GatewayClient(.natPMP, gateway: gateway, local: local)
        upnp = UPnPClient(gateway: gateway, local: local, using: &random)
        fresh = (pcp, natPMP, upnp)
    }

    /// The mapping; `nil` when there is none now.
    package var mapping: PortMapping? {
        if case .mapped(let mapping) = last { mapping } else { nil }
    }

    /// Begins.
    package mutating func start(at now: ContinuousClock.Instant) {
        (pcp, natPMP, upnp) = fresh
        (chosen, retry, started) = (nil, nil, now)
        pcp.start(at: now)
        if gateway.isIPv6 {
            natPMP.abandon()
        } else {
            natPMP.start(at: now)
        }
        upnp.start(at: now)
    }

    /// What gives back everything that the router may have been asked for.
    package struct Release: Sendable {
        /// Datagrams to the router, at ``GatewayClient/port``.
        package let datagrams: [[UInt8]]
        /// A request of HTTP.
        package let exchange: UPnPClient.Exchange?
    }

    /// Ends; returns what gives the mapping back.
    package mutating func release() -> Release {
        let datagrams = [pcp.release(), natPMP.release()].compactMap(\.self)
        (started, retry, chosen, last) = (nil, nil, nil, nil)
        return Release(datagrams: datagrams, exchange: upnp.release())
    }

    /// The next datagram to send now, and to whom; `nil` for none.
    package mutating func nextDatagram(at now: ContinuousClock.Instant) -> (bytes: [UInt8], to: NetworkAddress)? {
        if let bytes = pcp.nextDatagram(at: now) { return (bytes, pcp.gateway) }
        if let bytes = natPMP.nextDatagram(at: now) { return (bytes, natPMP.gateway) }
        return upnp.nextDatagram()
    }

    /// The next request of HTTP to make now; `nil` for none.
    package mutating func nextExchange() -> UPnPClient.Exchange? { upnp.nextExchange() }

    /// The next news; `nil` when there are none.
    package mutating func nextUpdate() -> PortMappingUpdate? { updates.isEmpty ? nil : updates.removeFirst() }

    /// Takes a datagram in that came to the socket from which those of ``nextDatagram(at:)`` are sent.
    package mutating func receive(
        _ datagram: [UInt8], from source: NetworkAddress, at now: ContinuousClock.Instant
    ) {
        pcp.receive(datagram, from: source, at: now)
        natPMP.receive(datagram, from: source, at: now)
        upnp.receive(datagram, from: source, at: now)
        decide(at: now)
    }

    /// Takes a datagram in that came to the group at which routers say that they were started anew.
    package mutating func receive(
        announcement datagram: [UInt8], from source: NetworkAddress, at now: ContinuousClock.Instant
    ) {
        pcp.receive(announcement: datagram, from: source, at: now)
        natPMP.receive(announcement: datagram, from: source, at: now)
        decide(at: now)
    }

    /// Takes the answer to a request of HTTP in; `nil` when there was none.
    package mutating func receive(_ answer: HTTPAnswer?, to number: UInt64, at now: ContinuousClock.Instant) {
        upnp.receive(answer, to: number, at: now)
        decide(at: now)
    }

    /// Gives up what has waited long enough, and begins what is due.
    package mutating func timedOut(at now: ContinuousClock.Instant) {
        if let retry, retry <= now { start(at: now) }
        pcp.timedOut(at: now)
        natPMP.timedOut(at: now)
        upnp.timedOut(at: now)
        decide(at: now)
    }

    /// The time at which ``timedOut(at:)``, and then the rest, are to be called; `nil` for never.
    package var nextDeadline: ContinuousClock.Instant? {
        var times = [pcp.nextDeadline, natPMP.nextDeadline, upnp.nextDeadline, retry]
        if chosen == nil, let started, natPMP.state == .found || upnp.state == .found {
            times.append(started + Self.patience)
        }
        return times.compactMap(\.self).min()
    }

    // MARK: - The choice

    private mutating func decide(at now: ContinuousClock.Instant) {
        guard let started, retry == nil else { return }
        if chosen == nil { choose(at: now, isPatient: now < started + Self.patience) }
        switch chosen {
        case .pcp: follow(pcp.state, at: now)
        case .natPMP:
            if case .failed = natPMP.state, mapping == nil {
                // Refused: UPnP may do what NAT-PMP would not.
                chosen = nil
                decide(at: now)
            } else {
                follow(natPMP.state, at: now)
            }
        case .upnp:
            switch upnp.state {
            case .mapped(let mapping): report(.mapped(mapping))
            case .failed(let failure): failed(failure, at: now)
            default: break
            }
        case nil:
            if case .failed(let one) = pcp.state, case .failed(let two) = natPMP.state,
                case .failed(let three) = upnp.state
            {
                // A refusal says more than silence does.
                let failures = [one, two, three]
                failed(failures.first { if case .refused = $0 { true } else { false } } ?? .silent, at: now)
            }
        }
    }

    private mutating func choose(at now: ContinuousClock.Instant, isPatient: Bool) {
        func isOpen(_ state: GatewayClient.State) -> Bool {
            if case .failed = state { false } else { true }
        }
        if case .mapped = pcp.state {
            chosen = .pcp
            natPMP.abandon()
            upnp.abandon()
        } else if isPatient, isOpen(pcp.state) {
            return
        } else if natPMP.state == .found {
            chosen = .natPMP
            pcp.abandon()
            natPMP.map(at: now)
        } else if isPatient, isOpen(natPMP.state) {
            return
        } else if upnp.state == .found {
            chosen = .upnp
            pcp.abandon()
            natPMP.abandon()
            upnp.map(at: now)
        }
    }

    private mutating func follow(_ state: GatewayClient.State, at now: ContinuousClock.Instant) {
        switch state {
        case .mapped(let mapping): report(.mapped(mapping))
        case .failed(let failure): failed(failure, at: now)
        default: break
        }
    }

    private mutating func report(_ update: PortMappingUpdate) {
        if case .mapped = update { failures = 0 }
        guard update != last else { return }
        last = update
        updates.append(update)
    }

    private mutating func failed(_ failure: PortMappingFailure, at now: ContinuousClock.Instant) {
        let wasMapped = mapping != nil
        report(.unavailable(failure))
        chosen = nil
        // What was there a moment ago is looked for at once; the last failure may have been that protocol's alone.
        let wait = wasMapped ? .seconds(1) : Self.waits.first * (1 << min(failures, 6))
        failures += 1
        retry = now + min(wait, Self.waits.longest)
    }
}
