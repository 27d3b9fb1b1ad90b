import Foundation
import KithTesting
import KithWire
import Testing

/// `kith relay --domain`: a certificate from a real authority.
@Suite(.timeLimit(.minutes(5)), .enabled(if: Pebble.isInstalled)) struct RelayDomainTests {
    private struct Announcement: Decodable {
        var url: String
        var certificateUntil: String?
    }

    private func arguments(_ pebble: Pebble, _ more: String...) -> [String] {
        [
            "relay", "--domain", pebble.host, "--domain", "relay.example.org", "--acme-directory", pebble.directory,
            "--acme-root", pebble.rootFile, "--listen", "\(pebble.host):8443", "--http-listen",
            "\(pebble.host):\(Pebble.challengePort)", "--stun", "none",
        ] + more
    }

    private func ping(_ pebble: Pebble) async throws -> String {
        try await Pebble.output(
            "curl", ["--silent", "--cacert", pebble.issuerFile, "https://\(pebble.host):8443/ping"])
    }

    /// Runs `body` while a relay does, which is stopped as a service manager stops it.
    private func run(
        _ machine: Machine, _ arguments: [String], _ body: (_ said: String) async throws -> Void
    ) async throws {
        let running = try machine.start(arguments)
        do {
            try await eventually {
                running.soFar.contains("}") || running.soFar.contains("for  ") || !running.process.isRunning
            }
            try await body(running.soFar)
            running.process.terminate()
            let outcome = try await running.outcome(seconds: 30)
            #expect(outcome.status == 0, "\(outcome)")
        } catch {
            running.process.terminate()
            throw error
        }
    }

    @Test func `a relay obtains its certificate once, after agreement, and devices are given its URL`() async throws {
        let machine = try Machine("relay")
        try await Pebble.run { pebble in
            let refused = try await machine.kith(arguments(pebble))
            #expect(refused.status == 5 && refused.error.contains("thou%20wilt"), "\(refused)")
            #expect(refused.error.contains("--agree-to-terms"))
            try await run(machine, arguments(pebble, "--agree-to-terms", "--email", "me@example.org")) { said in
                #expect(said.contains("https://\(pebble.host):8443") && said.contains("valid to"), "\(said)")
                let answer = try await ping(pebble)
                #expect(answer == "pong\n")
            }
            pebble.stop()
            try await run(machine, arguments(pebble, "--json")) { said in
                let announcement = try JSONDecoder().decode(Announcement.self, from: Data(said.utf8))
                // The key is for QUIC; on TCP the authority's certificate proves the relay.
                #expect(announcement.url.hasPrefix("https://\(pebble.host):8443#"))
                #expect(announcement.url.hasSuffix("+ca"))
                #expect(announcement.certificateUntil?.hasSuffix("Z") == true)
                let answer = try await ping(pebble)
                #expect(answer == "pong\n")
            }
        }
        // A device may live in the same folder, before and after.
        try await machine.up("--no-discovery", "--no-port-mapping")
        await machine.remove()
    }

    @Test func `a relay that is killed at any moment of it starts again`() async throws {
        let machine = try Machine("relay")
        let folder = "\(machine.data)/relay"
        func files() -> [String] {
            (FileManager.default.enumerator(atPath: folder)?.allObjects as? [String] ?? []).sorted()
        }
        try await Pebble.run { pebble in
            for moment in ["/", "account.json", ".new", ".pem"] {
                let running = try machine.start(arguments(pebble, "--agree-to-terms", "--json"))
                // No pause between two looks: what is written is there for less than a millisecond.
                while running.process.isRunning, !files().contains(where: { $0.contains(moment) || moment == "/" }),
                    !running.soFar.contains("}")
                {}
                kill(running.process.processIdentifier, SIGKILL)
                _ = try await running.outcome(seconds: 30)
            }
            try await run(machine, arguments(pebble, "--agree-to-terms", "--json")) { said in
                #expect(said.contains("certificateUntil"), "\(said)")
                let answer = try await ping(pebble)
                #expect(answer == "pong\n")
                let left = files()
                #expect(!left.contains { $0.hasSuffix(".new") }, "\(left)")
            }
        }
        await machine.remove()
    }

    @Test func `a name that does not lead here is said so`() async throws {
        let machine = try Machine("relay")
        try await Pebble.run { pebble in
            var arguments = arguments(pebble, "--agree-to-terms")
            let place = try #require(arguments.firstIndex(of: "--http-listen"))
            arguments[place + 1] = NetworkAddress.ownLoopback(port: 5_002).description
            let outcome = try await machine.kith(arguments)
            #expect(outcome.status == 5 && outcome.error.contains("port 80 is open"), "\(outcome)")
        }
        await machine.remove()
    }
}
