package import KithWire

/// Asks one router for one mapping, by PCP or by NAT-PMP.
///
/// ```
///          start               map                 answered
///  NAT-PMP ────▶ searching ─▶ found ─▶ mapping ─────────────▶ mapped ──▶ renewed at half its life
///  PCP     ──────────────────────────▶    │                     │ expired, refused
///                                         ▼                     ▼
///                                       failed ◀────────────────┘
/// ```
///
/// A request is sent at 0, 250, 750, 1750, 3750 and 7750 ms and given up after 15.75 s. Only answers of the router
/// count, to what was asked; those of PCP carry 96 random bits. An epoch that does not go on means that the router has
/// forgotten the mapping: it is asked for again at once.
package struct GatewayClient: Sendable {
    /// The protocol.
    package enum Dialect: Hashable, Sendable {
        /// With the number that proves whose the mapping is.
        case pcp(PCPNonce)
        /// The older one.
        case natPMP
    }

    /// Where it stands.
    package enum State: Hashable, Sendable {
        /// Not begun.
        case idle
        /// The router is asked whether it is there.
        case searching
        /// The router is there, and was asked for nothing yet.
        case found
        /// The router is asked for a mapping.
        case mapping
        /// There is a mapping.
        case mapped(PortMapping)
        /// There is none.
        case failed(PortMappingFailure)
    }

    private enum Request: Hashable {
        case externalAddress, map, announce
    }

    /// The port at which routers are asked.
    package static let port: UInt16 = 5_351
    /// The wait after the first sending; it doubles.
    package static let firstInterval = Duration.milliseconds(250)
    /// How often a request is sent.
    package static let maxSendings = 6
    /// The seconds for which a mapping is asked for.
    package static let lifetime: UInt32 = 7_200
    /// The longest and the shortest life that is believed, in seconds.
    static let lives: ClosedRange<UInt32> = 20...86_400
    /// The time after which the router's epoch is looked at while nothing else is asked.
    package static let checkInterval = Duration.seconds(600)

    /// The router.
    package let gateway: NetworkAddress
    /// The address and port of this device.
    package let local: NetworkAddress
    /// The protocol.
    package let dialect: Dialect
    /// Where it stands.
    package private(set) var state = State.idle
    /// The address outside, as far as it is known.
    package private(set) var external: NetworkAddress?

    private var epoch = GatewayEpoch()
    private var pending: (request: Request, sendings: Int, deadline: ContinuousClock.Instant)?
    private var renewal: ContinuousClock.Instant?
    private var check: ContinuousClock.Instant?
    private var end: ContinuousClock.Instant?
    private var hasAsked = false
    private var suggestedPort: UInt16

    /// Makes a client of the router at `gateway`, whatever its port there; `local` is what the mapping leads to.
    package init(_ dialect: Dialect, gateway: NetworkAddress, local: NetworkAddress) {
        self.dialect = dialect
        self.gateway = gateway.withPort(Self.port)
        self.local = local
        suggestedPort = local.port
    }

    /// Begins: PCP asks for the mapping, NAT-PMP whether a router is there.
    package mutating func start(at now: ContinuousClock.Instant) {
        switch dialect {
        case .pcp: map(at: now)
        case .natPMP:
            state = .searching
            ask(.externalAddress, at: now)
        }
    }

    /// Asks for the mapping.
    package mutating func map(at now: ContinuousClock.Instant) {
        if case .mapped = state {} else { state = .mapping }
        hasAsked = true
        ask(.map, at: now)
    }

    /// Asks nothing more.
    package mutating func abandon() {
        pending = nil
        if case .mapped = state { return }
        state = .failed(.silent)
    }

    /// Ends; returns the datagram that gives the mapping back, when there may be one.
    package mutating func release() -> [UInt8]? {
        defer {
            (pending, renewal, check, end) = (nil, nil, nil, nil)
            (state, hasAsked) = (.idle, false)
        }
        guard hasAsked else { return nil }
        switch dialect {
        case .pcp(let nonce):
            return PCPRequest.map(nonce, internal: local, suggested: local.unspecified, lifetime: 0).encoded
        case .natPMP:
            return NATPMPRequest.map(internalPort: local.port, suggestedPort: 0, lifetime: 0).encoded
        }
    }

    private mutating func ask(_ request: Request, at now: ContinuousClock.Instant) {
        pending = (request, 0, now)
    }

    /// The next datagram to send to the router now; `nil` for none.
    package mutating func nextDatagram(at now: ContinuousClock.Instant) -> [UInt8]? {
        guard let (request, sendings, deadline) = pending, deadline <= now, sendings < Self.maxSendings else {
            return nil
        }
        pending = (request, sendings + 1, now + Self.firstInterval * (1 << sendings))
        switch (request, dialect) {
        case (.map, .pcp(let nonce)):
            var suggested = external ?? local.unspecified
            suggested.port = suggestedPort
            return PCPRequest.map(nonce, internal: local, suggested: suggested, lifetime: Self.lifetime).encoded
        case (.announce, _), (.externalAddress, .pcp): return PCPRequest.announce(client: local).encoded
        case (.map, .natPMP):
            return NATPMPRequest.map(
                internalPort: local.port, suggestedPort: suggestedPort, lifetime: Self.lifetime
            ).encoded
        case (.externalAddress, .natPMP): return NATPMPRequest.externalAddress.encoded
        }
    }

    /// Takes a datagram in that came to the socket the requests were sent from.
    package mutating func receive(
        _ datagram: [UInt8], from source: NetworkAddress, at now: ContinuousClock.Instant
    ) {
        guard source.hasSameIP(as: gateway), source.port == gateway.port, let asked = pending, asked.sendings > 0 else {
            return
        }
        switch dialect {
        // What cannot be read is as good as lost.
        case .pcp(let nonce):
            if let answer = try? PCPAnswer(datagram) {
                receive(answer, nonce, asked.request, at: now)
            } else if let answer = try? NATPMPAnswer(datagram), answer.result == NATPMPAnswer.unsupportedVersion {
                // A router that speaks NAT-PMP alone says so (RFC 6887 §9).
                fail(.unsupported, at: now)
            }
        case .natPMP:
            if let answer = try? NATPMPAnswer(datagram) {
                receive(answer, asked.request, at: now)
            } else if let answer = try? PCPAnswer(datagram), answer.result == .unsupportedVersion {
                fail(.unsupported, at: now)
            }
        }
    }

    /// Takes a datagram in that the router sent to all: it was started anew, or has another address.
    package mutating func receive(
        announcement datagram: [UInt8], from source: NetworkAddress, at now: ContinuousClock.Instant
    ) {
        guard source.hasSameIP(as: gateway), case .mapped = state else { return }
        // A forged one costs a question and an answer: what it says is not believed beyond that.
        let epoch: UInt32
        switch dialect {
        case .pcp:
            guard let answer = try? PCPAnswer(datagram), answer.mapping == nil else { return }
            epoch = answer.epoch
        case .natPMP:
            guard let answer = try? NATPMPAnswer(datagram), case .externalAddress = answer.content else { return }
            epoch = answer.epoch
        }
        var seen = self.epoch
        if !seen.goesOn(epoch, at: now), pending == nil { ask(.map, at: now) }
    }

    private mutating func receive(
        _ answer: PCPAnswer, _ nonce: PCPNonce, _ request: Request, at now: ContinuousClock.Instant
    ) {
        if request == .map {
            guard let mapping = answer.mapping, mapping.nonce == nonce, mapping.internalPort == local.port else {
                return
            }
            _ = epoch.goesOn(answer.epoch, at: now)
            guard answer.result == .success else { return fail(.refused(answer.result.reason), at: now) }
            mapped(mapping.external, lifetime: answer.lifetime, at: now)
        } else {
            guard answer.mapping == nil else { return }
            checked(answer.epoch, at: now)
        }
    }

    private mutating func receive(_ answer: NATPMPAnswer, _ request: Request, at now: ContinuousClock.Instant) {
        switch (answer.content, request) {
        case (.externalAddress(let address), .externalAddress):
            guard !address.isUnspecified else { return fail(.refused("it is not connected itself"), at: now) }
            let isOther = external.map { !$0.hasSameIP(as: address) } ?? false
            external = address
            checked(answer.epoch, at: now)
            if isOther, case .mapped = state, pending == nil { ask(.map, at: now) }
        case (.mapping(local.port, let port, let lifetime), .map):
            _ = epoch.goesOn(answer.epoch, at: now)
            guard let external else { return }
            mapped(external.withPort(port), lifetime: lifetime, at: now)
        case (.refusal, _):
            fail(
                answer.result == NATPMPAnswer.unsupportedVersion
                    ? .unsupported : .refused(NATPMPAnswer.reason(answer.result)), at: now)
        default: break
        }
    }

    private mutating func checked(_ epoch: UInt32, at now: ContinuousClock.Instant) {
        pending = nil
        check = now + Self.checkInterval
        let goesOn = self.epoch.goesOn(epoch, at: now)
        if state == .searching {
            state = .found
        } else if !goesOn, case .mapped = state {
            ask(.map, at: now)
        }
    }

    private mutating func mapped(_ address: NetworkAddress, lifetime: UInt32, at now: ContinuousClock.Instant) {
        guard address.port != 0, !address.isUnspecified, lifetime > 0 else {
            return fail(.malformed, at: now)
        }
        let seconds = min(max(lifetime, Self.lives.lowerBound), Self.lives.upperBound)
        pending = nil
        external = address.withPort(0)
        suggestedPort = address.port
        renewal = now + .seconds(seconds) / 2
        end = now + .seconds(seconds)
        check = now + Self.checkInterval
        state = .mapped(
            PortMapping(external: address, local: local, lifetime: .seconds(seconds), method: method))
    }

    /// The protocol's name.
    package var method: PortMapping.Method {
        switch dialect {
        case .pcp: .pcp
        case .natPMP: .natPMP
        }
    }

    private mutating func fail(_ failure: PortMappingFailure, at now: ContinuousClock.Instant) {
        (pending, renewal, check, end) = (nil, nil, nil, nil)
        state = .failed(failure)
    }

    /// Gives up what has waited long enough, and begins what is due.
    package mutating func timedOut(at now: ContinuousClock.Instant) {
        if let asked = pending, asked.sendings == Self.maxSendings, asked.deadline <= now {
            pending = nil
            guard case .mapped = state, let end else {
                return fail(.silent, at: now)
            }
            // It holds until its end; half of what is left passes before the next attempt.
            renewal = now + max((end - now) / 2, .seconds(4))
            check = nil
        }
        if let end, end <= now { return fail(.silent, at: now) }
        guard pending == nil else { return }
        if let due = renewal, due <= now {
            renewal = nil
            map(at: now)
        } else if let due = check, due <= now, case .mapped = state {
            check = nil
            ask(dialect == .natPMP ? .externalAddress : .announce, at: now)
        }
    }

    /// The time at which ``timedOut(at:)`` and then ``nextDatagram(at:)`` are to be called; `nil` for never.
    package var nextDeadline: ContinuousClock.Instant? {
        let isMapped = if case .mapped = state { true } else { false }
        let waiting = pending == nil ? [renewal, isMapped ? check : nil] : [pending?.deadline]
        return (waiting + [end]).compactMap(\.self).min()
    }
}

extension NetworkAddress {
    /// The same address with another port.
    package func withPort(_ port: UInt16) -> NetworkAddress {
        var copy = self
        copy.port = port
        return copy
    }

    /// The address of the same family that stands for every other, with port 0.
    var unspecified: NetworkAddress {
        isIPv6 ? NetworkAddress(ipv6: 0, 0, port: 0) : NetworkAddress(ipv4: 0, port: 0)
    }
}
