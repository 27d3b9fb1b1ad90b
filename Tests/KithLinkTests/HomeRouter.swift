import Foundation
import Glibc
import KithTesting

/// A home's router at end 0 of a bridged network: Debian's miniupnpd, which speaks PCP, NAT-PMP and UPnP.
///
/// The device at end 1 has it as its default route, of IPv6 by the address of its link, as routers announce themselves.
/// Its other side is an address of the internet: miniupnpd refuses those of documentation.
final class HomeRouter {
    /// The protocols it speaks.
    enum Speech {
        case all
        /// No PCP: such datagrams are dropped.
        case natPMPAndUPnP
        case upnpAlone
    }

    /// The protocols by which it is asked to open its firewall for IPv6.
    enum Speech6 {
        case pcp
        case upnpAlone
    }

    private let folder: URL
    private let bridge: Bridge
    private var daemon: Process?
    /// The namespaces of a second NAT and of the internet beyond it, if there are.
    private var beyond: [String] = []

    /// Why there can be none here, or nil.
    static let obstacle: String? = {
        if let obstacle = Bridge.obstacle { return obstacle }
        for program in ["miniupnpd", "nft", "upnpc", "natpmpc"]
        where !["/usr/bin", "/usr/sbin"].contains(where: {
            FileManager.default.isExecutableFile(atPath: "\($0)/\(program)")
        }) {
            return "\(program) is not installed (scripts/bootstrap --test)"
        }
        do {
            let bridge = try Bridge()
            defer { bridge.remove() }
            let router = try HomeRouter(bridge, .all)
            router.remove()
            return nil
        } catch {
            return "miniupnpd does not run here: \(error)"
        }
    }()

    /// Whether there can be one; says so if not.
    static let isPossible: Bool = {
        if let obstacle { print("skipped: \(obstacle)") }
        return obstacle == nil
    }()

    /// Sets the network up and starts the daemon.
    init(_ bridge: Bridge, _ speech: Speech) throws {
        self.bridge = bridge
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("kith-router-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        try here(["ip", "address", "add", "192.168.77.1/24", "dev", "eth0"])
        try here(["ip", "link", "add", "wan0", "type", "veth", "peer", "name", "wan1"])
        try here(["ip", "link", "set", "wan1", "up"])
        try here(["ip", "address", "add", "9.1.1.1/24", "dev", "wan0"])
        try here(["ip", "link", "set", "wan0", "up"])
        for words in [
            ["address", "add", "192.168.77.2/24", "dev", "eth0"], ["route", "add", "default", "via", "192.168.77.1"],
        ] {
            try Program.output(of: bridge.command(at: 1, ["ip"] + words))
        }
        // Of IPv6, at once: nobody else can have these addresses.
        try here(["sysctl", "-qw", "net.ipv6.conf.all.forwarding=1", "net.ipv6.conf.eth0.accept_dad=0"])
        try here(["ip", "address", "add", "2001:db8:77::1/64", "dev", "eth0", "nodad"])
        try here(["ip", "address", "add", "fe80::77/64", "dev", "eth0", "nodad"])
        for words in [
            ["address", "add", "2001:db8:77::2/64", "dev", "eth0", "nodad"],
            ["address", "add", "fe80::78/64", "dev", "eth0", "nodad"],
            ["route", "add", "default", "via", "fe80::77", "dev", "eth0"],
        ] {
            try Program.output(of: bridge.command(at: 1, ["ip", "-6"] + words))
        }
        // What miniupnpd expects to be there.
        try load(
            """
            table inet filter {
                chain forward { type filter hook forward priority 0; jump miniupnpd; }
                chain miniupnpd { }
                chain prerouting { type nat hook prerouting priority -100; jump prerouting_miniupnpd; }
                chain postrouting { type nat hook postrouting priority 100; jump postrouting_miniupnpd; }
                chain prerouting_miniupnpd { }
                chain postrouting_miniupnpd { }
            }
            """)
        if speech == .natPMPAndUPnP {
            // The first byte of the payload is the version.
            try load(
                """
                table inet old {
                    chain input { type filter hook input priority 0; udp dport 5351 @th,64,8 2 drop; }
                }
                """)
        }
        let settings = """
            ext_ifname=wan0
            listening_ip=eth0
            ipv6_disable=no
            enable_natpmp=\(speech == .upnpAlone ? "no" : "yes")
            enable_upnp=yes
            secure_mode=yes
            uuid=8ea882f7-7045-44fa-b912-41286e0b0f16
            allow 1024-65535 192.168.77.0/24 1024-65535
            deny 0-65535 0.0.0.0/0 0-65535

            """
        try settings.write(to: folder.appendingPathComponent("settings"), atomically: true, encoding: .utf8)
        try start()
    }

    private func load(_ rules: String) throws {
        let file = folder.appendingPathComponent("rules")
        try rules.write(to: file, atomically: true, encoding: .utf8)
        try here(["nft", "-f", file.path])
    }

    /// Runs a command in the router.
    @discardableResult func here(_ command: [String]) throws -> String {
        try Program.output(of: bridge.command(at: 0, command))
    }

    /// Runs a command in the device.
    func there(_ command: [String]) throws -> String { try Program.output(of: bridge.command(at: 1, command)) }

    private func start() throws {
        // ip replaces itself by the daemon, which stays in the foreground.
        daemon = try Program.start(
            bridge.command(
                at: 0,
                [
                    "miniupnpd", "-d", "-f", folder.appendingPathComponent("settings").path, "-P",
                    folder.appendingPathComponent("pid").path,
                ]))
    }

    /// Puts a second NAT between the router and the internet, where there is one machine: 11.1.1.2.
    ///
    /// The router keeps its address outside, 9.1.1.1: it cannot know that this is no address of the internet.
    func addSecondNAT() throws {
        let name = "kith-\(getpid())-\(UInt16.random(in: 0 ... .max))"
        let (nat, world) = ("\(name)-nat", "\(name)-world")
        for name in [nat, world] {
            try Program.output(of: ["ip", "netns", "add", name])
            beyond.append(name)
        }
        try here(["ip", "link", "set", "wan1", "netns", nat])
        for words in [
            ["-n", nat, "link", "add", "out0", "type", "veth", "peer", "name", "eth0", "netns", world],
            ["-n", nat, "address", "add", "9.1.1.254/24", "dev", "wan1"],
            ["-n", nat, "address", "add", "11.1.1.1/24", "dev", "out0"],
            ["-n", world, "address", "add", "11.1.1.2/24", "dev", "eth0"],
            ["-n", nat, "link", "set", "wan1", "up"], ["-n", nat, "link", "set", "out0", "up"],
            ["-n", world, "link", "set", "lo", "up"], ["-n", world, "link", "set", "eth0", "up"],
        ] {
            try Program.output(of: ["ip"] + words)
        }
        try here(["ip", "route", "add", "default", "via", "9.1.1.254"])
        let masquerade = folder.appendingPathComponent("masquerade")
        for (outside, inside) in [("wan0", bridge.command(at: 0, [])), ("out0", ["ip", "netns", "exec", nat])] {
            try """
            table ip home {
                chain out {
                    type nat hook postrouting priority 110
                    oifname \(outside) masquerade
                }
            }

            """.write(to: masquerade, atomically: true, encoding: .utf8)
            try Program.output(of: inside + ["nft", "-f", masquerade.path])
            try Program.output(of: inside + ["sysctl", "-qw", "net.ipv4.ip_forward=1"])
        }
    }

    /// Makes a device behind a router and a second NAT, with a relay in the internet beyond, while `body` runs.
    ///
    /// `body` gets the network, the device, which is not up, and the options that have it use the relay.
    static func withDevice(
        _ speech: Speech, _ body: (Bridge, Machine, _ options: [String]) async throws -> Void
    ) async throws {
        let bridge = try Bridge()
        defer { bridge.remove() }
        let router = try HomeRouter(bridge, speech)
        defer { router.remove() }
        try router.addSecondNAT()
        // Its answer to a search tells that it has started.
        try await eventually { (try? router.there(["upnpc", "-l"]))?.contains("ExternalIPAddress") ?? false }
        let relay = try router.insideWorld([
            Machine.program, "relay", "--no-tls", "--listen", "11.1.1.2:3340", "--token", "of-the-lab",
        ])
        try await Program.run(relay, isQuiet: true) { _ in
            let laptop = try Machine(bridge, 1, "laptop")
            defer { laptop.remove() }
            try await body(bridge, laptop, ["--use-relay", "http://11.1.1.2:3340", "--relay-token", "of-the-lab"])
        }
    }

    /// The command that runs `command` in the internet beyond the second NAT.
    private func insideWorld(_ command: [String]) throws -> [String] {
        guard let world = beyond.last else { throw LinkError("there is no second NAT") }
        return ["ip", "netns", "exec", world] + command
    }

    /// Whether the router passes a UDP port on to the device.
    func passesOn(_ port: UInt16) throws -> Bool {
        try here(["nft", "list", "chain", "inet", "filter", "prerouting_miniupnpd"])
            .contains("dport \(port) dnat ip to 192.168.77.2:")
    }

    /// Drops what asks it by PCP over IPv6, as a router that speaks UPnP alone there.
    func forgetPCP6() throws {
        try load(
            """
            table ip6 old {
                chain input { type filter hook input priority 0; udp dport 5351 drop; }
            }
            """)
    }

    /// Whether its firewall lets a UDP port of the device's IPv6 address in.
    func letsIn(_ port: UInt16) throws -> Bool {
        try here(["nft", "list", "chain", "inet", "filter", "miniupnpd"]).split(separator: "\n").contains { line in
            line.contains("dport \(port) ") && line.contains("0x20010db8007700000000000000000002")
                && line.contains("accept")
        }
    }

    /// The seconds for which it has run, as it says by NAT-PMP.
    func age() -> Int {
        guard let text = try? there(["natpmpc"]),
            let line = text.split(separator: "\n").first(where: { $0.hasPrefix("epoch = ") })
        else { return -1 }
        return Int(line.dropFirst(8)) ?? -1
    }

    /// Switches it off and on again: it forgets all it passed on.
    func restart() throws {
        stop()
        for chain in ["prerouting_miniupnpd", "postrouting_miniupnpd", "miniupnpd"] {
            try here(["nft", "flush", "chain", "inet", "filter", chain])
        }
        try start()
    }

    private func stop() {
        guard let daemon else { return }
        kill(daemon.processIdentifier, SIGKILL)
        daemon.waitUntilExit()
        self.daemon = nil
    }

    /// Ends it.
    func remove() {
        stop()
        // What is left of it ends with the machine.
        for name in beyond { _ = try? Program.output(of: ["ip", "netns", "delete", name]) }
        try? FileManager.default.removeItem(at: folder)
    }
}
