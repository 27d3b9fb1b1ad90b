import Foundation
import Glibc
import KithIdentity
import KithTesting
import KithWire
import Logging
import Synchronization
import Testing

@testable import KithNet

/// The responder of a device's own, on a local network: with another device, the package zeroconf, and Avahi beside it.
@Suite(.enabled(if: Bridge.isPossible), .timeLimit(.minutes(4))) struct MulticastDNSTests {
    /// A bus that is not there: Avahi is not asked.
    private static let noBus = "unix:path=/nonexistent/bus"

    /// What zeroconf says.
    private struct Line: Decodable {
        var event: String
        var name: String?
        var host: String?
        var port: Int?
        var text: [String: String]?
        var addresses: [String]?
    }

    /// The lines that came so far.
    private final class Lines: Sendable {
        private let state = Mutex((all: [Line](), rest: Data()))

        func received(_ data: Data) {
            state.withLock { state in
                state.rest += data
                while let end = state.rest.firstIndex(of: 10) {
                    // What is not a line of its own is a complaint of Python's, which stands in the output.
                    if let line = try? JSONDecoder().decode(Line.self, from: Data(state.rest[..<end])) {
                        state.all.append(line)
                    }
                    state.rest = Data(state.rest[(end + 1)...])
                }
            }
        }

        func contain(_ isRight: (Line) -> Bool) -> Bool { state.withLock { $0.all.contains(where: isRight) } }
    }

    /// A program of zeroconf at an end of the network.
    private final class Zeroconf {
        private let process = Process()
        private let input = Pipe()
        private let output = Pipe()
        private let lines = Lines()

        init(_ bridge: Bridge, _ end: Int, _ mode: String, _ options: [String: any Sendable]) throws {
            process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
            process.arguments = bridge.command(at: end, try Python.command("mdns_peer.py", mode, options))
            process.standardInput = input
            process.standardOutput = output
            output.fileHandleForReading.readabilityHandler = { [lines] handle in
                let data = handle.availableData
                if data.isEmpty { handle.readabilityHandler = nil }
                lines.received(data)
            }
            try process.run()
        }

        /// Whether it has said something like that.
        func hasSaid(_ isRight: (Line) -> Bool) -> Bool { lines.contain(isRight) }
        func hasSaid(_ event: String, _ name: String? = nil) -> Bool {
            hasSaid { line in
                line.event == event && name.map { line.name?.hasPrefix("\($0).") == true } ?? true
            }
        }

        /// Lets it say goodbye.
        func end() {
            // A pipe that is closed already is what is wanted.
            try? input.fileHandleForWriting.close()
            process.waitUntilExit()
        }
    }

    private func hour() -> UInt64 { ServiceName.hour(of: UInt64(Date().timeIntervalSince1970 * 1_000)) }

    private func discovery(_ key: DeviceKey, at end: Int, hearing paired: [DeviceID], bus: String = noBus)
        -> LocalDiscovery
    {
        var options = LocalDiscovery.Options()
        options.group.port = UInt16(5_001 + end)
        options.group6 = nil
        options.systemBus = bus
        return LocalDiscovery(
            key: key, options: options,
            addresses: { [NetworkAddress(ipv4: (10, 9, 0, UInt8(end + 1)), port: 4_433)] },
            isPaired: { paired.contains($0) }, paired: { paired }, note: { _ in },
            logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
    }

    /// What a device says by a name, as the strings of a TXT record.
    private func text(_ key: DeviceKey, at address: NetworkAddress, by name: ServiceName) throws -> [String: String] {
        let announcement = try LocalAnnouncement(
            id: key.id, number: UInt64(Date().timeIntervalSince1970 * 1_000), lifetime: 900, addresses: [address]
        ).signed(by: key)
        let letters = Array(Base64.encodeURL(name.seal(announcement)).utf8)
        var text: [String: String] = [:]
        for (index, start) in stride(from: 0, to: letters.count, by: 240).enumerated() {
            text["a\(index)"] = String(decoding: letters[start...].prefix(240), as: UTF8.self)
        }
        return text
    }

    @Test(arguments: [false, true]) func `two devices without Avahi find each other, where they moved to, too`(
        isIPv6: Bool
    ) async throws {
        let bridge = try Bridge()
        defer { bridge.remove() }
        let environment = ["env", "DBUS_SYSTEM_BUS_ADDRESS=\(Self.noBus)"]
        let laptop = try Machine(bridge, 0, "laptop", environment: environment)
        let phone = try Machine(bridge, 1, "phone", environment: environment)
        defer {
            laptop.remove()
            phone.remove()
        }
        func place(_ number: Int) -> String { isIPv6 ? "fd0a::\(number)/64" : "10.9.0.\(number)/24" }
        func isAt(_ number: Int, _ heard: [String]) -> Bool {
            heard.contains { $0.hasPrefix(isIPv6 ? "[fd0a::\(number)]:" : "10.9.0.\(number):") }
        }
        func up(_ machine: Machine) throws { try machine.up("--no-group") }
        try laptop.address("add", place(1))
        try phone.address("add", place(2))
        for machine in [laptop, phone] { try up(machine) }
        let invitation = try laptop.kith("invite", "--yes", "--text", "--grant", "shell")
        try phone.kith("pair", invitation.trimmingCharacters(in: .whitespacesAndNewlines), "--yes")
        try await eventually { try isAt(1, phone.heard()) && isAt(2, laptop.heard()) }
        #expect(try phone.kith("doctor").contains("This device itself answers as _kith._udp"))

        // Both are switched off without a word, and come back elsewhere: no address that either knows is right.
        for pid in [try laptop.pid(), try phone.pid()] { kill(pid, SIGKILL) }
        for (machine, old, new) in [(laptop, 1, 11), (phone, 2, 12)] {
            try machine.address("del", place(old))
            try machine.address("add", place(new))
            try up(machine)
        }
        try await eventually { try isAt(11, phone.heard()) && isAt(12, laptop.heard()) }
        #expect(try phone.kith("shell", "laptop", "--", "echo", "found") == "found\n")
        // An address that comes while it runs is announced by itself, and a goodbye is heard.
        try laptop.address("add", place(21))
        try await eventually { try isAt(21, phone.heard()) }
        try laptop.kith("down")
        try await eventually { try phone.heard().isEmpty }
    }

    @Test(.enabled(if: Python.isZeroconfInstalled)) func `zeroconf finds a device and says what it says, and is found`()
        async throws
    {
        let bridge = try Bridge()
        defer { bridge.remove() }
        for end in 0..<2 { try bridge.run(at: end, "ip", "address", "add", "10.9.0.\(end + 1)/24", "dev", "eth0") }
        let names = try (0..<2).map { try Namespace(path: bridge.path(of: $0)) }
        defer { for name in names { name.end() } }
        let (laptop, phone) = (DeviceKey(), DeviceKey())
        let own = discovery(laptop, at: 0, hearing: [phone.id])
        let other = try Zeroconf(bridge, 1, "browse", ["address": "10.9.0.2", "type": "_kith._udp.local."])
        defer { other.end() }
        try await eventually { other.hasSaid("ready") }
        let began = hour()
        try await withThrowingDiscardingTaskGroup { group in
            defer { own.stop() }
            group.addTask(executorPreference: names[0]) { await own.run() }
            var found: ServiceName?
            try await eventually {
                found = [began, hour()].map { ServiceName(of: laptop.id, hour: $0) }.first {
                    other.hasSaid("added", $0.service)
                }
                return found != nil
            }
            let name = try #require(found)
            let isRight = other.hasSaid { line in
                guard line.name?.hasPrefix(name.service) == true, line.host == "\(name.host).local.",
                    line.port == 4_433, line.addresses == ["10.9.0.1"], let text = line.text, text["txtvers"] == "1"
                else { return false }
                let letters = (0..<4).compactMap { text["a\($0)"] }.joined()
                guard let sealed = Base64.decodeURL(letters), let bytes = name.open(sealed),
                    let announcement = try? ReceivedAnnouncement(bytes)
                else { return false }
                return announcement.isGenuine && announcement.claim.id == laptop.id
                    && announcement.claim.addresses == [NetworkAddress(ipv4: (10, 9, 0, 1), port: 4_433)]
            }
            #expect(isRight)
            #expect(own.status.responder == .answering)

            // By its name, an address of another network is not believed; one of this network is.
            for (attempt, address) in [(0, NetworkAddress(ipv4: (192, 0, 2, 1), port: 4_433)), (1, .host2)] {
                let name = ServiceName(of: phone.id, hour: hour(), attempt: UInt8(attempt))
                let publisher = try Zeroconf(
                    bridge, 1, "publish",
                    [
                        "address": "10.9.0.2", "type": "_kith._udp.local.", "name": name.service, "host": name.host,
                        "port": 4_433, "text": try text(phone, at: address, by: name),
                    ])
                defer { publisher.end() }
                try await eventually { publisher.hasSaid("ready") }
                if attempt == 0 {
                    try await eventually { own.refused(.otherNetwork) > 0 }
                    #expect(own.addresses(of: phone.id).isEmpty)
                } else {
                    try await eventually { own.addresses(of: phone.id) == [.host2] }
                }
            }
            // That the service went says nothing: nobody has signed it.
            #expect(own.addresses(of: phone.id) == [.host2])
            own.stop()
            try await eventually { other.hasSaid("removed", name.service) }
        }
    }

    @Test(.enabled(if: Avahi.isPossible)) func `beside Avahi on one machine both are found, and find others`()
        async throws
    {
        let bridge = try Bridge()
        defer { bridge.remove() }
        var avahis: [Avahi] = []
        defer { for avahi in avahis { avahi.remove() } }
        for end in 0..<2 {
            try bridge.run(at: end, "ip", "address", "add", "10.9.0.\(end + 1)/24", "dev", "eth0")
            avahis.append(try Avahi(bridge, end))
        }
        let names = try (0..<2).map { try Namespace(path: bridge.path(of: $0)) }
        defer { for name in names { name.end() } }
        let (laptop, phone, tablet) = (DeviceKey(), DeviceKey(), DeviceKey())
        let own = discovery(laptop, at: 0, hearing: [phone.id, tablet.id])
        // One that Avahi offers on the same machine, one on another.
        for (end, key) in [(0, tablet), (1, phone)] {
            let name = ServiceName(of: key.id, hour: hour())
            let text = try text(key, at: NetworkAddress(ipv4: (10, 9, 0, UInt8(end + 1)), port: 5_000), by: name)
            try avahis[end].publish(name.service, text.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" })
        }
        let began = hour()
        try await withThrowingDiscardingTaskGroup { group in
            defer { own.stop() }
            group.addTask(executorPreference: names[0]) { await own.run() }
            try await eventually { !own.addresses(of: phone.id).isEmpty && !own.addresses(of: tablet.id).isEmpty }
            for avahi in avahis {
                try await eventually {
                    try avahi.browse().contains { fields in
                        [began, hour()].contains { hour in
                            let name = ServiceName(of: laptop.id, hour: hour)
                            return fields[3] == name.service && fields[6] == "\(name.host).local"
                                && fields[7] == "10.9.0.1" && fields[8] == "4433"
                        }
                    }
                }
            }
            #expect(own.status.responder == .answering)
        }
        try await eventually {
            try avahis[1].browse().allSatisfy { fields in
                ![began, hour()].contains { ServiceName(of: laptop.id, hour: $0).service == fields[3] }
            }
        }
    }

    @Test(.enabled(if: Avahi.isPossible)) func `iroh's name is offered where that is asked for, and not otherwise`()
        async throws
    {
        let bridge = try Bridge()
        defer { bridge.remove() }
        let avahi = try Avahi(bridge, 1)
        defer { avahi.remove() }
        let laptop = try Machine(bridge, 0, "laptop", environment: ["env", "DBUS_SYSTEM_BUS_ADDRESS=\(Self.noBus)"])
        defer { laptop.remove() }
        try laptop.address("add", "10.9.0.1/24")
        try bridge.run(at: 1, "ip", "address", "add", "10.9.0.2/24", "dev", "eth0")
        try laptop.up()
        let id = try #require(DeviceID(try laptop.id()))
        try await eventually { try !avahi.browse().isEmpty }
        #expect(try avahi.browse("_irohv1._udp").isEmpty)
        try laptop.kith("down")
        try laptop.up("--iroh-name")
        let key = Base32.encode(id.bytes)
        try await eventually {
            try avahi.browse("_irohv1._udp").contains {
                $0[3] == key && $0[6] == "\(key).local" && $0[7] == "10.9.0.1"
            }
        }
        try await eventually { try !avahi.browse().isEmpty }
    }
}

extension NetworkAddress {
    fileprivate static let host2 = NetworkAddress(ipv4: (10, 9, 0, 2), port: 5_000)
}
