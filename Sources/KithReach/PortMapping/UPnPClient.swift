package import KithWire

/// Asks one router for one mapping, by UPnP's Internet Gateway Device, version 1 or 2.
///
/// ```
///  start            answer        description    address        map           answered
///  ─────▶ searching ─────▶ reading ─────▶ asking ─────▶ found ─────▶ mapping ─────▶ mapped ──▶ asked for again
/// ```
///
/// Only the router itself is believed and asked: an answer to a search counts when it came from the router's address
/// and names a description there, whose services are there, too.
///
/// Of IPv6 it is a pinhole in the router's firewall (WANIPv6FirewallControl): packets to the address that the device has
/// are let in. There a router may name another of its addresses, of the network that the device is in.
package struct UPnPClient: Sendable {
    /// Where it stands.
    package enum State: Hashable, Sendable {
        /// Not begun.
        case idle
        /// The router is searched.
        case searching
        /// Its description is read, or it is asked for its address.
        case reading
        /// It is there, and was asked for nothing yet.
        case found
        /// It is asked for a mapping.
        case mapping
        /// There is a mapping.
        case mapped(PortMapping)
        /// There is none.
        case failed(PortMappingFailure)
    }

    /// A request of HTTP that the driver makes.
    package struct Exchange: Hashable, Sendable {
        /// Its number, for the answer.
        package let number: UInt64
        /// The server, which is the router.
        package let server: NetworkAddress
        /// The bytes to send.
        package let request: [UInt8]
    }

    private enum Action: Hashable {
        case describe, externalAddress, addAny
        case add(port: UInt16, lifetime: UInt32)
        case firewallStatus, addPinhole
        case updatePinhole(UInt16)

        var name: String {
            switch self {
            case .describe: ""
            case .externalAddress: "GetExternalIPAddress"
            case .addAny: "AddAnyPortMapping"
            case .add: "AddPortMapping"
            case .firewallStatus: "GetFirewallStatus"
            case .addPinhole: "AddPinhole"
            case .updatePinhole: "UpdatePinhole"
            }
        }
    }

    /// The times after the start at which a search is sent.
    static let searches: [Duration] = [.zero, .milliseconds(500), .milliseconds(1_500)]
    /// The time after which a search is given up.
    package static let searchTimeout = Duration.seconds(4)
    /// The time after which an answer of HTTP is given up.
    package static let answerTimeout = Duration.seconds(6)
    /// How often another port is asked for when one is taken.
    package static let maxPorts = 5
    /// The seconds for which a mapping is asked for.
    static let lifetime: UInt32 = 7_200
    /// The time after which a mapping is asked for again: nothing else tells that the router was started anew.
    package static let refreshInterval = Duration.seconds(600)

    /// The router.
    package let gateway: NetworkAddress
    /// The address and port of this device.
    package let local: NetworkAddress
    /// Where it stands.
    package private(set) var state = State.idle
    /// The address outside, as far as it is known.
    package private(set) var external: NetworkAddress?

    private var service: UPnPService?
    private var location: UPnPLocation?
    private var started: ContinuousClock.Instant?
    private var searchesSent = 0
    private var datagrams: [(bytes: [UInt8], to: NetworkAddress)] = []
    private var exchanges: [Exchange] = []
    private var pending: (number: UInt64, action: Action, deadline: ContinuousClock.Instant)?
    private var exchangeCount: UInt64 = 0
    private var alternatives: [UInt16]
    private var refresh: ContinuousClock.Instant?
    private var mappedPort: UInt16?
    /// The router's number of the pinhole.
    private var pinhole: UInt16?
    private var end: ContinuousClock.Instant?

    /// Makes a client; `random` chooses the ports that are asked for when others are taken.
    package init(gateway: NetworkAddress, local: NetworkAddress, using random: inout some RandomNumberGenerator) {
        self.gateway = gateway.withPort(UPnPSearch.group.port)
        self.local = local
        alternatives = (1..<Self.maxPorts).map { _ in UInt16.random(in: 10_000...65_000, using: &random) }
    }

    /// Begins the search.
    package mutating func start(at now: ContinuousClock.Instant) {
        state = .searching
        started = now
        timedOut(at: now)
    }

    /// Asks nothing more.
    package mutating func abandon() {
        (started, pending, refresh, end) = (nil, nil, nil, nil)
        (datagrams, exchanges) = ([], [])
        if case .found = state { return }
        state = .failed(.silent)
    }

    /// Asks for the mapping.
    package mutating func map(at now: ContinuousClock.Instant) {
        state = .mapping
        guard !local.isIPv6 else { return addPinhole(at: now) }
        add(service?.findsPorts == true ? .addAny : .add(port: local.port, lifetime: Self.lifetime), at: now)
    }

    /// The address without its port, as SOAP has it.
    private var localHost: String {
        let text = local.description.dropLast(String(local.port).utf8.count + 1)
        return local.isIPv6 ? String(text.dropFirst().prefix { $0 != "%" && $0 != "]" }) : String(text)
    }

    private mutating func addPinhole(at now: ContinuousClock.Instant) {
        guard let service else { return fail(.unsupported) }
        let arguments = [
            ("RemoteHost", ""), ("RemotePort", "0"), ("InternalClient", localHost), ("InternalPort", "\(local.port)"),
            ("Protocol", "17"), ("LeaseTime", "\(Self.lifetime)"),
        ]
        perform(.addPinhole, service.request(Action.addPinhole.name, arguments), service.control, at: now)
    }

    private mutating func updatePinhole(_ number: UInt16, at now: ContinuousClock.Instant) {
        guard let service else { return fail(.unsupported) }
        let action = Action.updatePinhole(number)
        let arguments = [("UniqueID", "\(number)"), ("NewLeaseTime", "\(Self.lifetime)")]
        perform(action, service.request(action.name, arguments), service.control, at: now)
    }

    private mutating func add(_ action: Action, at now: ContinuousClock.Instant) {
        guard let service else { return fail(.unsupported) }
        let (port, lifetime): (UInt16, UInt32) =
            if case .add(let port, let lifetime) = action { (port, lifetime) } else { (local.port, Self.lifetime) }
        perform(
            action,
            service.request(
                action.name,
                [
                    ("NewRemoteHost", ""), ("NewExternalPort", "\(port)"), ("NewProtocol", "UDP"),
                    ("NewInternalPort", "\(local.port)"), ("NewInternalClient", localHost), ("NewEnabled", "1"),
                    ("NewPortMappingDescription", "Kith"), ("NewLeaseDuration", "\(lifetime)"),
                ]), service.control, at: now)
    }

    private mutating func perform(
        _ action: Action, _ request: [UInt8], _ location: UPnPLocation, at now: ContinuousClock.Instant
    ) {
        exchangeCount += 1
        pending = (exchangeCount, action, now + Self.answerTimeout)
        exchanges.append(Exchange(number: exchangeCount, server: location.server, request: request))
    }

    /// Ends; returns the request that gives the mapping back, when there is one.
    package mutating func release() -> Exchange? {
        defer {
            (state, mappedPort, pinhole) = (.idle, nil, nil)
            (pending, refresh, started, end) = (nil, nil, nil, nil)
            (datagrams, exchanges) = ([], [])
        }
        guard let service else { return nil }
        exchangeCount += 1
        if let pinhole {
            return Exchange(
                number: exchangeCount, server: service.control.server,
                request: service.request("DeletePinhole", [("UniqueID", "\(pinhole)")]))
        }
        guard let port = mappedPort else { return nil }
        let arguments = [("NewRemoteHost", ""), ("NewExternalPort", "\(port)"), ("NewProtocol", "UDP")]
        return Exchange(
            number: exchangeCount, server: service.control.server,
            request: service.request("DeletePortMapping", arguments))
    }

    /// The next datagram to send now; `nil` for none.
    package mutating func nextDatagram() -> (bytes: [UInt8], to: NetworkAddress)? {
        datagrams.isEmpty ? nil : datagrams.removeFirst()
    }

    /// The next request of HTTP to make now; `nil` for none.
    package mutating func nextExchange() -> Exchange? { exchanges.isEmpty ? nil : exchanges.removeFirst() }

    /// Takes a datagram in that came to the socket the searches were sent from.
    package mutating func receive(
        _ datagram: [UInt8], from source: NetworkAddress, at now: ContinuousClock.Instant
    ) {
        guard state == .searching, source.hasSameIP(as: gateway),
            let found = UPnPSearch.location(in: datagram, from: gateway, to: local)
        else { return }
        state = .reading
        location = found
        started = nil
        let request = "GET \(found.path) HTTP/1.1\r\nHost: \(found.host)\r\nConnection: close\r\n\r\n"
        perform(.describe, Array(request.utf8), found, at: now)
    }

    /// Takes the answer to a request of HTTP in; `nil` when there was none, or not a whole one.
    package mutating func receive(_ answer: HTTPAnswer?, to number: UInt64, at now: ContinuousClock.Instant) {
        guard let asked = pending, asked.number == number else { return }
        pending = nil
        switch asked.action {
        case .describe:
            guard let answer, answer.status == 200, let location,
                let service = UPnPService(description: answer.body, at: location, isIPv6: local.isIPv6)
            else { return fail(.unsupported) }
            self.service = service
            if local.isIPv6 {
                let action = Action.firewallStatus
                return perform(action, service.request(action.name), service.control, at: now)
            }
            perform(.externalAddress, service.request(Action.externalAddress.name), service.control, at: now)
        case .externalAddress:
            guard let answer, case .done(let values) = UPnPAnswer(answer, to: asked.action.name),
                let address = values["NewExternalIPAddress"].flatMap({ NetworkAddress("\($0):0") }),
                !address.isUnspecified
            else { return fail(.refused("it is not connected itself")) }
            external = address
            state = .found
        case .firewallStatus:
            guard let answer, case .done(let values) = UPnPAnswer(answer, to: asked.action.name) else {
                return fail(.malformed)
            }
            guard Self.isTrue(values["FirewallEnabled"]) else { return fail(.refused(UPnPAnswer.reason(702))) }
            guard Self.isTrue(values["InboundPinholeAllowed"]) else { return fail(.refused(UPnPAnswer.reason(703))) }
            state = .found
        case .addAny, .add, .addPinhole, .updatePinhole:
            guard let answer = answer.flatMap({ UPnPAnswer($0, to: asked.action.name) }) else {
                return lost(.malformed, at: now)
            }
            received(answer, to: asked.action, at: now)
        }
    }

    private mutating func received(_ answer: UPnPAnswer, to action: Action, at now: ContinuousClock.Instant) {
        switch (answer, action) {
        case (.done(let values), .addAny):
            guard let port = values["NewReservedPort"].flatMap({ UInt16($0) }), port != 0 else {
                return fail(.malformed)
            }
            mapped(port, lifetime: Self.lifetime, at: now)
        case (.done, .add(let port, let lifetime)): mapped(port, lifetime: lifetime, at: now)
        case (.done(let values), .addPinhole):
            guard let number = values["UniqueID"].flatMap({ UInt16($0) }) else { return fail(.malformed) }
            opened(number, at: now)
        case (.done, .updatePinhole(let number)): opened(number, at: now)
        // The router has forgotten it: it was started anew.
        case (.refused(704), .updatePinhole):
            pinhole = nil
            addPinhole(at: now)
        // Only for ever: until it is given back, or the router is started anew.
        case (.refused(725), .add(let port, let lifetime)) where lifetime != 0:
            add(.add(port: port, lifetime: 0), at: now)
        case (.refused(725), .addAny): add(.add(port: local.port, lifetime: 0), at: now)
        case (.refused(401), .addAny), (.refused(602), .addAny):
            add(.add(port: local.port, lifetime: Self.lifetime), at: now)
        case (.refused(718), .add(_, let lifetime)) where !alternatives.isEmpty:
            add(.add(port: alternatives.removeFirst(), lifetime: lifetime), at: now)
        case (.refused(let code), _): fail(.refused(UPnPAnswer.reason(code)))
        default: fail(.malformed)
        }
    }

    private mutating func opened(_ number: UInt16, at now: ContinuousClock.Instant) {
        pinhole = number
        external = local.withPort(0)
        end = now + .seconds(Self.lifetime)
        refresh = now + Self.refreshInterval
        state = .mapped(
            PortMapping(external: local, local: local, lifetime: .seconds(Self.lifetime), method: .upnp))
    }

    /// A boolean of UPnP.
    private static func isTrue(_ text: String?) -> Bool { ["1", "true", "yes"].contains(text?.lowercased()) }

    private mutating func mapped(_ port: UInt16, lifetime: UInt32, at now: ContinuousClock.Instant) {
        guard let external else { return fail(.malformed) }
        mappedPort = port
        let life: Duration? = lifetime == 0 ? nil : .seconds(lifetime)
        end = life.map { now + $0 }
        refresh = now + min(Self.refreshInterval, life.map { $0 / 2 } ?? Self.refreshInterval)
        state = .mapped(
            PortMapping(external: external.withPort(port), local: local, lifetime: life, method: .upnp))
    }

    /// A mapping that could not be renewed holds until its end.
    private mutating func lost(_ failure: PortMappingFailure, at now: ContinuousClock.Instant) {
        guard case .mapped = state, let end, end > now else { return fail(failure) }
        refresh = now + max((end - now) / 2, .seconds(4))
    }

    private mutating func fail(_ failure: PortMappingFailure) {
        (pending, refresh, started, end) = (nil, nil, nil, nil)
        state = .failed(failure)
    }

    /// Gives up what has waited long enough, and begins what is due.
    package mutating func timedOut(at now: ContinuousClock.Instant) {
        if let started, state == .searching {
            while searchesSent < Self.searches.count, started + Self.searches[searchesSent] <= now {
                searchesSent += 1
                // Some routers hear their own address alone, some the group alone.
                for server in [UPnPSearch.group(beside: gateway), gateway] {
                    datagrams += UPnPSearch.datagrams(to: server).map { ($0, server) }
                }
            }
            if started + Self.searchTimeout <= now { return fail(.silent) }
        }
        if let asked = pending, asked.deadline <= now {
            pending = nil
            return lost(.silent, at: now)
        }
        if let end, end <= now, pending == nil { return fail(.silent) }
        if let due = refresh, due <= now, pending == nil, case .mapped = state, let pinhole {
            refresh = nil
            updatePinhole(pinhole, at: now)
        }
        if let due = refresh, due <= now, pending == nil, case .mapped(let mapping) = state, let port = mappedPort {
            refresh = nil
            add(.add(port: port, lifetime: mapping.lifetime == nil ? 0 : Self.lifetime), at: now)
        }
    }

    /// The time at which ``timedOut(at:)`` is to be called; `nil` for never.
    package var nextDeadline: ContinuousClock.Instant? {
        var times = [pending?.deadline, pending == nil ? refresh : nil, pending == nil ? end : nil].compactMap(\.self)
        if let started, state == .searching {
            times.append(started + Self.searchTimeout)
            if searchesSent < Self.searches.count { times.append(started + Self.searches[searchesSent]) }
        }
        return times.min()
    }
}
