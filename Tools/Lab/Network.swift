import Foundation

/// An internet of namespaces: two devices, each behind a router at home and one on the move, and servers.
///
/// Everything is joined by `internet`, which routes. Its two addresses are those of servers that tell who asks.
///
/// ```
///  c1 ── eth0 ── r1 ──┐                       ┌── r2 ── eth0 ── c2
///     └─ eth1 ── m1 ──┤        internet       ├── m2 ── eth1 ─┘
///                     └─ relay1 relay2 directory
/// ```
final class Network {
    static let first = "93.184.200.1"
    static let second = "93.184.200.2"
    /// The last byte of the carrier's public address.
    static let carrier = 120
    static let servers = ["relay1": 11, "relay2": 12, "directory": 13]

    /// A device, its two routers, and what is in use.
    final class Side {
        let number: Int
        var kinds: [Uplink: Kind]
        var uplink = Uplink.home
        /// The last byte of each router's public address, which changes when the provider gives another.
        fileprivate var hosts: [Uplink: Int]
        /// Whether the router at home has a carrier's NAT in front of it, instead of the internet.
        fileprivate var isBehindCarrier = false

        init(_ number: Int, _ kind: Kind) {
            self.number = number
            kinds = [.home: kind, .mobile: .symmetric]
            hosts = [.home: 100 + number, .mobile: 110 + number]
        }

        var device: String { "c\(number)" }
        func router(_ uplink: Uplink) -> String { "\(uplink == .home ? "r" : "m")\(number)" }
        func address(of uplink: Uplink) -> String {
            "\(uplink == .home && isBehindCarrier ? "100.64.0" : "93.184.200").\(hosts[uplink] ?? 0)"
        }
        func gateway(_ uplink: Uplink) -> String { uplink == .home ? "192.168.\(number).1" : "10.64.\(number).1" }
        func address(at uplink: Uplink) -> String {
            guard kinds[uplink] != .open else { return "93.184.200.\((hosts[uplink] ?? 0) + 50)" }
            return uplink == .home ? "192.168.\(number).2" : "10.64.\(number).2"
        }
        func prefix6(_ uplink: Uplink) -> String { "2a01:4f8:77:\(uplink == .home ? number : 10 + number)" }
    }

    enum Uplink: String, CaseIterable {
        case home, mobile
        var interface: String { self == .home ? "eth0" : "eth1" }
    }

    let prefix: String
    let sides: [Side]
    private var spaces: [String] = []
    /// The programs that stand for long or bad ways to the internet, by whose they are.
    private var links: [String: Process] = [:]
    /// How the devices are behind one NAT; nil when they are behind two.
    private var sharing: Sharing?

    /// Makes it; needs root.
    init(_ first: Kind, _ second: Kind) throws {
        prefix = "lab-\(getpid())"
        sides = [Side(1, first), Side(2, second)]
        do {
            try make()
        } catch {
            remove()
            throw error
        }
    }

    func space(_ name: String) -> String { "\(prefix)-\(name)" }

    /// The file that stands for a namespace.
    func path(_ name: String) -> String { "/run/netns/\(space(name))" }

    private func make() throws {
        try add("internet")
        try write("internet", "net.ipv4.ip_forward", "1")
        try write("internet", "net.ipv6.conf.all.forwarding", "1")
        for address in [Self.first, Self.second] { try ip("internet", "address", "add", "\(address)/32", "dev", "lo") }
        for host in 1...2 {
            try ip("internet", "address", "add", "2a01:4f8:77:ff::\(host)/128", "dev", "lo", "nodad")
        }
        for (server, host) in Self.servers.sorted(by: { $0.value < $1.value }) {
            try add(server)
            try attach(server, host: host)
        }
        for side in sides {
            try add(side.device)
            for uplink in Uplink.allCases {
                let router = side.router(uplink)
                try add(router)
                try write(router, "net.ipv4.ip_forward", "1")
                try write(router, "net.ipv6.conf.all.forwarding", "1")
                try attach(router, host: side.hosts[uplink] ?? 0)
                try ip(
                    router, "link", "add", "lan", "type", "veth", "peer", "name", uplink.interface, "netns",
                    space(side.device))
                try ip(router, "address", "add", "\(side.gateway(uplink))/24", "dev", "lan")
                try ip(router, "address", "add", "\(side.prefix6(uplink))::1/64", "dev", "lan", "nodad")
                try ip(router, "link", "set", "lan", "up")
                try ip(
                    "internet", "route", "add", "\(side.prefix6(uplink))::/64", "via",
                    "2a01:4f8:77:ff::\(side.hosts[uplink] ?? 0)", "dev", router)
                try filter(side, uplink)
            }
            try use(side, .home, families: ["v4"])
        }
    }

    private func add(_ name: String) throws {
        try Self.run(["ip", "netns", "add", space(name)])
        spaces.append(name)
        try ip(name, "link", "set", "lo", "up")
        try write(name, "net.ipv6.conf.default.accept_dad", "0")
        try write(name, "net.ipv6.conf.all.accept_dad", "0")
    }

    /// Joins a namespace with the internet, by a cable.
    private func attach(_ name: String, host: Int) throws {
        try ip("internet", "link", "add", name, "type", "veth", "peer", "name", "wan", "netns", space(name))
        try connect(name, host: host)
    }

    /// Gives both ends of the way to the internet their addresses and routes.
    private func connect(_ name: String, host: Int) throws {
        let (address, address6) = ("93.184.200.\(host)", "2a01:4f8:77:ff::\(host)")
        try ip("internet", "link", "set", name, "up")
        try ip(name, "link", "set", "wan", "up")
        try ip(name, "address", "replace", "\(address)/32", "dev", "wan")
        try ip(name, "address", "replace", "\(address6)/128", "dev", "wan", "nodad")
        try ip("internet", "route", "replace", "\(address)/32", "dev", name)
        try ip("internet", "route", "replace", "\(address6)/128", "dev", name)
        try ip(name, "route", "replace", "default", "via", Self.first, "dev", "wan", "onlink", "src", address)
        // Neighbours are told of addresses of that very cable alone.
        try ip("internet", "address", "replace", "fe80::1/64", "dev", name, "nodad")
        try ip(name, "-6", "route", "replace", "default", "via", "fe80::1", "dev", "wan")
    }

    // MARK: - Changes

    /// Puts another kind of NAT into a router; mappings there are forgotten.
    func set(_ kind: Kind, of side: Side, _ uplink: Uplink) throws {
        side.kinds[uplink] = kind
        try filter(side, uplink)
        if side.uplink == uplink { try use(side, uplink, families: try families(of: side)) }
    }

    private func filter(_ side: Side, _ uplink: Uplink) throws {
        let kind = side.kinds[uplink] ?? .symmetric
        let router = side.router(uplink)
        try Self.run(
            ["ip", "netns", "exec", space(router), "nft", "-f", "-"],
            input: kind.rules(public: side.address(of: uplink), sharing: router == "r1" ? homeSharing : nil))
        if kind == .open {
            let address = side.address(at: uplink)
            try ip(router, "route", "replace", "\(address)/32", "dev", "lan")
            try ip("internet", "route", "replace", "\(address)/32", "via", side.address(of: uplink), "dev", router)
        }
        // Without the program they end by themselves, in two minutes.
        _ = try? Self.run(["ip", "netns", "exec", space(router), "conntrack", "-F"])
    }

    /// What the first router at home does between two devices behind it.
    private var homeSharing: Sharing.Rules? {
        guard let sharing, !sharing.isByCarrier else { return nil }
        return Sharing.Rules(sharing, interfaces: ["lan", "guest"], network: "192.168.0.0/16")
    }

    /// Puts both devices behind one NAT; which one cannot be changed later.
    func share(_ sharing: Sharing) throws {
        if let former = self.sharing, former.isByCarrier != sharing.isByCarrier {
            throw LabError("the devices share another router already")
        }
        let isFirst = self.sharing == nil
        self.sharing = sharing
        if isFirst { try sharing.isByCarrier ? addCarrier() : addGuest() }
        if sharing.isByCarrier {
            let rules = Kind.portRestricted.rules(
                public: "93.184.200.\(Self.carrier)",
                sharing: Sharing.Rules(sharing, interfaces: ["r1", "r2"], network: "100.64.0.0/16"))
            try Self.run(["ip", "netns", "exec", space("isp"), "nft", "-f", "-"], input: rules)
        }
        for side in sides { try filter(side, .home) }
    }

    /// Moves the second device's cable to the first one's router, where it has a network of its own.
    private func addGuest() throws {
        try ip("r2", "link", "delete", "lan")
        try ip("r1", "link", "add", "guest", "type", "veth", "peer", "name", "eth0", "netns", space("c2"))
        try ip("r1", "address", "add", "\(sides[1].gateway(.home))/24", "dev", "guest")
        try ip("r1", "link", "set", "guest", "up")
        try use(sides[1], .home, families: ["v4"])
    }

    /// Moves the cables of both routers at home from the internet to a carrier's router.
    private func addCarrier() throws {
        try add("isp")
        try write("isp", "net.ipv4.ip_forward", "1")
        try attach("isp", host: Self.carrier)
        try ip("isp", "address", "add", "100.64.0.1/32", "dev", "lo")
        for side in sides {
            let router = side.router(.home)
            side.isBehindCarrier = true
            let address = side.address(of: .home)
            try ip("internet", "link", "delete", router)
            try ip("isp", "link", "add", router, "type", "veth", "peer", "name", "wan", "netns", space(router))
            try ip("isp", "link", "set", router, "up")
            try ip(router, "link", "set", "wan", "up")
            try ip(router, "address", "add", "\(address)/32", "dev", "wan")
            try ip("isp", "route", "add", "\(address)/32", "dev", router)
            try ip(router, "route", "add", "default", "via", "100.64.0.1", "dev", "wan", "onlink", "src", address)
        }
    }

    private func families(of side: Side) throws -> Set<String> {
        let text = try Self.run([
            "ip", "-n", space(side.device), "-o", "address", "show", "dev", side.uplink.interface, "scope", "global",
        ])
        var found: Set<String> = []
        if text.contains("inet ") { found.insert("v4") }
        if text.contains("inet6 ") { found.insert("v6") }
        return found
    }

    /// Has a device use its home network or the one on the move, and nothing else.
    func use(_ side: Side, _ uplink: Uplink, families: Set<String>) throws {
        let device = side.device
        for other in Uplink.allCases {
            try ip(device, "address", "flush", "dev", other.interface, "scope", "global")
            if other != uplink { try ip(device, "link", "set", other.interface, "down") }
        }
        side.uplink = uplink
        try ip(device, "link", "set", uplink.interface, "up")
        if families.contains("v4") {
            let isOpen = side.kinds[uplink] == .open
            let address = side.address(at: uplink)
            try ip(device, "address", "add", "\(address)/\(isOpen ? 32 : 24)", "dev", uplink.interface)
            try ip(
                device, "route", "replace", "default", "via", side.gateway(uplink), "dev", uplink.interface, "onlink",
                "src", address)
        }
        if families.contains("v6") {
            try ip(device, "address", "add", "\(side.prefix6(uplink))::2/64", "dev", uplink.interface, "nodad")
            try ip(
                device, "-6", "route", "replace", "default", "via", "\(side.prefix6(uplink))::1", "dev",
                uplink.interface)
        }
    }

    /// Takes the device's cable out, or puts it in again.
    func plug(_ side: Side, _ isIn: Bool) throws {
        guard isIn else { return try ip(side.device, "link", "set", side.uplink.interface, "down") }
        // Routes and addresses of IPv6 went with the link.
        try use(side, side.uplink, families: ["v4"])
    }

    /// Drops what a router passes on, without a word, or passes it again.
    func drop(_ what: String, _ side: Side, _ isDropped: Bool) throws {
        let router = side.router(side.uplink)
        let rule = what == "all" ? "drop" : "meta l4proto \(what) drop"
        let rules = ["ip", "ip6"].map { family in
            "flush chain \(family) lab switch\n" + (isDropped ? "add rule \(family) lab switch \(rule)\n" : "")
        }
        try Self.run(["ip", "netns", "exec", space(router), "nft", "-f", "-"], input: rules.joined())
    }

    /// Gives a router another public address, as providers do at night.
    func renumber(_ side: Side) throws {
        guard sharing == nil else { throw LabError("the devices share a router, which keeps its address") }
        let uplink = side.uplink
        let router = side.router(uplink)
        let old = side.address(of: uplink)
        side.hosts[uplink] = ((side.hosts[uplink] ?? 0) - 100) % 50 + 102
        try ip(router, "address", "flush", "dev", "wan")
        try ip("internet", "route", "del", "\(old)/32", "dev", router)
        try connect(router, host: side.hosts[uplink] ?? 0)
        try ip(
            "internet", "-6", "route", "replace", "\(side.prefix6(uplink))::/64", "via",
            "2a01:4f8:77:ff::\(side.hosts[uplink] ?? 0)", "dev", router)
        try filter(side, uplink)
        if side.kinds[uplink] == .open { try use(side, uplink, families: try families(of: side)) }
    }

    /// Has a router forget mappings that were not used for so many seconds.
    func expire(_ side: Side, after seconds: Int) throws {
        for name in ["nf_conntrack_udp_timeout", "nf_conntrack_udp_timeout_stream"] {
            try write(side.router(side.uplink), "net.netfilter.\(name)", "\(seconds)")
        }
    }

    /// Limits packets to a size, on the way to the internet.
    func limit(_ side: Side, to bytes: Int) throws {
        let router = side.router(side.uplink)
        try ip(router, "link", "set", "wan", "mtu", "\(bytes)")
        try ip("internet", "link", "set", router, "mtu", "\(bytes)")
    }

    /// Makes the way of a router to the internet as bad as a level, or a cable again.
    func degrade(_ side: Side, to level: Level?, by program: String) throws {
        try replaceWay(of: side, side.uplink, by: level?.options, program)
    }

    /// Makes the way from a router or server to the internet long, by its round trip in milliseconds; 0 is a cable again.
    func move(_ name: String, away milliseconds: Int, by program: String) throws {
        let options = milliseconds == 0 ? nil : ["--delay", "\(Double(milliseconds) / 2)ms"]
        if let host = Self.servers[name] { return try replaceWay(of: name, host: host, by: options, program) }
        for side in sides {
            for uplink in Uplink.allCases where side.router(uplink) == name {
                return try replaceWay(of: side, uplink, by: options, program)
            }
        }
        throw LabError("\(name) is no router and no server")
    }

    private func replaceWay(of side: Side, _ uplink: Uplink, by options: [String]?, _ program: String) throws {
        let router = side.router(uplink)
        try replaceWay(of: router, host: side.hosts[uplink] ?? 0, by: options, program)
        try ip(
            "internet", "-6", "route", "replace", "\(side.prefix6(uplink))::/64", "via",
            "2a01:4f8:77:ff::\(side.hosts[uplink] ?? 0)", "dev", router)
        try filter(side, uplink)
    }

    /// Joins a namespace with the internet by kith-link, or by a cable when there are no options.
    private func replaceWay(of name: String, host: Int, by options: [String]?, _ program: String) throws {
        guard Self.servers[name] != nil || sides.allSatisfy({ !$0.isBehindCarrier }) else {
            throw LabError("the carrier's cables stay as they are")
        }
        if let link = links.removeValue(forKey: name) {
            link.terminate()
            link.waitUntilExit()
        } else {
            try ip("internet", "link", "delete", name)
        }
        guard let options else { return try attach(name, host: host) }
        let link = Process()
        link.executableURL = URL(fileURLWithPath: program)
        link.arguments =
            ["--left-space", path(name), "--right-space", path("internet"), "--left-device", "wan"]
            + ["--right-device", name] + options
        let (input, output) = (Pipe(), Pipe())
        (link.standardInput, link.standardOutput) = (input, output)
        try link.run()
        links[name] = link
        // Its first line says that the devices are there.
        guard !output.fileHandleForReading.availableData.isEmpty else {
            throw LabError("kith-link did not join \(name) with the internet")
        }
        try connect(name, host: host)
    }

    /// Removes everything, with what runs inside.
    func remove() {
        for link in links.values { link.terminate() }
        links = [:]
        for name in spaces { Self.delete(space(name)) }
        spaces = []
    }

    /// Removes what is left of labs whose program is gone.
    static func removeRemains() {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/run/netns")) ?? []
        for name in names where name.hasPrefix("lab-") {
            guard let pid = name.split(separator: "-").dropFirst().first.flatMap({ pid_t($0) }), kill(pid, 0) != 0
            else { continue }
            delete(name)
        }
    }

    private static func delete(_ space: String) {
        // What is left when this fails ends with the machine.
        let pids = (try? run(["ip", "netns", "pids", space])) ?? ""
        for pid in pids.split(separator: "\n").compactMap({ pid_t($0) }) where pid != getpid() { kill(pid, SIGKILL) }
        _ = try? run(["ip", "netns", "delete", space])
    }

    // MARK: - Programs

    private func ip(_ space: String, _ words: String...) throws {
        try Self.run(["ip", "-n", self.space(space)] + words)
    }

    private func write(_ space: String, _ name: String, _ value: String) throws {
        let file = "/proc/sys/" + name.replacingOccurrences(of: ".", with: "/")
        try Self.run(["ip", "netns", "exec", self.space(space), "sh", "-c", "echo \(value) > \(file)"])
    }

    @discardableResult static func run(_ command: [String], input: String = "") throws -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = command
        let (given, output, errors) = (Pipe(), Pipe(), Pipe())
        (process.standardInput, process.standardOutput, process.standardError) = (given, output, errors)
        try process.run()
        given.fileHandleForWriting.write(Data(input.utf8))
        try given.fileHandleForWriting.close()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        let complaint = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw LabError("\(command.joined(separator: " ")): \(complaint.split(separator: "\n").first ?? "failed")")
        }
        return text
    }
}

/// What went wrong in the lab.
struct LabError: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}
