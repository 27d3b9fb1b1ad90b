import Crypto
import Foundation
import KithIO
import KithIdentity
import KithQUIC
import KithTesting
import KithWire
import Synchronization
import Testing

@testable import KithNet

/// The interop runner's cases over an emulated link; `Plan` says which peer does which.
@Suite(.printsReport, .timeLimit(.minutes(10)), .enabled(if: Link.isPossible)) struct LinkCaseTests {
    @Test(arguments: Plan.cases(with: .ourselves))
    func `we talk to ourselves`(name: Case) async throws {
        try await converse(name, with: .ourselves) { link, scenario, ends in
            try await link.withEndpoint(at: .right, ipv6: scenario.ipv6, ends.server) { server in
                let address = Link.End.right.address(ipv6: scenario.ipv6, port: server.port)
                try await serving(server, ends) {
                    try await dialing(link, scenario, ends) { client, isEarly in
                        if name == .amplificationlimit {
                            try await client.connectForeign(at: [address], timeout: .seconds(60))
                        } else {
                            try await client.connect(to: server.id, at: address, isEarly: isEarly)
                        }
                    }
                }
            }
        }
    }

    @Test(.enabled(if: Python.isAioquicInstalled), arguments: Plan.cases(with: .aioquicServer))
    func `aioquic serves`(name: Case) async throws {
        try await converse(name, with: .aioquicServer) { link, scenario, ends in
            let host = scenario.ipv6 ? "fd07::2" : "10.7.0.2"
            let command = try Python.command("aioquic_link.py", "serve", ["host": host, "case": name.rawValue])
            try await Program.run(link.command(at: .right, command)) { program in
                let port = try await program.next(Listening.self).port
                let address = Link.End.right.address(ipv6: scenario.ipv6, port: port)
                try await dialing(link, scenario, ends) { client, isEarly in
                    try await client.connectForeign(
                        at: [address], serverName: "localhost", isEarly: isEarly, timeout: .seconds(60))
                }
            }
        }
    }

    @Test(.enabled(if: Python.isAioquicInstalled), arguments: Plan.cases(with: .aioquicClient))
    func `aioquic dials`(name: Case) async throws {
        try await converse(name, with: .aioquicClient) { link, scenario, ends in
            try await link.withEndpoint(at: .right, ipv6: scenario.ipv6, ends.server) { server in
                try await serving(server, ends) {
                    let options: [String: any Sendable] = [
                        "host": scenario.ipv6 ? "fd07::2" : "10.7.0.2", "port": Int(server.port),
                        "case": name.rawValue, "up": scenario.up, "down": scenario.down,
                        "streams": scenario.streams, "connections": scenario.connections,
                    ]
                    let command = try Python.command("aioquic_link.py", "dial", options)
                    try await Program.run(link.command(at: .left, command)) { try await verdict(of: $0) }
                }
            }
        }
    }

    @Test(.enabled(if: NGTCP2.isServerInstalled), arguments: Plan.cases(with: .ngtcp2Server))
    func `ngtcp2 serves`(name: Case) async throws {
        try await converse(name, with: .ngtcp2Server) { link, scenario, ends in
            try await withTemporaryFolder { folder in
                let answer = HTTP3.body(scenario.down)
                let command = try NGTCP2.server(name, ipv6: scenario.ipv6, files: ["answer": answer], in: folder)
                try await Program.run(link.command(at: .right, command), isQuiet: true) { _ in
                    try await NGTCP2.listens(on: link)
                    var ends = ends
                    ends.client.alpn = ["h3"]
                    let address = Link.End.right.address(ipv6: scenario.ipv6, port: NGTCP2.port)
                    try await dialing(link, scenario, ends) { client, isEarly in
                        try await client.connectForeign(
                            at: [address], serverName: "localhost", isEarly: isEarly, timeout: .seconds(60))
                    } ask: { connection, _ in
                        try await HTTP3.ask(connection, path: "/answer", up: scenario.up, wanted: answer)
                    }
                }
            }
        }
    }

    @Test(.enabled(if: NGTCP2.isClientInstalled), arguments: Plan.cases(with: .ngtcp2Client))
    func `ngtcp2 dials`(name: Case) async throws {
        try await converse(name, with: .ngtcp2Client) { link, scenario, ends in
            var options = ends.server
            options.alpn = ["h3"]
            try await link.withEndpoint(at: .right, ipv6: scenario.ipv6, options) { server in
                let tally = HTTP3.Tally()
                try await beside {
                    await HTTP3.serve(server, down: scenario.down, tally: tally, events: ends.events)
                } run: {
                    try await withTemporaryFolder { folder in
                        try await withThrowingTaskGroup { group in
                            for number in 0..<scenario.connections {
                                let folder = folder.appendingPathComponent("\(number)")
                                let command = try NGTCP2.client(name, scenario, port: server.port, in: folder)
                                group.addTask { try await download(link.command(at: .left, command), scenario, folder) }
                            }
                            try await group.waitForAll()
                        }
                    }
                }
                let bodies = tally.bodies.withLock { $0 }
                let right = SHA256.hash(data: HTTP3.body(scenario.up))
                guard bodies.count == scenario.streams * scenario.connections * scenario.rounds,
                    bodies.allSatisfy({ $0 == right })
                else {
                    throw LinkError(
                        "of \(bodies.count) requests \(bodies.count { $0 == right }) were as they were sent")
                }
            }
        }
    }

    /// Runs gtlsclient as often as the case asks for, and looks at what it keeps in `folder`.
    ///
    /// With three packets in ten spoiled it gives up now and then before it has asked, and is then started again.
    private func download(_ command: [String], _ scenario: Scenario, _ folder: URL) async throws {
        let file = folder.appendingPathComponent("answer")
        for _ in 0..<scenario.rounds {
            for _ in 0..<3 {
                try await Program.run(command, isQuiet: true) { program in
                    for await _ in program.lines {}
                }
                if scenario.streams > 1 || FileManager.default.fileExists(atPath: file.path) { break }
            }
        }
        guard scenario.streams == 1 else { return }
        let answer = try Data(contentsOf: file)
        guard [UInt8](answer) == HTTP3.body(scenario.down) else {
            throw LinkError("gtlsclient received other bytes than we sent")
        }
    }

    @Test(.enabled(if: Python.isIrohInstalled), arguments: Plan.cases(with: .irohServer))
    func `iroh serves`(name: Case) async throws {
        try await converse(name, with: .irohServer) { link, scenario, ends in
            let host = scenario.ipv6 ? "[fd07::2]" : "10.7.0.2"
            let command = try Python.command("iroh_link.py", "serve", ["host": host])
            try await Program.run(link.command(at: .right, command)) { program in
                let listening = try await program.next(Reachable.self)
                let id = try DeviceID(publicKey: try #require(Hex.decode(listening.id)))
                // It listens on every address of the other family too.
                let bound = listening.addresses.lazy.compactMap { NetworkAddress($0) }
                let port = try #require(bound.first { $0.isIPv6 == scenario.ipv6 }).port
                let address = Link.End.right.address(ipv6: scenario.ipv6, port: port)
                try await dialing(link, scenario, ends) { client, isEarly in
                    try await client.connect(to: id, at: address, isEarly: isEarly)
                }
            }
        }
    }

    @Test(.enabled(if: Python.isIrohInstalled), arguments: Plan.cases(with: .irohClient))
    func `iroh dials`(name: Case) async throws {
        try await converse(name, with: .irohClient) { link, scenario, ends in
            try await link.withEndpoint(at: .right, ipv6: scenario.ipv6, ends.server) { server in
                try await serving(server, ends) {
                    let options: [String: any Sendable] = [
                        "host": scenario.ipv6 ? "[fd07::1]" : "10.7.0.1", "id": Hex.encode(server.id.bytes),
                        "address": "\(Link.End.right.address(ipv6: scenario.ipv6, port: server.port))",
                        "up": scenario.up, "down": scenario.down, "streams": scenario.streams,
                        "connections": scenario.connections, "rounds": scenario.rounds,
                    ]
                    let command = try Python.command("iroh_link.py", "dial", options)
                    try await Program.run(link.command(at: .left, command)) { try await verdict(of: $0) }
                }
            }
        }
    }

    private struct Reachable: Decodable {
        var id: String
        var addresses: [String]
    }

    private struct Listening: Decodable {
        var port: UInt16
    }

    private func verdict(of program: Program) async throws {
        struct Verdict: Decodable { var verdict: String }
        let verdict = try await program.next(Verdict.self).verdict
        guard verdict == "ok" else { throw LinkError("the peer says: \(verdict)") }
    }

    // MARK: - What all cases share

    /// How our ends are set up.
    private struct Ends: Sendable {
        var client: Endpoint.Options
        var server: Endpoint.Options
        var events: Events

        init(_ scenario: Scenario, _ events: Events) {
            var options = Endpoint.Options()
            options.foreign = .acceptCertificates
            options.handshakeTimeout = .seconds(60)
            (client, server, self.events) = (options, options, events)
            if scenario.sendsRetry { server.retryAbove = 0 }
            client.adjust = Self.adjustment(events, scenario.client)
            server.adjust = Self.adjustment(events, scenario.server)
        }

        private static func adjustment(
            _ events: Events, _ change: @escaping @Sendable (inout QUICConfiguration) -> Void
        ) -> @Sendable (inout QUICConfiguration) -> Void {
            { configuration in
                // An HTTP/3 peer opens its control streams; nobody reads them.
                configuration.maxIncomingUnidirectionalStreams = 3
                events.watch(&configuration)
                change(&configuration)
            }
        }
    }

    /// Makes the link, lets `conversation` happen while the case's event does, and looks at what the link saw.
    private func converse(
        _ name: Case, with peer: Peer,
        _ conversation: @escaping @Sendable (Link, Scenario, Ends) async throws -> Void
    ) async throws {
        let scenario = Scenario.of(name, with: peer)
        let events = Events()
        let ends = Ends(scenario, events)
        try await Report.run(name, with: peer) {
            try await Link.with(scenario.link) { link in
                if name == .amplificationlimit {
                    return try await amplification(link) { try await conversation(link, scenario, ends) }
                }
                let event = scenario.event.map { event in Task { try await event(link) } }
                var remarks: [String] = []
                let start = ContinuousClock.now
                if name == .crosstraffic {
                    let moved = try await crossing(link) { try await conversation(link, scenario, ends) }
                    remarks.append("TCP \(rate(moved, since: start)) Mbit/s beside us")
                } else {
                    try await conversation(link, scenario, ends)
                }
                if name == .goodput || name == .crosstraffic {
                    remarks.append("\(rate(scenario.down, since: start)) of 10 Mbit/s")
                }
                try await event?.value
                if let check = scenario.check {
                    let statistics = try await link.statistics()
                    try await link.end()
                    let datagrams = try link.capture.datagrams()
                    remarks.append(try check(.init(statistics: statistics, events: events, datagrams: datagrams)))
                }
                return remarks.joined(separator: ", ")
            }
        }
    }

    private func rate(_ bytes: Int, since start: ContinuousClock.Instant) -> String {
        let rate = Double(bytes) * 8 / ((ContinuousClock.now - start) / .seconds(1)) / 1e6
        return "\((rate * 10).rounded() / 10)"
    }

    /// Runs `body` beside `service`, which is cancelled then, and awaited: it may have something to note yet.
    private func beside(
        _ service: @escaping @Sendable () async -> Void, run body: () async throws -> Void
    ) async throws {
        let task = Task { await service() }
        defer { task.cancel() }
        try await body()
        task.cancel()
        await task.value
    }

    /// Answers what `body` asks of `server`.
    private func serving(_ server: Endpoint, _ ends: Ends, _ body: () async throws -> Void) async throws {
        try await beside {
            await Exchange.serve(server, ends.events)
        } run: {
            try await body()
        }
    }

    /// Runs the dialer's side: every connection from an endpoint of its own at the left end.
    private func dialing(
        _ link: Link, _ scenario: Scenario, _ ends: Ends,
        connect: @escaping @Sendable (Endpoint, _ isEarly: Bool) async throws -> Connection,
        ask: (@Sendable (Connection, UInt64) async throws -> Void)? = nil
    ) async throws {
        let ask = ask ?? { try await Exchange.ask($0, up: scenario.up, down: scenario.down, seed: $1) }
        try await withThrowingTaskGroup { group in
            for number in 0..<scenario.connections {
                group.addTask {
                    try await link.withEndpoint(at: .left, ipv6: scenario.ipv6, ends.client) { client in
                        for round in 0..<scenario.rounds {
                            let connection = try await connect(client, round > 0 && scenario.isEarly)
                            try await withThrowingTaskGroup { tasks in
                                if scenario.moves {
                                    tasks.addTask { try await move(client, link, ipv6: scenario.ipv6) }
                                }
                                for stream in 0..<scenario.streams {
                                    tasks.addTask { try await ask(connection, UInt64(number * 10_000 + stream)) }
                                }
                                try await tasks.waitForAll()
                            }
                            await ends.events.note(connection)
                            if round + 1 < scenario.rounds { try await client.ticket() }
                            connection.close()
                            _ = await connection.closed()
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    private func move(_ client: Endpoint, _ link: Link, ipv6: Bool) async throws {
        try await link.carried(100, from: .right)
        let address = Link.End.left.otherAddress(ipv6: ipv6)
        try await link.inside(.left) { try await client.rebind(to: [address]) }
    }

    /// The server hears the client's first datagram and, for a while, no other: it may send three times as much, no
    /// more (RFC 9000 §8.1), however often it repeats itself; then it hears the rest, and the conversation goes on.
    private func amplification(_ link: Link, _ conversation: @escaping @Sendable () async throws -> Void) async throws
        -> String
    {
        let limited = try await withThrowingTaskGroup { group in
            group.addTask { try await conversation() }
            var statistics = try await link.statistics()
            try await eventually {
                statistics = try await link.statistics()
                return statistics.up.blackholed >= 3
            }
            try await link.set("up-first=1000000")
            try await group.waitForAll()
            return statistics
        }
        try await link.end()
        let before = try link.capture.datagrams(withPortProbes: true)
            .prefix(limited.up.packets + limited.down.packets).filter { !$0.isPortProbe }
        let heard = before.first(where: \.isFromLeft)?.payload.count ?? 0
        let said = before.filter { !$0.isFromLeft }.reduce(0) { $0 + $1.payload.count }
        guard said <= 3 * heard else { throw LinkError("the server said \(said) bytes after it heard \(heard)") }
        // Otherwise it had nothing more to say, and the limit was not tried.
        guard said > 2 * heard else { throw LinkError("the server said no more than \(said) bytes") }
        return "\(heard) bytes heard, \(said) said until more was heard"
    }

    /// Lets a TCP stream compete with what `body` does; returns how many bytes it moved.
    private func crossing(_ link: Link, _ body: () async throws -> Void) async throws -> Int {
        struct Moved: Decodable { var count: Int }
        let server = try Python.command("tcp_stream.py", "serve", ["host": "10.7.0.2"])
        return try await Program.run(link.command(at: .right, server)) { server in
            let port = try await server.next(Listening.self).port
            let client = try Python.command("tcp_stream.py", "dial", ["host": "10.7.0.2", "port": Int(port)])
            return try await Program.run(link.command(at: .left, client)) { client in
                _ = try await client.next(Listening.self)
                try await body()
                try client.say("enough")
                return try await client.next(Moved.self).count
            }
        }
    }
}

extension Endpoint {
    /// Waits, for a while, until somebody gave a ticket: it may come after the answer.
    fileprivate func ticket() async throws {
        let driver = self.driver
        // The case says what is missing without one.
        try? await eventually(within: .seconds(5)) {
            let answer = Promise<Bool>()
            driver.loop.execute { answer.fulfil(driver.sessionCache.entries.values.contains { !$0.tickets.isEmpty }) }
            return await answer.value()
        }
    }

    fileprivate func connect(to peer: DeviceID, at address: NetworkAddress, isEarly: Bool) async throws -> Connection {
        isEarly
            ? try await connectEarly(to: peer, at: [address], timeout: .seconds(60))
            : try await connect(to: peer, at: [address], timeout: .seconds(60))
    }
}
