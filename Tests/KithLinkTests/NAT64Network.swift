import Foundation
import Glibc
import KithTesting

/// A network of IPv6 alone, whose router has a NAT64 (Debian's tayga), and a machine of the internet with IPv4 alone.
///
/// The device is end 1 of a bridged network, the router end 0. The prefix is 64:ff9b::/96; the router's resolver has it
/// for those who ask for `ipv4only.arpa`.
final class NAT64Network {
    /// The address of the machine of the internet.
    static let world = "9.1.1.2"

    let bridge: Bridge
    private let outside: String
    private let folder: URL
    private let settings: URL
    private var daemons: [Process] = []

    /// Why there can be none here, or nil.
    static let obstacle: String? = {
        if let obstacle = Bridge.obstacle { return obstacle }
        for program in ["tayga", "nft"]
        where !["/usr/bin", "/usr/sbin"].contains(where: {
            FileManager.default.isExecutableFile(atPath: "\($0)/\(program)")
        }) {
            return "\(program) is not installed (scripts/bootstrap --test)"
        }
        guard FileManager.default.fileExists(atPath: "/dev/net/tun") else { return "tayga needs /dev/net/tun" }
        do {
            try NAT64Network().remove()
            return nil
        } catch {
            return "there is no NAT64 here: \(error)"
        }
    }()

    /// Whether there can be one; says so if not.
    static let isPossible: Bool = {
        if let obstacle { print("skipped: \(obstacle)") }
        return obstacle == nil
    }()

    /// Sets the network up.
    init() throws {
        bridge = try Bridge()
        outside = "kith64-\(getpid())-\(UInt16.random(in: 0 ... .max))"
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("kith-nat64-\(UUID().uuidString)")
        let name = URL(fileURLWithPath: bridge.path(of: 1)).lastPathComponent
        settings = URL(fileURLWithPath: "/etc/netns/\(name)")
        do {
            try make()
        } catch {
            remove()
            throw error
        }
    }

    private func make() throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        // What the device finds in place of /etc/resolv.conf.
        try FileManager.default.createDirectory(at: settings, withIntermediateDirectories: true)
        try "nameserver 2001:db8:64::1\n".write(
            to: settings.appendingPathComponent("resolv.conf"), atomically: true, encoding: .utf8)
        try Program.output(of: ["ip", "netns", "add", outside])
        try there(["ip", "link", "set", "lo", "up"])
        try here(["sysctl", "-qw", "net.ipv6.conf.all.forwarding=1", "net.ipv4.ip_forward=1"])
        let router = URL(fileURLWithPath: bridge.path(of: 0)).lastPathComponent
        try Program.output(of: [
            "ip", "link", "add", "wan0", "netns", router, "type", "veth", "peer", "name", "eth0", "netns", outside,
        ])
        try here(["ip", "link", "set", "wan0", "up"])
        try there(["ip", "link", "set", "eth0", "up"])
        try here(["ip", "address", "add", "9.1.1.1/24", "dev", "wan0"])
        try there(["ip", "address", "add", "\(Self.world)/24", "dev", "eth0"])
        try here(["ip", "address", "add", "2001:db8:64::1/64", "dev", "eth0", "nodad"])
        try here(["ip", "address", "add", "fe80::64/64", "dev", "eth0", "nodad"])
        try Program.output(
            of: bridge.command(at: 1, ["ip", "address", "add", "2001:db8:64::2/64", "dev", "eth0", "nodad"]))
        try Program.output(
            of: bridge.command(at: 1, ["ip", "-6", "route", "add", "default", "via", "fe80::64", "dev", "eth0"]))
        let file = folder.appendingPathComponent("settings").path
        try """
        tun-device nat64
        ipv4-addr 192.168.255.1
        ipv6-addr 2001:db8:64:1::64
        prefix 64:ff9b::/96
        dynamic-pool 192.168.255.0/24
        data-dir \(folder.path)

        """.write(toFile: file, atomically: true, encoding: .utf8)
        try here(["tayga", "-c", file, "--mktun"])
        try here(["ip", "link", "set", "nat64", "up"])
        try here(["ip", "route", "add", "192.168.255.0/24", "dev", "nat64"])
        try here(["ip", "-6", "route", "add", "64:ff9b::/96", "dev", "nat64"])
        try here(["nft", "add table ip nat"])
        try here(["nft", "add chain ip nat out { type nat hook postrouting priority 100 ; }"])
        try here(["nft", "add rule ip nat out oifname wan0 masquerade"])
        daemons.append(try Program.start(bridge.command(at: 0, ["tayga", "-c", file, "-d"])))
    }

    /// Runs a command in the router.
    func here(_ command: [String]) throws { try Program.output(of: bridge.command(at: 0, command)) }

    /// Runs a command in the machine of the internet.
    func there(_ command: [String]) throws { try Program.output(of: insideWorld(command)) }

    /// The command that runs `command` in the machine of the internet.
    func insideWorld(_ command: [String]) -> [String] { ["ip", "netns", "exec", outside] + command }

    /// The command that runs the router's resolver.
    var resolver: [String] {
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("Interop/dns64.py")
        return bridge.command(at: 0, ["python3", "-B", script.path, "2001:db8:64::1"])
    }

    /// The command that runs what advertises the prefix to the device.
    var advertiser: [String] {
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("Interop/router_advertisement.py")
        return bridge.command(at: 0, ["python3", "-B", script.path, "eth0"])
    }

    /// Ends it.
    func remove() {
        for daemon in daemons {
            kill(daemon.processIdentifier, SIGKILL)
            daemon.waitUntilExit()
        }
        daemons = []
        bridge.remove()
        // What is left of it ends with the machine.
        _ = try? Program.output(of: ["ip", "netns", "delete", outside])
        for place in [folder, settings] { try? FileManager.default.removeItem(at: place) }
    }
}
