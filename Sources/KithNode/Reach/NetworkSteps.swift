import KithAPI
import KithNet
import KithReach

extension DeviceReach.Status {
    /// What a person is told of how this device can be reached from elsewhere.
    var steps: [Reach.Step] {
        var steps = relays.filter { $0.isOwn }.map { step(of: $0) }
        if steps.isEmpty {
            steps.append(
                Reach.Step(
                    "relays", .ok,
                    "None: devices on other networks are reached where an address is public, or passed on by the router."
                ))
        }
        steps += proxies
        if report.udp != .unknown {
            steps.append(
                Reach.Step("network", report.udp == .blocked ? .warning : .ok, report.sentences.joined(separator: " ")))
        }
        if let mapping {
            let finding =
                mapping.isBehindAnotherNAT
                ? "It passes \(mapping.external) on (\(mapping.method.rawValue)), but stands behind another NAT itself."
                : "It passes \(mapping.external) on to this device (\(mapping.method.rawValue))."
            steps.append(Reach.Step("router", .ok, finding))
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

    private func step(of relay: DeviceReach.RelayInUse) -> Reach.Step {
        let subject = "relay \(relay.address)"
        switch relay.state {
        case .connected(let roundTrip):
            let role =
                relay.address == home
                ? "this device is to be found there"
                : relay.address == standby ? "it takes over when the first is gone" : "not needed now"
            let time = roundTrip.map { ", \(Int(($0 / .milliseconds(1)).rounded())) ms" } ?? ""
            let way = if case .through(let proxy) = relay.route { " through the proxy \(proxy)" } else { "" }
            return Reach.Step(subject, .ok, "Connected\(way)\(time); \(role).")
        case .denied(let reason):
            return Reach.Step(
                subject, .warning, "It does not let this device in: \(reason).",
                remedy:
                    "Ask whoever runs it, and write its token to a file: kith up --use-relay \(relay.address) --relay-token @FILE"
            )
        case .waiting(let reason):
            return Reach.Step(
                subject, .warning, "Not connected: \(reason). It is tried again.",
                remedy: relay.route == .direct
                    ? "See that the relay runs, and that its address is right."
                    : Self.proxyRemedy)
        case .captive(let portal):
            return Reach.Step(
                subject, .warning,
                "Not connected. This network wants you to sign in first: open \(portal.url) in a browser.",
                remedy: "Sign in there; this device connects by itself then.")
        case .restarting: return Reach.Step(subject, .ok, "It restarts; this device comes back to it.")
        case .idle, .connecting, .closed: return Reach.Step(subject, .ok, "Not connected yet.")
        }
    }
}
