import Foundation
import KithAPI
import KithIdentity
import KithNet
import KithWire
import Logging
import Testing

/// What a device that is not paired gets from the real daemon when it speaks the protocol itself.
@Suite struct StrangerTests {
    @Test func `a stranger can do nothing but present an invitation`() async throws {
        let laptop = try Machine("laptop")
        try await laptop.up()
        do {
            try await checkEverythingIsRefused(laptop)
        } catch {
            await laptop.remove()
            throw error
        }
        await laptop.remove()
    }

    private func checkEverythingIsRefused(_ laptop: Machine) async throws {
        let status = try await laptop.expect("status", "--json")
        let ticket = try Ticket(text: String(try #require(status.firstMatch(of: /"ticket" : "([^"]+)"/)).1))
        let logger = Logger(label: "stranger") { _ in SwiftLogNoOpLogHandler() }
        let stranger = try await Endpoint.bind(key: DeviceKey(), logger: logger)
        // What the daemon serves, by its own table.
        let table = try await laptop.expect("call", "api.describe")
        let methods = table.matches(of: /"name" : "([^"]+)"/).map { String($0.1) }
        #expect(methods.count > 15)
        for method in methods where method != PairingMethods.Present.name {
            // The daemon hangs up on a stranger that asks for more than it may: every try is a new connection.
            let connection = try await stranger.connect(to: ticket.id, at: ticket.addresses)
            let input = try CBOREncoder().encode(["path": "/", "device": "x"])
            let header = StreamHeader(method: method, input: input)
            do {
                let stream = try await connection.openStream()
                _ = try await HeaderExchange.request(header, over: stream, isCall: true)
                Issue.record("\(method) answered a stranger")
            } catch let error as KithError {
                #expect([.unpaired, .closed].contains(error.code), "\(method): \(error.code)")
            }
        }

        // The one method: garbage in place of an invitation is refused, too.
        let another = try await Endpoint.bind(key: DeviceKey(), logger: logger)
        let connection = try await another.connect(to: ticket.id, at: ticket.addresses)
        let stream = try await connection.openStream()
        let header = StreamHeader(
            method: PairingMethods.Present.name, input: try CBOREncoder().encode(Nothing()))
        let opened = try await HeaderExchange.request(header, over: stream, isCall: false)
        let messages = MessageStream(opened.stream)
        try await messages.send(["present": ["invitation": "0000000000000000"]])
        guard case .refused? = try await messages.receive(PairingMethods.FromInviter.self) else {
            Issue.record("garbage was taken for an invitation")
            return
        }
        await another.shutdown()
        await stranger.shutdown()
    }
}
