import Foundation
import KithAPI
import KithIdentity
import KithNet
import KithWire
import Logging
import Testing

/// Attacks of somebody who holds an invitation and speaks the protocol to the real daemon.
@Suite struct PairingAttackTests {
    @Test func `a joiner that hangs up on codes it does not want gets three challenges, and both people hear of it`()
        async throws
    {
        try await withTwoMachines { laptop, phone in
            let text = try await laptop.expect("invite", "--text", "--expires", "7d")
                .trimmingCharacters(in: .newlines)
            let grinder = try Grinder(text)
            let first = try await grinder.attempt()
            #expect(first.attempts == Pairing.Attempts(earlier: 0, byOthers: 0, left: 2))

            // The honest device comes between two attempts: its person is told, and says no.
            let honest = try Tmux(phone, ["pair", text])
            defer { honest.end() }
            try await honest.show("Another device has tried this invitation once before")
            try await honest.show("Do the codes match, and do you want to pair?")
            try honest.type("n")
            try await honest.show("refused at this device. Nothing was stored at either end.")
            try await honest.show("can be tried once more")

            // A power cut takes nothing off the count.
            try await laptop.killDaemon()
            try await laptop.up()
            let last = try await grinder.attempt()
            #expect(last.attempts == Pairing.Attempts(earlier: 2, byOthers: 2, left: 0))
            var refusals: [KithError] = []
            for _ in 0..<10 {
                do throws(KithError) {
                    _ = try await grinder.attempt()
                } catch {
                    refusals.append(error)
                }
            }
            #expect(refusals.count == 10 && refusals.allSatisfy { $0.code == .unpaired }, "\(refusals)")

            // The joining person hears what became of the invitation; the inviting one wherever they look.
            let burned = try await phone.kith(["pair", text, "--yes"])
            #expect(
                burned.status == 6 && burned.error.contains("3 attempts to pair by it came to nothing"), "\(burned)")
            let last8 = last.key.short
            for command in [["status"], ["devices", "--cached"], ["accept"], ["invite", "--list"], ["invite"]] {
                let shown = try await laptop.kith(command).error
                #expect(
                    shown.contains("3 attempts to pair by invitation") && shown.contains(last8), "\(command): \(shown)")
            }
            let audit = try await laptop.expect("audit", "--json", "--limit", "200")
            for key in [first.key, last.key] { #expect(audit.contains(key.description)) }
            #expect(audit.contains("attempt 3 of 3"))
            #expect(try await laptop.expect("devices", "--json", "--cached") == "[\n\n]\n")
        }
    }

    @Test func `an attempt is on the screen of the inviting end while it happens`() async throws {
        try await withTwoMachines { laptop, _ in
            let screen = try Tmux(laptop, ["invite"])
            defer { screen.end() }
            try await screen.show("Waiting for the device that uses it")
            let list = try await laptop.expect("invite", "--list")
            #expect(list.contains("ATTEMPTS LEFT"))
            // The wide line of the invitation is broken on the screen: another command gives one of its own.
            let text = try await laptop.expect("invite", "--text").trimmingCharacters(in: .newlines)
            let attempt = try await Grinder(text).attempt()
            try await screen.show("presented invitation")
            try await screen.show("the other device gave up")
            #expect(try screen.screen().contains(attempt.key.description.prefix(20)))
        }
    }
}

/// Joins with a fresh key each time, looks at the code the inviter would show, and hangs up before it is shown.
struct Grinder {
    let invitation: Invitation

    init(_ text: String) throws { invitation = try Invitation(text: text) }

    /// One challenge, and what it told.
    struct Attempt: Sendable {
        var key: DeviceID
        /// The code that the inviter would show, and does not know yet.
        var code: String
        var attempts: Pairing.Attempts?
    }

    /// Takes one challenge, and hangs up.
    func attempt(key: DeviceKey = DeviceKey()) async throws(KithError) -> Attempt {
        do {
            let endpoint = try await Endpoint.bind(
                key: key, logger: Logger(label: "grinder") { _ in SwiftLogNoOpLogHandler() })
            let result: Result<Attempt, any Error>
            do {
                result = .success(try await attempt(endpoint, key))
            } catch {
                result = .failure(error)
            }
            await endpoint.shutdown()
            return try result.get()
        } catch let error as KithError {
            throw error
        } catch {
            throw KithError(.internal, "\(error)")
        }
    }

    private func attempt(_ endpoint: Endpoint, _ key: DeviceKey) async throws -> Attempt {
        let connection = try await endpoint.connect(to: invitation.ticket.id, at: invitation.ticket.addresses)
        let header = StreamHeader(method: PairingMethods.Present.name, input: try CBOREncoder().encode(Nothing()))
        let opened = try await HeaderExchange.request(header, over: try await connection.openStream(), isCall: false)
        let messages = MethodStream<PairingMethods.FromInviter, PairingMethods.FromJoiner>(opened.stream)
        let exporter = try await connection.exportKeyingMaterial(label: Pairing.exporterLabel, context: [], count: 32)
        let channel = Pairing.Channel(inviter: invitation.ticket.id, joiner: key.id, exporter: exporter)
        let joiner = Pairing.Joiner(invitation, channel: channel, name: "phone", addresses: [])
        try await messages.send(PairingMethods.FromJoiner.present(joiner.present))
        switch try await messages.receive() {
        case .challenge(let challenge)?:
            return Attempt(key: key.id, code: try joiner.answer(challenge).code, attempts: challenge.attempts)
        case .refused(let code, let message)?: throw KithError(code, message)
        default: throw KithError(.closed, "It hung up.")
        }
    }
}
