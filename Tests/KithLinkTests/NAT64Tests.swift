import Foundation
import KithTesting
import Testing

/// A device with IPv6 alone, each the real `kith`, and the internet of IPv4 behind tayga.
@Suite("Through a NAT64", .serialized, .enabled(if: NAT64Network.isPossible), .timeLimit(.minutes(4)))
struct NAT64Tests {
    private static let quiet = ["--no-discovery", "--no-port-mapping"]

    /// Runs a relay and a device of the internet while `body` runs, and gives it the options that use the relay.
    private func withLaptop(_ network: NAT64Network, _ body: (Machine, [String]) async throws -> Void) async throws {
        let relay = "http://\(NAT64Network.world):3340"
        let command = network.insideWorld([
            Machine.program, "relay", "--no-tls", "--listen", "\(NAT64Network.world):3340", "--token", "of-the-lab",
        ])
        try await Program.run(command, isQuiet: true) { _ in
            let laptop = try Machine(network, "laptop")
            defer { laptop.remove() }
            let options = Self.quiet + ["--use-relay", relay, "--relay-token", "of-the-lab"]
            try laptop.up(options)
            try await body(laptop, options)
        }
    }

    /// Waits until the device has found the prefix, and reaches the relay by it.
    private func findsWay(_ phone: Machine, _ again: () async throws -> Void = {}) async throws {
        // The relay's URL has an address of IPv4, which no resolver makes up another for.
        try await eventually(within: .seconds(60)) {
            try await again()
            // It fails as long as the relay is not reached.
            let words = try phone.says("doctor", "--network")
            return words.contains("64:ff9b::/96") && words.contains("Connected") && words.contains("UDP works")
        }
    }

    private func pair(_ phone: Machine, _ laptop: Machine) async throws {
        let invitation = try laptop.kith("invite", "--yes", "--text")
        try phone.kith("pair", invitation.trimmingCharacters(in: .whitespacesAndNewlines), "--yes")
        try await eventually(within: .seconds(120)) {
            try phone.kith("ping", "laptop", "--count", "1")
            return try phone.isDirect() && laptop.isDirect()
        }
    }

    @Test func `a device with IPv6 alone reaches a relay and a device that have IPv4 alone`() async throws {
        let network = try NAT64Network()
        defer { network.remove() }
        try await Program.run(network.resolver, isQuiet: true) { resolver in
            struct Listening: Decodable { var listening: Int }
            _ = try await resolver.next(Listening.self)
            try await withLaptop(network) { laptop, options in
                let phone = try Machine(network.bridge, 1, "phone")
                defer { phone.remove() }
                try phone.up(options)
                try await findsWay(phone)
                try await pair(phone, laptop)
            }
        }
    }

    @Test func `the prefix that a router advertises leads there without a resolver, for as long as it says`()
        async throws
    {
        let network = try NAT64Network()
        defer { network.remove() }
        try await Program.run(network.advertiser) { router in
            struct Ready: Decodable { var ready: Bool }
            _ = try await router.next(Ready.self)
            func advertise(_ seconds: Int) async throws {
                struct Sent: Decodable { var sent: Int }
                try router.say(#"{"lifetime": \#(seconds)}"#)
                _ = try await router.next(Sent.self)
            }
            try await withLaptop(network) { laptop, options in
                let phone = try Machine(network.bridge, 1, "phone")
                defer { phone.remove() }
                try phone.up(options)
                // Again until the device listens, as routers do.
                try await findsWay(phone) { try await advertise(600) }
                try await pair(phone, laptop)
                func hasPrefix() throws -> Bool { try phone.kith("doctor", "--network").contains("64:ff9b::/96") }
                try await advertise(0)
                try await eventually { try !hasPrefix() }
                // The shortest lifetime: it ends by itself.
                try await advertise(8)
                try await eventually { try hasPrefix() }
                try await eventually(within: .seconds(30)) { try !hasPrefix() }
            }
        }
    }
}
