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
        try await Lab.with(pair.0, pair.1) { lab in
            try await withRelays(["relay1", "relay2"], lab) { relays in
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
