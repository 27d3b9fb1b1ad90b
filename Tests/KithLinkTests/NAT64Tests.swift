import Foundation
import KithTesting
import Testing

/// A device with IPv6 alone, each the real `kith`, and the internet of IPv4 behind tayga.
@Suite("Through a NAT64", .serialized, .enabled(if: NAT64Network.isPossible), .timeLimit(.minutes(4)))
struct NAT64Tests {
    @Test func `a device with IPv6 alone reaches a relay and a device that have IPv4 alone`() async throws {
        let network = try NAT64Network()
        defer { network.remove() }
        let relay = "http://\(NAT64Network.world):3340"
        let command = network.insideWorld([
            Machine.program, "relay", "--no-tls", "--listen", "\(NAT64Network.world):3340", "--token", "of-the-lab",
        ])
        try await Program.run(network.resolver, isQuiet: true) { resolver in
            struct Listening: Decodable { var listening: Int }
            _ = try await resolver.next(Listening.self)
            try await Program.run(command, isQuiet: true) { _ in
                let (laptop, phone) = (try Machine(network, "laptop"), try Machine(network.bridge, 1, "phone"))
                defer {
                    laptop.remove()
                    phone.remove()
                }
                let quiet = ["--no-discovery", "--no-port-mapping"]
                try laptop.up(quiet + ["--use-relay", relay, "--relay-token", "of-the-lab"])
                try phone.up(quiet + ["--use-relay", relay, "--relay-token", "of-the-lab"])
                // The relay's URL has an address of IPv4, which no resolver makes up another for.
                try await eventually(within: .seconds(60)) {
                    let words = try phone.kith("doctor", "--network")
                    return words.contains("64:ff9b::/96") && words.contains("Connected") && words.contains("UDP works")
                }
                let invitation = try laptop.kith("invite", "--yes", "--text")
                try phone.kith("pair", invitation.trimmingCharacters(in: .whitespacesAndNewlines), "--yes")
                try await eventually(within: .seconds(120)) {
                    try phone.kith("ping", "laptop", "--count", "1")
                    return try phone.isDirect() && laptop.isDirect()
                }
            }
        }
    }
}
