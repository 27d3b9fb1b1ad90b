import Foundation
import Glibc
import KithIdentity
import KithTesting
import KithWire
import Logging
import Testing

@testable import KithNet

/// Two devices, each the real `kith`, that hear no group in common: only the real Avahi, one at each end of a bridge.
@Suite(.enabled(if: Avahi.isPossible), .timeLimit(.minutes(4))) struct ServiceDiscoveryTests {
    private struct Network {
        let bridge: Bridge
        let avahis: [Avahi]
        let laptop: Machine
        let phone: Machine

        init() throws {
            let bridge = try Bridge()
            let avahis = try (0..<2).map { try Avahi(bridge, $0) }
            (self.bridge, self.avahis) = (bridge, avahis)
            laptop = try Machine(bridge, 0, "laptop", environment: avahis[0].environment)
            phone = try Machine(bridge, 1, "phone", environment: avahis[1].environment)
            try laptop.address("add", "10.9.0.1/24")
            try phone.address("add", "10.9.0.2/24")
        }

        /// Starts a device; the other has another group.
        func up(_ machine: Machine) throws {
            try machine.up("--discovery-group", "239.255.42.98:\(machine.name == "laptop" ? 5_001 : 5_002)")
        }

        func pair() throws {
            for machine in [laptop, phone] { try up(machine) }
            let invitation = try laptop.kith("invite", "--yes", "--text", "--grant", "shell")
            try phone.kith("pair", invitation.trimmingCharacters(in: .whitespacesAndNewlines), "--yes")
        }

        func remove() {
            laptop.remove()
            phone.remove()
            for avahi in avahis { avahi.remove() }
            bridge.remove()
        }
    }

    /// The names of a device in the hours around now.
    private func names(of id: DeviceID) -> [ServiceName] {
        let hour = ServiceName.hour(of: UInt64(Date().timeIntervalSince1970 * 1_000))
        return [hour - 1, hour, hour + 1].flatMap { hour in
            (0..<ServiceName.maxAttempts).map { ServiceName(of: id, hour: hour, attempt: UInt8($0)) }
        }
    }

    private func isAt(_ address: String, _ heard: [String]) -> Bool { heard.first?.hasPrefix("\(address):") == true }

    @Test func `devices find each other by Avahi, where they moved to, and after it was killed; a goodbye is heard`()
        async throws
    {
        let network = try Network()
        defer { network.remove() }
        let (laptop, phone) = (network.laptop, network.phone)
        try network.pair()
        try await eventually { try isAt("10.9.0.1", phone.heard()) && isAt("10.9.0.2", laptop.heard()) }
        #expect(try phone.kith("doctor").contains("offers this device as _kith._udp"))

        // Another tool sees what the announcement says, and no name.
        let id = try #require(DeviceID(try laptop.id()))
        var seen: [[String]] = []
        try await eventually {
            seen = try network.avahis[1].browse().filter { fields in names(of: id).contains { $0.service == fields[3] }
            }
            return !seen.isEmpty
        }
        for fields in seen {
            #expect(fields[4...5] == ["_kith._udp", "local"] && fields[7] == "10.9.0.1", "\(fields)")
            #expect(names(of: id).contains { $0.service == fields[3] && "\($0.host).local" == fields[6] }, "\(fields)")
            let strings = fields[9].split(separator: " ").map { $0.trimmingCharacters(in: ["\""]) }
            #expect(
                strings.allSatisfy { $0 == "txtvers=1" || $0.hasPrefix("a0=") || $0.hasPrefix("a1=") }, "\(strings)")
        }

        // Both are switched off without a word; one comes back elsewhere.
        for pid in [try laptop.pid(), try phone.pid()] { kill(pid, SIGKILL) }
        try laptop.address("del", "10.9.0.1/24")
        try laptop.address("add", "10.9.0.11/24")
        for machine in [laptop, phone] { try network.up(machine) }
        try await eventually { try isAt("10.9.0.11", phone.heard()) && isAt("10.9.0.2", laptop.heard()) }
        #expect(try phone.kith("shell", "laptop", "--", "echo", "found") == "found\n")

        // Without Avahi it does the same itself; with it again, it is registered again, and moves again.
        network.avahis[0].killDaemon()
        try await eventually { try laptop.kith("doctor").contains("This device itself answers as _kith._udp") }
        try await eventually {
            try network.avahis[1].browse().contains { fields in names(of: id).contains { $0.service == fields[3] } }
        }
        try network.avahis[0].startDaemon()
        try await eventually { try laptop.kith("doctor").contains("offers this device as _kith._udp") }
        try laptop.address("add", "10.9.0.21/24")
        try await eventually { try phone.heard().contains { $0.hasPrefix("10.9.0.21:") } }

        try laptop.kith("down")
        try await eventually { try phone.heard().isEmpty }
        try await eventually {
            try network.avahis[1].browse().allSatisfy { fields in !names(of: id).contains { $0.service == fields[3] } }
        }
    }

    @Test func `what others say in a paired device's name is refused, and the device goes by another name`()
        async throws
    {
        let bridge = try Bridge()
        defer { bridge.remove() }
        var avahis: [Avahi] = []
        defer { for avahi in avahis { avahi.remove() } }
        for end in 0..<2 {
            try run(bridge.command(at: end, ["ip", "address", "add", "10.9.0.\(end + 1)/24", "dev", "eth0"]))
            avahis.append(try Avahi(bridge, end))
        }
        let (laptop, stranger) = (DeviceKey(), DeviceKey())
        let hour = ServiceName.hour(of: UInt64(Date().timeIntervalSince1970 * 1_000))
        let attempts = (0..<3).map { ServiceName(of: laptop.id, hour: hour, attempt: UInt8($0)) }

        // The laptop's key, but another's signature: the place of the key is the same in all announcements.
        let signed = try LocalAnnouncement(
            id: stranger.id, number: UInt64(Date().timeIntervalSince1970 * 1_000), lifetime: 900,
            addresses: [NetworkAddress(ipv4: (10, 9, 0, 66), port: 4_433)]
        ).signed(by: stranger)
        let forged = signed.prefix(9) + laptop.id.bytes + signed.dropFirst(41)
        let texts = stride(from: 0, to: 512, by: 240).enumerated().compactMap { index, start in
            let letters = Base64.encodeURL(attempts[0].seal(Array(forged))).utf8.dropFirst(start).prefix(240)
            return letters.isEmpty ? nil : "a\(index)=\(String(decoding: letters, as: UTF8.self))"
        }
        try avahis[0].publish(attempts[0].service, texts)
        try avahis[0].publish(attempts[1].service, ["a0=!!", "a3=\(String(repeating: "A", count: 240))"])
        try avahis[0].publish("an unpaired one; $(id)", ["a0=\(Base64.encodeURL(signed))"])

        let names = try (0..<2).map { try Namespace(path: bridge.path(of: $0)) }
        defer { for name in names { name.end() } }
        func discovery(_ end: Int, _ key: DeviceKey, hearing paired: DeviceID) -> LocalDiscovery {
            var options = LocalDiscovery.Options()
            options.group.port = UInt16(5_001 + end)
            options.group6 = nil
            options.systemBus = avahis[end].address
            return LocalDiscovery(
                key: key, options: options,
                addresses: { [NetworkAddress(ipv4: (10, 9, 0, UInt8(end + 1)), port: 4_433)] },
                isPaired: { $0 == paired }, paired: { [paired] }, note: { _ in },
                logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
        }
        let key = DeviceKey()
        let phone = discovery(1, key, hearing: laptop.id)
        let found = discovery(0, laptop, hearing: key.id)
        try await withThrowingDiscardingTaskGroup { group in
            defer { for one in [phone, found] { one.stop() } }
            group.addTask(executorPreference: names[1]) { await phone.run() }
            // The forgery, and what is no announcement.
            try await eventually {
                phone.status.responder == .registered && phone.refused(.forged) > 0 && phone.malformed > 0
            }
            #expect(phone.status.heard.isEmpty)
            group.addTask(executorPreference: names[0]) { await found.run() }
            let own = [NetworkAddress(ipv4: (10, 9, 0, 1), port: 4_433)]
            try await eventually { phone.addresses(of: laptop.id) == own }
            #expect(try avahis[1].browse().contains { $0[3] == attempts[2].service && $0[7] == "10.9.0.1" })
            // Whoever takes a service away cannot make the device leave.
            avahis[0].killDaemon(SIGTERM)
            // What is left of its forgeries with it: nobody offers them any more, and the device does without Avahi.
            try await eventually { found.status.responder == .answering }
            try await eventually { try avahis[1].browse().allSatisfy { $0[3] != attempts[2].service } }
            #expect(phone.addresses(of: laptop.id) == own)
        }
    }

    private func run(_ command: [String]) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = command
        try process.run()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0, "\(command)")
    }

    @Test func `nothing is offered where it is switched off`() async throws {
        let network = try Network()
        defer { network.remove() }
        try network.laptop.up("--no-dns-sd")
        try network.up(network.phone)
        let id = try #require(DeviceID(try network.phone.id()))
        func isPhone(_ fields: [String]) -> Bool { names(of: id).contains { $0.service == fields[3] } }
        try await eventually { try network.avahis[0].browse().contains(where: isPhone) }
        #expect(try network.avahis[0].browse().allSatisfy(isPhone))
        #expect(try !network.laptop.kith("doctor").contains("DNS-SD"))
    }
}
