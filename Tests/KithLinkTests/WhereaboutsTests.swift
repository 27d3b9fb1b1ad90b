import Foundation
import Glibc
import KithTesting
import Testing

/// Two devices, each the real `kith` in a network of its own.
@Suite(.enabled(if: Link.isPossible), .timeLimit(.minutes(4))) struct WhereaboutsTests {
    @Test func `devices that both moved while connected, and were both killed, find each other again`() async throws {
        try await Link.with(["delay": "5ms"]) { link in
            let (laptop, phone) = (try Machine(link, .left, "laptop"), try Machine(link, .right, "phone"))
            defer {
                laptop.remove()
                phone.remove()
            }
            for machine in [laptop, phone] {
                _ = try machine.run(["ip", "-6", "address", "flush", "dev", "link0"])
                try machine.up()
            }
            let invitation = try laptop.kith("invite", "--yes", "--text", "--grant", "shell")
            try phone.kith("pair", invitation.trimmingCharacters(in: .whitespacesAndNewlines), "--yes")
            // A connection that stays.
            try phone.kith("ping", "laptop", "--count", "1")

            // One after the other, as no two devices find each other that lose each other at once.
            try laptop.move(from: "10.7.0.1/16", to: "10.7.0.11/24")
            try await eventually { try phone.known().first?.hasPrefix("10.7.0.11:") == true }
            try phone.move(from: "10.7.0.2/16", to: "10.7.0.12/24")
            try await eventually { try laptop.known().first?.hasPrefix("10.7.0.12:") == true }

            for pid in [try laptop.pid(), try phone.pid()] { kill(pid, SIGKILL) }
            try laptop.up()
            try phone.up()
            #expect(try laptop.known().first?.hasPrefix("10.7.0.12:") == true)
            try laptop.kith("ping", "phone", "--count", "1")
            #expect(try phone.kith("shell", "laptop", "--", "echo", "found") == "found\n")
        }
    }

    @Test func `a device tells its connected ones of an address it gets besides`() async throws {
        try await Link.with(["delay": "5ms"]) { link in
            let (laptop, phone) = (try Machine(link, .left, "laptop"), try Machine(link, .right, "phone"))
            defer {
                laptop.remove()
                phone.remove()
            }
            for machine in [laptop, phone] { try machine.up() }
            let invitation = try laptop.kith("invite", "--yes", "--text")
            try phone.kith("pair", invitation.trimmingCharacters(in: .whitespacesAndNewlines), "--yes")
            try phone.kith("ping", "laptop", "--count", "1")
            // The connection does not go that way.
            _ = try laptop.run(["ip", "address", "add", "10.8.0.1/24", "dev", "link0"])
            try await eventually { try phone.known().contains(where: { $0.hasPrefix("10.8.0.1:") }) }
        }
    }
}
