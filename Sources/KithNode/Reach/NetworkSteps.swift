package import KithAPI
import KithIdentity
package import KithNet
import KithReach
import KithWire

extension DeviceReach {
    /// What a person is told of the relays at which another device is to be found, as far as this one uses them now.
    nonisolated func relaySteps(to device: DeviceID) -> [Reach.Step] {
        let (places, status) = (relays(of: device), status)
        guard preference(for: device) != .local else { return [] }
        return places.map { place in
            let subject = "its relay \(place)"
            guard let relay = status.relays.first(where: { $0.address == place }) else {
                return Reach.Step(subject, .ok, "Connected to when it is needed.")
            }
            if case .connected(let roundTrip) = relay.state {
                let time = roundTrip.map { " (\(Int(($0 / .milliseconds(1)).rounded())) ms)" } ?? ""
                return Reach.Step(subject, .ok, "This device is connected to it, too\(time).")
            }
            let step = status.step(of: relay, isNeeded: false)
            return Reach.Step(subject, step.outcome, step.finding, remedy: step.remedy)
        }
    }
}

extension DeviceReach {
    /// The relays by which another device is looked for, each with the state of the connection to it.
    nonisolated func relayWords(to device: DeviceID) -> [String] {
        guard preference(for: device) != .local else { return [] }
        let (places, status) = (relays(of: device), status)
        return places.map { place in
            let name = "the relay \(place.withoutKey)"
            guard let relay = status.relays.first(where: { $0.address.isSameRelay(as: place) }) else { return name }
            if case .connected = relay.state { return "\(name) (connected)" }
            return "\(name) (not connected\(relay.failure.map { ": \($0)" } ?? ""))"
        }
    }
}

extension DeviceReach.Status {
    /// What a person is told of how this device can be reached from elsewhere.
    var steps: [Reach.Step] {
        var steps = relays.filter(\.isOwn).map { step(of: $0, isNeeded: !isAtRelay) }
        if steps.isEmpty {
            steps.append(
                Reach.Step(
                    "relays", .ok,
                    "None: devices on other networks are reached where an address is public, or passed on by the router."
                ))
        }
        steps += proxies + directories.map(Self.step)
        let isBlocked = report.udp == .blocked || silentServer != nil
        var sentences = report.udp == .unknown && !asksServers ? [] : report.sentences
        if let silentServer, !sentences.isEmpty {
            sentences[0] = "No answer from the server \(silentServer) by UDP; whether UDP is blocked cannot be told."
        }
        if report.udp == .works, let outside = report.publicIPv4 ?? report.publicIPv6 {
            sentences.insert("Servers outside see this device at \(outside).", at: 1)
        }
        if report.udp == .works, report.nat.mapping == .unknown, report.publicIPv4 != nil {
            sentences.append("It takes a second relay, at another address, to tell which kind of NAT this is.")
        }
        if savesPower { sentences.append("This device saves its battery: it asks rarely, and maps no port.") }
        if sentences.isEmpty { sentences.append("No server outside has been asked by UDP: there is no relay to ask.") }
        steps.append(
            Reach.Step(
                "network", isBlocked ? .warning : .ok, sentences.joined(separator: " "), network: facts))
        if let mapping {
            let words = "It passes \(mapping.external) on to this device (\(mapping.method.rawValue))"
            if facts.isDoubleNAT == true {
                steps.append(
                    Reach.Step(
                        "router", .warning,
                        "\(words), but stands behind another NAT itself (double NAT): that is of no use outside.",
                        remedy: "Have the other router pass the port on as well, or use a relay."))
            } else {
                steps.append(Reach.Step("router", .ok, words + "."))
            }
        } else if let mappingFailure {
            steps.append(Reach.Step("router", .ok, mappingFailure.description))
        }
        if pinhole != nil {
            steps.append(Reach.Step("router", .ok, "Its firewall lets devices in at this one's IPv6 address."))
        }
        if let nat64 {
            let prefix = nat64.address.description.dropFirst().prefix { $0 != "]" }
            steps.append(
                Reach.Step(
                    "NAT64", .ok,
                    "This network has IPv6 alone; IPv4 is reached through its NAT64 (\(prefix)/\(nat64.length))."))
        }
        return steps
    }

    /// Indicates whether a server is there that could be asked.
    private var asksServers: Bool { relays.contains { $0.isOwn } }

    /// Indicates whether this device is connected to one of its relays.
    var isAtRelay: Bool {
        relays.contains { relay in
            if case .connected = relay.state { relay.isOwn } else { false }
        }
    }

    private static func step(of standing: DirectoryClient.Standing) -> Reach.Step {
        let publication =
            switch standing.publication {
            case .untried: "This device's record has not been published yet, as it is at no relay."
            case .worked: "It keeps this device's record."
            case .failed(let reason): "This device's record was not published: \(reason)"
            }
        let question =
            switch standing.question {
            case .untried: "It has not been asked for another device yet."
            case .worked: "It answered the last question."
            case .failed(let reason): "It did not answer the last question: \(reason)"
            }
        return Reach.Step(
            "directory \(standing.directory)", standing.hasFailed ? .warning : .ok, "\(publication) \(question)",
            remedy: standing.hasFailed ? "See that it runs, and that its URL is right: kith up --directory URL" : nil)
    }

    /// The same for programs.
    var facts: Reach.Network {
        var facts = Reach.Network()
        facts.udp =
            switch report.udp {
            case .works: "works"
            case .blocked: "blocked"
            default: "unknown"
            }
        (facts.outsideIPv4, facts.outsideIPv6) = (report.publicIPv4, report.publicIPv6)
        facts.natMapping =
            switch report.nat.mapping {
            case .none: "none"
            case .independent: "independent"
            case .addressDependent: "address-dependent"
            case .addressAndPortDependent: "address-and-port-dependent"
            default: "unknown"
            }
        facts.nat = report.nat.mapping == .unknown ? nil : report.nat.description
        (facts.mappedPort, facts.mappedBy) = (mapping?.external, mapping?.method.rawValue)
        facts.isDoubleNAT =
            mapping?.isBehindAnotherNAT == true || report.doubleNAT == .yes
            ? true : report.doubleNAT == .no ? false : nil
        facts.relays = relays.filter(\.isOwn).map { relay in
            var fact = Reach.Network.Relay(
                url: relay.address.description, state: "connecting", isHome: relay.address == home,
                isStandby: relay.address == standby)
            switch relay.state {
            case .connected(let roundTrip):
                fact.state = "connected"
                fact.roundTripMilliseconds = roundTrip.map { $0 / .milliseconds(1) }
                fact.carrier = relay.carrier?.rawValue
            case .denied(let reason): (fact.state, fact.reason) = ("denied", reason)
            case .waiting(let reason): (fact.state, fact.reason) = ("waiting", reason)
            case .captive(let portal):
                (fact.state, facts.captivePortal) = ("captive", portal.url)
            case .restarting: fact.state = "restarting"
            case .idle, .connecting, .closed: break
            }
            if case .through(let proxy) = relay.route { fact.proxy = "\(proxy)" }
            return fact
        }
        facts.directories = directories.isEmpty ? nil : directories.map { Reach.Network.Directory($0) }
        facts.savesPower = savesPower
        return facts
    }

    /// The facts that are told as they change, each under its word.
    var notes: [String: String] {
        let facts = facts
        var notes = ["udp": facts.udp, "relay": facts.relays.first(where: \.isHome)?.url ?? "none"]
        if facts.udp == "works" {
            notes["nat"] = report.nat.description
            notes["address"] = (report.publicIPv4 ?? report.publicIPv6).map { Self.shown($0, report.nat) }
        }
        notes["port"] = facts.mappedPort.map { "\($0) by \(facts.mappedBy ?? "the router")" } ?? "none"
        notes["portal"] = facts.captivePortal ?? "none"
        return notes
    }

    /// An address outside; its port where that is the same for everybody.
    private static func shown(_ address: NetworkAddress, _ nat: NATKind) -> String {
        guard nat.isHard || nat.mapping == .unknown else { return address.description }
        return String(address.withPort(0).description.dropLast(2))
    }

    /// The proxies by which relays are reached, and what was meant as one.
    private var proxies: [Reach.Step] {
        var steps: [Reach.Step] = []
        for relay in relays {
            let step: Reach.Step
            switch relay.route {
            case .direct: continue
            case .through(let proxy):
                let password = proxy.hasPassword ? ", with a name and a password" : ""
                step = Reach.Step("proxy", .ok, "Relays are reached through \(proxy)\(password).")
            case .impossible(let problem):
                step = Reach.Step("proxy", .warning, "\(problem).", remedy: Self.proxyRemedy)
            @unknown default: continue
            }
            if !steps.contains(step) { steps.append(step) }
        }
        return steps
    }

    private static let proxyRemedy =
        "Set HTTPS_PROXY where this device is started, or kith up --proxy URL; with a password write http://NAME:PASSWORD@HOST:PORT to a file: --proxy @FILE; without a proxy: --proxy none"

    /// The time within which a relay is to be connected.
    private static let patience = Duration.seconds(15)

    /// A relay, the connection to it, and whether others reach it by its URL.
    fileprivate func step(of relay: DeviceReach.RelayInUse, isNeeded: Bool) -> Reach.Step {
        var step = connectionStep(of: relay, isNeeded: isNeeded)
        guard relay.address.isOfLocalNetwork else { return step }
        if step.outcome == .ok { step.outcome = .warning }
        step.finding += " Its address is one of a local network: devices on other networks do not reach it there."
        step.remedy =
            step.remedy
            ?? "Name it as others reach it: kith up --use-relay URL, or --relay-address HOST:PORT for this device's own."
        return step
    }

    /// A relay, and the connection to it; one that fails is a failure of the device where it `isNeeded`.
    private func connectionStep(of relay: DeviceReach.RelayInUse, isNeeded: Bool) -> Reach.Step {
        let subject = "relay \(relay.address)"
        let trouble: Reach.Outcome = isNeeded ? .failure : .warning
        let missing =
            relay.route == .direct
            ? "See that the relay runs, and that its URL is the one it prints, with its key." : Self.proxyRemedy
        switch relay.state {
        case .connected(let roundTrip):
            let role =
                relay.address == home
                ? "this device is to be found there"
                : relay.address == standby ? "it takes over when the first is gone" : "not needed now"
            let time = roundTrip.map { ", \(Int(($0 / .milliseconds(1)).rounded())) ms" } ?? ""
            let way = if case .through(let proxy) = relay.route { " through the proxy \(proxy)" } else { "" }
            let carrier =
                switch relay.carrier {
                case .quic: " by QUIC"
                case .tcp: " by TCP"
                case nil: ""
                }
            var step = Reach.Step(subject, .ok, "Connected\(way)\(carrier)\(time); \(role).")
            if relay.isUnproven {
                step = Reach.Step(
                    subject, .warning,
                    "Connected\(way)\(carrier)\(time); \(role). It has not proven its key: plain http proves none.",
                    remedy: "Let UDP through to port \(relay.address.port) there, or use a relay with https.")
            }
            step.carrier = relay.carrier?.rawValue
            return step
        case .denied(let reason):
            return Reach.Step(
                subject, trouble, "It does not let this device in: \(reason).",
                remedy:
                    "Ask whoever runs it, and write its token to a file: kith up --use-relay \(relay.address) --relay-token @FILE"
            )
        case .waiting(let reason):
            return Reach.Step(
                subject, trouble, "Not connected: \(reason). It is tried again.", remedy: missing)
        case .captive(let portal):
            return Reach.Step(
                subject, trouble,
                "Not connected. This network wants you to sign in first: open \(portal.url) in a browser.",
                remedy: "Sign in there; this device connects by itself then.")
        case .restarting: return Reach.Step(subject, .ok, "It restarts; this device comes back to it.")
        case .idle, .connecting, .closed:
            // Another attempt is under way: what the last one came to holds until then.
            if let failure = relay.failure {
                return Reach.Step(
                    subject, trouble, "Not connected: \(failure). It is tried again.", remedy: missing)
            }
            guard let lostAt = relay.lostAt, .now - lostAt > Self.patience else {
                return Reach.Step(subject, .ok, "Not connected yet.")
            }
            let seconds = (.now - lostAt).components.seconds
            return Reach.Step(subject, trouble, "Not connected for \(seconds) s.", remedy: missing)
        }
    }
}

extension DirectoryClient.Standing {
    /// Indicates whether the last publication failed, or the last question.
    var hasFailed: Bool {
        if case .failed = publication { return true }
        if case .failed = question { return true }
        return false
    }
}

extension Reach.Network.Directory {
    /// Describes what became of the last publication, and of the last question.
    package init(_ standing: DirectoryClient.Standing) {
        func words(_ outcome: DirectoryClient.Standing.Outcome) -> (state: String, reason: String?) {
            switch outcome {
            case .untried: ("untried", nil)
            case .worked: ("worked", nil)
            case .failed(let reason): ("failed", reason)
            }
        }
        let (publication, question) = (words(standing.publication), words(standing.question))
        self.init(url: standing.directory.description, publication: publication.state, question: question.state)
        reason = publication.reason ?? question.reason
    }
}
