import KithAPI
import KithIdentity
import KithNet
public import KithStore
public import KithWire
import Logging

/// Diagnoses why a device cannot be reached, as a service, and tells other devices their grants here.
public struct ReachService: Service {
    /// The node owns its services, and outlives their calls.
    unowned let node: Node
    let store: Store
    private let addresses: @Sendable () -> [NetworkAddress]
    private let listens: Bool
    private let version: String
    /// Milliseconds since 1970.
    private let now: @Sendable () -> Int64

    /// Makes the service.
    ///
    /// `addresses` is where this device listens, `now` the time in milliseconds since 1970.
    public init(
        node: Node, store: Store, version: String, listens: Bool,
        addresses: @escaping @Sendable () -> [NetworkAddress], now: @escaping @Sendable () -> Int64
    ) {
        self.node = node
        self.store = store
        self.version = version
        self.listens = listens
        self.addresses = addresses
        self.now = now
    }

    /// The methods it serves.
    public var handlers: [Handler] {
        [
            .call(Reach.Standing.self) { input, context in
                var addresses: [NetworkAddress]?
                if case .device(let device, _, paired: true) = context.caller {
                    addresses = node.announced(for: device)
                    if let hello = input.hello { node.learn(hello, from: device) }
                    if let addresses = input.addresses { await node.heard(addresses, from: device) }
                }
                return Reach.Standing.Output(
                    grants: context.grants, version: version, time: now(), addresses: addresses, hello: node.hello)
            },
            .call(Reach.Failed.self) { input, context in
                guard let explain = context.explain else {
                    throw KithError(.invalid, "Only a device says why a stream that another opened there failed.")
                }
                explain(input.stream, input.error)
                return Nothing()
            },
            .call(Reach.Prefer.self) { input, _ in try await prefer(input) },
            .stream(Reach.Hold.self) { input, _, pending in try await hold(input, pending) },
            .stream(Reach.Examine.self) { input, context, pending in
                let steps = try await pending.accept()
                let report: @Sendable (Reach.Step) async throws -> Void = { try await steps.send($0) }
                if input.network != true { try await examineHere(report) }
                if listens || input.network == true { try await examineNetwork(input, report) }
                if let device = input.device { try await examine(device, context, report) }
                try await steps.finish()
            },
        ]
    }

    private typealias Report = @Sendable (Reach.Step) async throws -> Void

    // MARK: - This device

    private func examineHere(_ report: Report) async throws {
        let addresses = addresses()
        let others = addresses.filter { !$0.isLoopback }
        if addresses.isEmpty {
            try await report(
                Reach.Step("sockets", .failure, "No UDP socket is open.", remedy: "Restart it: kith down; kith up"))
        } else {
            let families = Set(addresses.map { $0.isIPv6 ? "IPv6" : "IPv4" }).sorted().joined(separator: " and ")
            try await report(
                Reach.Step(
                    "sockets", .ok,
                    "UDP port \(addresses[0].port), \(families)\(listens ? "" : "; for calls only, until `kith up`")."))
        }
        if others.isEmpty {
            try await report(Self.noNetwork(.warning))
        } else {
            let isPublic = others.contains { !$0.isPrivate && !$0.isLinkLocal }
            let list = others.map(\.description).joined(separator: ", ")
            try await report(
                Reach.Step(
                    "addresses", .ok,
                    "\(list)\(isPublic ? "" : " (none of them public: reachable from the same network)")."))
        }
        try await examineDiscovery(report)
        let year = now() / 31_556_952_000 + 1970
        let newest = try store.devices().compactMap(\.lastSeen).max() ?? 0
        if year < 2026 || newest > now() / 1_000 + 120 {
            try await report(
                Reach.Step(
                    "clock", .warning, "The clock is behind what this device has seen already.",
                    remedy: "Set it (timedatectl set-ntp true): invitations and the audit log depend on it."))
        } else {
            try await report(Reach.Step("clock", .ok, "Plausible."))
        }
    }

    private func examineNetwork(_ input: Reach.Examine.Input, _ report: Report) async throws {
        if listens { await node.dialer?.reach?.askAgain() }
        guard listens, let status = node.dialer?.reachStatus else {
            return try await report(
                Reach.Step(
                    "network", .warning, "This device does not run, so nobody can reach it.",
                    remedy: "Start it: kith up"))
        }
        if input.network == true, !status.isAtRelay, addresses().allSatisfy(\.isLoopback) {
            try await report(Self.noNetwork(.failure))
        }
        for var step in status.steps {
            // The other device may well be reached without a relay of this one.
            if input.device != nil, step.outcome == .failure { step.outcome = .warning }
            try await report(step)
        }
    }

    private static func noNetwork(_ outcome: Reach.Outcome) -> Reach.Step {
        Reach.Step(
            "addresses", outcome, "This device has no address but its own loopback: it is on no network.",
            remedy: "Connect it to a network; running connections go on by themselves.")
    }

    private func examineDiscovery(_ report: Report) async throws {
        guard listens else { return }
        guard let discovery = node.hints.discovery?.status else {
            return try await report(
                Reach.Step("local network", .ok, "Paired devices are not looked for there (--no-discovery)."))
        }
        if let problem = discovery.problem {
            return try await report(
                Reach.Step(
                    "local network", .warning, "Paired devices there may not be found: \(problem)",
                    remedy: "Their known addresses are tried all the same. kith up --no-discovery turns it off."))
        }
        let interfaces = discovery.interfaces.joined(separator: ", ")
        let names = try store.devices().filter { device in discovery.heard.contains { $0.id == device.id } }.map(\.name)
        let heard = names.isEmpty ? "no paired device is heard" : "heard: \(names.joined(separator: ", "))"
        let way = discovery.group != nil ? "" : " by multicast DNS alone (--no-group)"
        try await report(
            Reach.Step(
                "local network", .ok,
                "Announced on \(interfaces.isEmpty ? "no interface" : interfaces)\(way); \(heard)."))
        switch discovery.responder {
        case .off: break
        case .registered:
            try await report(Reach.Step("DNS-SD", .ok, "The system's responder offers this device as _kith._udp."))
        case .answering:
            try await report(
                Reach.Step(
                    "DNS-SD", .ok, "This device itself answers as _kith._udp; no responder of the system does it."))
        case .unavailable(let why):
            // Most networks do without.
            try await report(Reach.Step("DNS-SD", .ok, "This device is not offered as _kith._udp: \(why)."))
        @unknown default: break
        }
    }

    // MARK: - The other one

    private func examine(_ reference: String, _ context: CallContext, _ report: Report) async throws {
        let known: KnownDevice
        do {
            known = try node.resolve(reference)
        } catch let error as KithError {
            return try await report(
                Reach.Step(
                    "paired", .failure, error.message,
                    remedy: "If it is a new one, pair with it. There: kith invite; here: kith pair INVITATION"))
        }
        let device = try store.device(known.id)
        let here = known.grants.map(\.description).joined(separator: ", ")
        try await report(
            Reach.Step(
                "paired", .ok, "\(known.name) is \(known.id.short); it may do here: \(here.isEmpty ? "nothing" : here)."
            ))
        try await examineFreshness(of: device, report)
        if let heard = node.hints.discovery?.status.heard.first(where: { $0.id == known.id }) {
            let seconds = max(0, heard.quiet.components.seconds)
            let places = heard.addresses.map(\.description).joined(separator: ", ")
            try await report(
                Reach.Step("local network", .ok, "\(known.name) was heard there \(seconds) s ago, at \(places)."))
        }
        for step in node.dialer?.reach?.relaySteps(to: known.id) ?? [] { try await report(step) }
        // Not those that the preference for it rules out: nobody there is to learn where this device is.
        let places = await node.places(of: known)
        let permitted = node.dialer?.reach?.addresses(places, for: known.id) ?? places
        if permitted.count < places.count, let preference = node.dialer?.reach?.preference(for: known.id) {
            try await report(
                Reach.Step(
                    "addresses", .ok,
                    "\(places.count - permitted.count) not tried: \(known.name) is reached by \(preference) only (kith path)."
                ))
        }
        let attempts = await Self.attempts(known, at: permitted)
        do {
            _ = try await node.connect(to: known.id.description)
            // Where it is reached by a relay, its addresses need not answer; most stand behind a NAT.
            for step in attempts { try await report(step.outcome == .ok ? step : Self.unneeded(step)) }
        } catch let error as KithError {
            for step in attempts { try await report(step) }
            return try await report(
                Reach.Step("connection", .failure, error.message, remedy: Self.remedy(for: error, known)))
        }
        guard try await examineStanding(known, context, report) else { return }
        try await examineLink(known, context, report)
    }

    private static let mostAddresses = 16

    /// Tries the known addresses, all at once; when one answers, the failures of the others do not matter.
    private static func attempts(_ known: KnownDevice, at addresses: [NetworkAddress]) async -> [Reach.Step] {
        // This very machine is asked, too, but that nothing listens here is no news.
        let isHere = addresses.allSatisfy(\.isLoopback)
        let addresses = addresses.filter { isHere || !$0.isLoopback }.prefix(mostAddresses)
        let steps = await withTaskGroup(of: (Int, Reach.Step).self) { group in
            for (number, address) in addresses.enumerated() {
                group.addTask { (number, await attempt(address, known)) }
            }
            return await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
        }
        let inOrder = addresses.indices.compactMap { steps[$0 - addresses.startIndex] }
        guard inOrder.contains(where: { $0.outcome == .ok }) else { return inOrder }
        return inOrder.map { step in
            step.outcome == .ok
                ? step : Reach.Step(step.subject, .ok, "\(step.finding) It answers at another address.")
        }
    }

    /// The step of an address that does not answer, when the device is reached all the same.
    private static func unneeded(_ step: Reach.Step) -> Reach.Step {
        Reach.Step(step.subject, .ok, "\(step.finding) It is reached another way.")
    }

    private func examineFreshness(of device: PairedDevice?, _ report: Report) async throws {
        guard let device else { return }
        if device.addresses.isEmpty, node.dialer?.isRelayKnown(of: device.id) == true {
            return try await report(
                Reach.Step("known addresses", .ok, "None; it is looked for at its relays."))
        }
        guard !device.addresses.isEmpty else {
            return try await report(
                Reach.Step(
                    "known addresses", .failure, "No address of it is known.",
                    remedy: "Start a command there that reaches this device (`kith ping`); its address is kept then."))
        }
        let count = device.addresses.count
        guard let seen = device.lastSeen else {
            return try await report(
                Reach.Step(
                    "known addresses", .warning, "\(count) from its invitation; it was never reached.",
                    remedy: "Reach it once: kith ping \(device.name)"))
        }
        let days = (now() / 1_000 - seen) / 86_400
        try await report(
            Reach.Step(
                "known addresses", days > 7 ? .warning : .ok,
                "\(count); last connected \(days > 0 ? "\(days) days ago" : "within a day").",
                remedy: days > 7 ? "They may be out of date: `kith status` there shows where it listens now." : nil))
    }

    /// Tries one address alone, with a key made for this: nothing that runs is disturbed.
    ///
    /// The other end takes it for an unpaired peer; it must prove its own key all the same.
    private static func attempt(_ address: NetworkAddress, _ device: KnownDevice) async -> Reach.Step {
        let subject = "address \(address)"
        if let refusal = await Reachability.refusal(by: address) {
            switch refusal {
            case .noRoute:
                return Reach.Step(
                    subject, .warning, "There is no way from here to there.",
                    remedy: "It is on another network than this device, or its address is of one it has left.")
            case .closed:
                return Reach.Step(
                    subject, .warning, "The machine answers; nobody listens on UDP port \(address.port) (ICMP).",
                    remedy: "Start the device there: kith up")
            }
        }
        var options = Endpoint.Options()
        options.earlyData = false
        options.handshakeTimeout = .seconds(3)
        do {
            let endpoint = try await Endpoint.bind(
                key: DeviceKey(), options: options,
                logger: Logger(label: "kith", factory: { _ in SwiftLogNoOpLogHandler() }))
            let result: Result<Duration, KithError>
            do throws(KithError) {
                let connection = try await endpoint.connect(to: device.id, at: [address], timeout: .seconds(3))
                result = .success(await connection.statistics().roundTrip)
                connection.close(code: .closed, reason: "examined")
            } catch {
                result = .failure(error)
            }
            await endpoint.shutdown()
            switch result {
            case .success(let roundTrip):
                return Reach.Step(
                    subject, .ok, "Answers with the right key, after \(milliseconds(roundTrip / .milliseconds(1))).")
            case .failure(let error):
                return failure(error, subject, device)
            }
        } catch {
            return Reach.Step(subject, .warning, "It could not be tried: \(error)")
        }
    }

    private static func failure(_ error: KithError, _ subject: String, _ device: KnownDevice) -> Reach.Step {
        switch error.code {
        case .denied:
            Reach.Step(
                subject, .warning, "Somebody else answers: not with the key of \(device.name).",
                remedy: "The address belongs to another device now. If \(device.name) was set up anew, pair again.")
        case .unsupported:
            Reach.Step(
                subject, .warning, "Something answers that speaks no version of QUIC, or of Kith, this device knows.",
                remedy: "Bring both devices to the same version of Kith.")
        case .exhausted:
            Reach.Step(subject, .warning, "It answers, and takes no more connections now.", remedy: "Try again soon.")
        case .timedOut, .unreachable:
            Reach.Step(
                subject, .warning, "No answer within 3 s.",
                remedy: "Is it switched on, with `kith up` running? A firewall there has to let the UDP port in.")
        default:
            Reach.Step(subject, .warning, error.message)
        }
    }

    private static func remedy(for error: KithError, _ device: KnownDevice) -> String {
        switch error.code {
        case .unpaired, .denied:
            "It has forgotten this device: pair again. There: kith invite; here: kith pair INVITATION"
        default:
            "See the addresses above. If none answers: is \(device.name) up, on a network, its UDP port let in by firewalls?"
        }
    }

    /// Asks what this device may do there; false when further questions are pointless.
    private func examineStanding(
        _ known: KnownDevice, _ context: CallContext, _ report: Report
    ) async throws -> Bool {
        do {
            let start = now()
            let standing = try await context.client.call(
                Reach.Standing.self, Reach.Standing.Input(hello: node.hello), on: known.id.description,
                options: CallOptions(timeout: .seconds(10)))
            let skew = Self.skew(of: standing.time, askedAt: start, answeredAt: now())
            await node.learn(standing, from: known.id)
            let grants = standing.grants.map(\.description).joined(separator: ", ")
            try await report(
                Reach.Step(
                    "allowed there", grants.isEmpty ? .warning : .ok,
                    "This device may do there: \(grants.isEmpty ? "nothing" : grants).",
                    remedy: grants.isEmpty ? "On \(known.name): kith grant \(node.id.short) --add shell" : nil))
            if standing.version != version {
                try await report(
                    Reach.Step(
                        "version", .warning, "It runs Kith \(standing.version), this device \(version).",
                        remedy: "Install the newer of the two on both, then there and here: kith down; kith up"))
            }
            if skew.magnitude > 60 {
                try await report(
                    Reach.Step(
                        "clocks", .warning,
                        "Its clock is \(skew.magnitude) s \(skew > 0 ? "ahead of" : "behind") this one.",
                        remedy: "On the one that is wrong: sudo timedatectl set-ntp true"))
            }
            return true
        } catch let error as KithError {
            let isOld = error.code == .unsupported
            try await report(
                Reach.Step(
                    "allowed there", isOld ? .warning : .failure,
                    isOld ? "An older Kith runs there, which does not say." : error.message,
                    remedy: isOld ? nil : Self.remedy(for: error, known)))
            return isOld
        }
    }

    /// Returns how many seconds ahead the clock is that gave a time in milliseconds, which may be any number.
    static func skew(of time: Int64, askedAt start: Int64, answeredAt end: Int64) -> Int64 {
        time.saturatingSubtracting(start + (end - start) / 2) / 1_000
    }

    private func examineLink(_ known: KnownDevice, _ context: CallContext, _ report: Report) async throws {
        let before = await node.link(to: known.id)?.statistics
        var times: [Double] = []
        let payload = ThisDevice.Echo.Payload(bytes: ByteString([UInt8](repeating: 0, count: 56)))
        do {
            for _ in 0..<20 {
                let start = ContinuousClock.now
                _ = try await context.client.call(
                    ThisDevice.Echo.self, payload, on: known.id.description, options: CallOptions(timeout: .seconds(5)))
                times.append((ContinuousClock.now - start) / .milliseconds(1))
            }
        } catch let error as KithError {
            return try await report(
                Reach.Step(
                    "round trips", .failure, "After \(times.count) of 20: \(error.message)", remedy: "Try again."))
        }
        times.sort()
        try await report(
            Reach.Step(
                "round trips", .ok,
                "20 of 20 came back: fastest \(Self.milliseconds(times[0])), median \(Self.milliseconds(times[10])), slowest \(Self.milliseconds(times[19]))."
            ))
        guard let link = await node.link(to: known.id), let after = link.statistics else { return }
        let sent = after.packetsSent &- (before?.packetsSent ?? 0)
        let lost = after.packetsLost &- (before?.packetsLost ?? 0)
        try await report(
            Reach.Step(
                "loss", lost * 20 > sent ? .warning : .ok, "\(lost) of \(sent) packets sent were lost.",
                remedy: lost * 20 > sent
                    ? "The link loses much: Wi-Fi at its edge? A cable or another place helps." : nil))
        try await report(
            Reach.Step(
                "path", after.udpPayloadSize < 1_280 ? .warning : .ok,
                Self.words(for: link, after),
                remedy: after.udpPayloadSize < 1_280
                    ? "Larger datagrams get lost: a tunnel on the way? Copies are slower for it, nothing else." : nil))
    }

    /// The way that is used, and those that are held ready, with the round trip of each.
    private static func words(for link: LinkStatus, _ statistics: ConnectionStatistics) -> String {
        func words(_ path: Devices.HeldPath) -> String {
            let time = path.roundTripMilliseconds.map { " (\(milliseconds($0)))" } ?? ""
            return (path.kind == .relay ? "through the relay \(path.place)" : "to \(path.place)") + time
        }
        let way =
            link.paths.first(where: \.isActive).map(words)
            ?? (statistics.remoteAddress.map { "to \($0)" } ?? "through a relay")
        let others = link.paths.filter { !$0.isActive }.map(words)
        let rest = others.isEmpty ? "" : " Held ready: \(others.joined(separator: ", "))."
        return "Goes \(way) with datagrams of up to \(statistics.udpPayloadSize) bytes.\(rest)"
    }

    private static func milliseconds(_ value: Double) -> String {
        // Three digits that count, without Foundation.
        let micro = Int((value * 1_000).rounded())
        return micro < 10_000
            ? "\(micro / 1_000).\(String(1_000 + micro % 1_000).dropFirst()) ms" : "\(micro / 1_000) ms"
    }
}

extension Reach.Link {
    /// Describes a connection as it is now.
    init(_ statistics: ConnectionStatistics) {
        self.init(
            path: statistics.remoteAddress, roundTripMilliseconds: statistics.roundTrip / .milliseconds(1),
            minimumRoundTripMilliseconds: statistics.minimumRoundTrip / .milliseconds(1),
            congestionWindow: statistics.congestionWindow, udpPayloadSize: statistics.udpPayloadSize,
            packetsSent: statistics.packetsSent, packetsLost: statistics.packetsLost,
            cipherSuite: statistics.cipherSuite)
    }
}
