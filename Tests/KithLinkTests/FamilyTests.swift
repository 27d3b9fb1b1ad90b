import KithIdentity
import KithNet
import Logging
import Testing

/// A peer that has an address of either family.
@Suite(.enabled(if: Link.isPossible), .timeLimit(.minutes(4))) struct FamilyTests {
    @Test func `a connection whose address family has no route any more goes on over the other`() async throws {
        try await Link.with(["delay": "10ms"]) { link in
            func bind(_ end: Link.End) async throws -> Endpoint {
                try await link.inside(end) { try await Endpoint.bind(key: DeviceKey(), logger: Logger(label: "link")) }
            }
            let (near, far) = (try await bind(.left), try await bind(.right))
            let addresses = [false, true].map { Link.End.right.address(ipv6: $0, port: far.port) }
            let answering = Task { await Exchange.serve(far, Events()) }
            let connection = try await near.connect(to: far.id, at: addresses)
            try await Exchange.ask(connection, up: 100_000, down: 100_000, seed: 1)
            #expect(await connection.statistics().remoteAddress == addresses[0])

            #expect(Program.succeeds(link.command(at: .left, ["ip", "-4", "route", "flush", "table", "main"])))
            try await Exchange.ask(connection, up: 100_000, down: 100_000, seed: 2)
            #expect(await connection.statistics().remoteAddress == addresses[1])

            // And back: what it is reached by now is what is looked after.
            let back = ["ip", "-4", "route", "add", "10.7.0.0/16", "dev", "link0"]
            #expect(Program.succeeds(link.command(at: .left, back)))
            #expect(Program.succeeds(link.command(at: .left, ["ip", "-6", "route", "flush", "table", "main"])))
            try await Exchange.ask(connection, up: 100_000, down: 100_000, seed: 3)
            #expect(await connection.statistics().remoteAddress == addresses[0])
            #expect(connection.isOpen)
            await near.shutdown()
            await far.shutdown()
            await answering.value
        }
    }
}
