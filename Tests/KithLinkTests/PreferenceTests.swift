import Foundation
import KithTesting
import Testing

/// What leaves a device, seen at its router, by the way that is preferred for reaching others.
@Suite("Preferences, by capture", .serialized, .enabled(if: Lab.isPossible), .timeLimit(.minutes(4)))
struct PreferenceTests {
    private static let token = "of-the-lab"

    /// Two devices behind NATs with a relay; `laptop` has the general preference from its first start on.
    private func withDevices(
        _ first: String, _ second: String, _ way: String,
        _ body: (Lab, PacketTap, Machine, Machine, _ relay: String) async throws -> Void
    ) async throws {
        try await Lab.with(first, second) { lab in
            let relay = try lab.text(of: "relay1") + ":3340"
            let command = try lab.command(
                in: "relay1", [Machine.program, "relay", "--no-tls", "--listen", relay, "--token", Self.token])
            try await Program.run(command, isQuiet: true) { _ in
                let (laptop, phone) = (try Machine(lab, "c1", "laptop"), try Machine(lab, "c2", "phone"))
                defer {
                    laptop.remove()
                    phone.remove()
                }
                // A device can only be told when it is there.
                try laptop.up(["--no-discovery", "--no-port-mapping"])
                try laptop.kith("path", way)
                try laptop.kith("down")
                let tap = try await lab.tap(in: "r1")
                try laptop.up(["--use-relay", "http://" + relay, "--relay-token", Self.token])
                try phone.up([])
                try await body(lab, tap, laptop, phone, relay)
            }
        }
    }

    @Test func `with relay no candidate leaves, and no packet goes to the other device or its router`() async throws {
        try await withDevices("port-restricted", "port-restricted", "relay") { lab, tap, laptop, phone, _ in
            let invitation = try laptop.kith("invite", "--yes", "--text")
                .trimmingCharacters(in: .whitespacesAndNewlines)
            let own = try [lab.address(of: "c1"), lab.address(of: "r1")]
            let others = try [lab.address(of: "c2"), lab.address(of: "r2")]
            let content = try #require(Base32.bytes(of: invitation))
            for address in own { #expect(!content.contains(address), "the invitation names an address") }

            try phone.kith("pair", invitation, "--yes")
            try phone.kith("ping", "laptop", "--count", "3", "--interval", "0.1")
            try laptop.kith("ping", "phone", "--count", "3", "--interval", "0.1")
            #expect(try !laptop.isDirect() && !phone.isDirect())
            #expect(try phone.known() == [], "the other device knows no address of this one")

            let packets = try tap.packets()
            let toRelay = try lab.address(of: "relay1")
            #expect(packets.contains { $0.destination == toRelay && own.contains($0.source) }, "the tap hears")
            for packet in packets {
                #expect(!others.contains(packet.destination) && !others.contains(packet.source))
                guard packet.isToGroup else { continue }
                for address in own { #expect(!packet.payload.contains(address), "a group is told an address") }
            }
        }
    }

    @Test func `with local nothing leaves the network of the device, whatever it is told to do`() async throws {
        try await withDevices("port-restricted", "port-restricted", "auto") { lab, tap, laptop, phone, relay in
            let invitation = try laptop.kith("invite", "--yes", "--text")
                .trimmingCharacters(in: .whitespacesAndNewlines)
            try phone.kith("pair", invitation, "--yes")
            try laptop.kith("ping", "phone", "--count", "1")
            try laptop.kith("down")
            try laptop.kith("path", "local")
            // The end of the connections is on its way no more.
            try await eventually { try tap.packets().isEmpty }

            try laptop.up([
                "--use-relay", "http://" + relay, "--relay-token", Self.token, "--directory",
                "http://" + (try lab.text(of: "directory")) + ":8080/pkarr",
            ])
            for words in [[], ["--path", "local"]] {
                let said = try laptop.fails(["ping", "phone", "--count", "1"] + words)
                #expect(said.contains("not on this network"), "\(said)")
            }
            try laptop.kith("devices")
            _ = try laptop.fails("doctor", "phone")
            try laptop.kith("doctor", "--network")
            try laptop.kith("invite", "--yes", "--text")
            try laptop.kith("down")

            let (own, outside) = (try lab.address(of: "c1"), try lab.address(of: "r1"))
            let packets = try tap.packets()
            #expect(packets.contains { $0.source == own && $0.isToGroup }, "it announces itself there")
            for packet in packets where packet.source == own || packet.source == outside {
                // Its own network is 192.168.1.0/24.
                let isNear = packet.destination >> 8 == own >> 8
                #expect(packet.isToGroup || isNear, "a packet to \(String(packet.destination, radix: 16))")
            }
        }
    }

    @Test func `with direct user data waits for a direct path, or fails and says so`() async throws {
        try await withDevices("port-restricted", "port-restricted", "auto") { lab, _, laptop, phone, _ in
            let invitation = try laptop.kith("invite", "--yes", "--text")
                .trimmingCharacters(in: .whitespacesAndNewlines)
            try phone.kith("pair", invitation, "--yes")
            try phone.kith("path", "laptop", "direct")
            // The relay serves to meet; what is asked goes the direct way alone.
            try await eventually(within: .seconds(60)) {
                try phone.fails("ping", "laptop", "--count", "1").isEmpty
            }
            #expect(try phone.isDirect())
            let router = try lab.text(of: "r1")
            #expect(try phone.kith("ping", "laptop", "--count", "1", "--path", "direct").contains("at \(router):"))

            try await lab.change("drop 2 udp")
            try await eventually(within: .seconds(120)) {
                try phone.fails("ping", "laptop", "--count", "1").contains("Only a relay leads to laptop")
            }
            try phone.kith("path", "laptop", "auto")
            try await eventually(within: .seconds(60)) {
                try phone.fails("ping", "laptop", "--count", "1").isEmpty
            }
        }
    }
}

private enum Base32 {
    /// The bytes of an invitation; nil when it is none.
    static func bytes(of invitation: String) -> [UInt8]? {
        let prefix = "kith-invite1"
        guard invitation.hasPrefix(prefix) else { return nil }
        var (bits, count, bytes) = (UInt32(0), 0, [UInt8]())
        for letter in invitation.dropFirst(prefix.count).utf8 {
            guard let value = Array("abcdefghijklmnopqrstuvwxyz234567".utf8).firstIndex(of: letter) else { return nil }
            (bits, count) = (bits << 5 | UInt32(value), count + 5)
            guard count >= 8 else { continue }
            count -= 8
            bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
            bits &= 1 << UInt32(count) - 1
        }
        return bytes
    }
}

extension [UInt8] {
    /// Indicates whether an IPv4 address is in there, as four bytes or as text.
    fileprivate func contains(_ address: UInt32) -> Bool {
        let bytes = (0..<4).reversed().map { UInt8(truncatingIfNeeded: address >> UInt32($0 * 8)) }
        let text = Array(bytes.map(String.init).joined(separator: ".").utf8)
        return [bytes, text].contains { pattern in
            count >= pattern.count
                && indices.dropLast(pattern.count - 1).contains { self[$0..<$0 + pattern.count].elementsEqual(pattern) }
        }
    }
}

extension PacketTap.Packet {
    /// The contents, without the header that has the addresses in any case.
    fileprivate var payload: [UInt8] { Array(bytes.dropFirst(Int(bytes[0] & 15) * 4)) }
}
