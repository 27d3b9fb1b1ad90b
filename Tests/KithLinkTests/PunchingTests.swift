import Foundation
import KithTesting
import Testing

/// Two devices behind NATs, each the real `kith`, that know each other through relays at first.
@Suite("Through two NATs", .serialized, .enabled(if: Lab.isPossible), .timeLimit(.minutes(4)))
struct PunchingTests {
    /// The hardest pairs that can be connected: by chance, and by counting.
    static let pairs = [
        ("port-restricted", "port-restricted"), ("symmetric", "port-restricted"), ("port-restricted", "symmetric"),
        ("sequential", "port-restricted"), ("sequential", "sequential"),
    ]

    private static let token = "of-the-lab"

    @Test(arguments: pairs) func `devices come to a direct path`(_ pair: (String, String)) async throws {
        try await meet(pair, by: ["relay1", "relay2"])
    }

    @Test(arguments: [pairs[1], pairs[3]])
    func `one relay is enough to recognise a hard NAT`(_ pair: (String, String)) async throws {
        try await meet(pair, by: ["relay1"])
    }

    /// Has two devices that know each other by relays come to a direct path.
    private func meet(_ pair: (String, String), by places: [String]) async throws {
        try await Lab.with(pair.0, pair.1) { lab in
            try await withRelays(places, lab) { relays in
                let (laptop, phone) = (try Machine(lab, "c1", "laptop"), try Machine(lab, "c2", "phone"))
                defer {
                    laptop.remove()
                    phone.remove()
                }
                let quiet = ["--no-discovery", "--no-port-mapping"]
                try laptop.up(quiet + relays.flatMap { ["--use-relay", $0] } + ["--relay-token", Self.token])
                // It learns of relays and token by the invitation.
                try phone.up(quiet)
                let invitation = try laptop.kith("invite", "--yes", "--text")
                try phone.kith("pair", invitation.trimmingCharacters(in: .whitespacesAndNewlines), "--yes")
                // Chance fails once in fifty times, and is tried again after a minute.
                try await eventually(within: .seconds(180)) {
                    try phone.kith("ping", "laptop", "--count", "1")
                    return try phone.isDirect() && laptop.isDirect()
                }
            }
        }
    }

    /// Two devices behind one NAT, by who has it, and the start of the path when packets come back at its public address.
    static let shared = [("apart", "hairpin", "93.184.200.101:"), ("carrier", "carrier-hairpin", "93.184.200.120:")]

    @Test(arguments: shared)
    func `behind one NAT that keeps them apart, devices use the relay, and a hairpin once it takes them`(
        _ shared: (before: String, after: String, path: String)
    ) async throws {
        try await withSharedNAT(shared.before) { lab, laptop, phone in
            try phone.kith("ping", "laptop", "--count", "30", "--interval", "0.1")
            #expect(try !phone.isDirect() && !laptop.isDirect())
            try await lab.change("share \(shared.after)")
            try await eventually(within: .seconds(120)) {
                try phone.kith("ping", "laptop", "--count", "1")
                return try phone.isDirect() && laptop.isDirect()
            }
            let paths = try [phone.path(), laptop.path()]
            #expect(paths.allSatisfy { $0?.hasPrefix(shared.path) == true }, "\(paths)")
        }
    }

    @Test func `behind one router that joins their networks, devices meet at their addresses there`() async throws {
        try await withSharedNAT("lan") { _, laptop, phone in
            try await eventually(within: .seconds(60)) {
                try phone.kith("ping", "laptop", "--count", "1")
                return try phone.isDirect() && laptop.isDirect()
            }
            #expect(try phone.path()?.hasPrefix("192.168.1.2:") == true)
            #expect(try laptop.path()?.hasPrefix("192.168.2.2:") == true)
        }
    }

    /// Makes two devices behind one NAT that know each other through relays.
    private func withSharedNAT(_ sharing: String, _ body: (Lab, Machine, Machine) async throws -> Void) async throws {
        try await Lab.with("port-restricted", "port-restricted") { lab in
            try await lab.change("share \(sharing)")
            try await withRelays(["relay1", "relay2"], lab) { relays in
                let (laptop, phone) = (try Machine(lab, "c1", "laptop"), try Machine(lab, "c2", "phone"))
                defer {
                    laptop.remove()
                    phone.remove()
                }
                let quiet = ["--no-discovery", "--no-port-mapping"]
                // Their ports differ: the lab's NAT keeps them as they are.
                let own = relays.flatMap { ["--use-relay", $0] } + ["--relay-token", Self.token]
                try laptop.up(quiet + own + ["--port", "4401"])
                try phone.up(quiet + ["--port", "4402"])
                let invitation = try laptop.kith("invite", "--yes", "--text")
                try phone.kith("pair", invitation.trimmingCharacters(in: .whitespacesAndNewlines), "--yes")
                try await body(lab, laptop, phone)
            }
        }
    }

    /// Runs relays while `body` runs, and gives it their URLs.
    private func withRelays(
        _ places: [String], _ lab: Lab, _ urls: [String] = [], _ body: ([String]) async throws -> Void
    ) async throws {
        guard let place = places.first else { return try await body(urls) }
        let address = try lab.text(of: place) + ":3340"
        let command = try lab.command(
            in: place, [Machine.program, "relay", "--no-tls", "--listen", address, "--token", Self.token])
        try await Program.run(command, isQuiet: true) { _ in
            try await withRelays(Array(places.dropFirst()), lab, urls + ["http://" + address], body)
        }
    }
}
