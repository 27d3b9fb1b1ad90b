import Foundation
import KithAPI
import KithIO
import KithIdentity
import KithNode
import KithTesting
import KithWire
import Testing

@testable import KithForward

@Suite struct ForwardingTests {
    @Test func `what connects here comes out there`() async throws {
        let peer = try Peer("echo")
        let text = try await forwarding(.local, "0:127.0.0.1:\(peer.port)", LocalCarrier("forward")) { endpoint in
            let stream = try await dial(endpoint)
            try await stream.write(Array("hello".utf8))
            try await stream.finish()
            return try await stream.readText()
        }
        #expect(text == "hello")
    }

    @Test func `what connects there comes out here`() async throws {
        let peer = try Peer("drain")
        let text = try await forwarding(.remote, "0:127.0.0.1:\(peer.port)", LocalCarrier("forward")) { endpoint in
            let stream = try await dial(endpoint)
            try await stream.write([1, 2, 3])
            try await stream.finish()
            return try await stream.readText()
        }
        #expect(text.hasPrefix("3 0390"))
    }

    @Test func `localhost is both loopback addresses, with one port`() async throws {
        let peer = try Peer("echo")
        let carrier = try LocalCarrier("forward")
        let rule = try Forward.Rule(.local, parsing: "0:127.0.0.1:\(peer.port)")
        try await ForwardSet([rule]).whileUp(to: "laptop", client: Client(carrier)) { running in
            let endpoints = try #require(running.rules.first?.listening)
            #expect(Set(endpoints.map(\.port)).count == 1)
            for endpoint in endpoints {
                let stream = try await dial(endpoint)
                try await stream.write([7])
                #expect(try await stream.read(exactly: 1) == [7])
                try await stream.finish()
            }
        }
    }

    @Test(arguments: [Forward.Rule.Option.local, .remote])
    func `Unix sockets stand on either side`(option: Forward.Rule.Option) async throws {
        let scratch = try TemporaryFolder()
        let peer = try Peer("echo", "unix", scratch.path + "/echo")
        defer { peer.process.kill() }
        let front = scratch.path + "/front"
        let carrier = try LocalCarrier("forward", "forward:listen=unix:\(front)")
        try await forwarding(option, "\(front):\(scratch.path)/echo", carrier) { endpoint in
            #expect(endpoint == .socket(path: front))
            let mode = try FileManager.default.attributesOfItem(atPath: front)[.posixPermissions] as? Int
            #expect(mode == 0o600)
            let stream = try await dial(endpoint)
            try await stream.write(Array("hello".utf8))
            try await stream.finish()
            #expect(try await stream.readText() == "hello")
        }
        try await eventually { !FileManager.default.fileExists(atPath: front) }
    }

    @Test func `a connection that cannot be opened is reset, and what listens stays`() async throws {
        let endpoint = try closedEndpoint()
        let carrier = try LocalCarrier("forward")
        try await forwarding(.local, "0:\(endpoint)", carrier) { endpoint in
            for _ in 0..<3 {
                let stream = try await dial(endpoint)
                await #expect(throws: KithError(.closed, "")) { try await stream.readAll() }
            }
            let list = try await Client(carrier).call(Forward.List.self, Nothing())
            let status = try #require(list.running.first?.rules.first)
            #expect(status.total == 3)
            #expect(status.lastFailure?.contains("refused") == true)
        }
    }

    @Test(arguments: [
        ("forward", "0.0.0.0:0", false), ("forward", "*:0", false), ("forward:to=*:*", "127.0.0.1:0", false),
        ("forward:listen=localhost:1", "127.0.0.1:0", false), ("forward:listen=localhost:*", "127.0.0.1:0", true),
        ("forward:listen=*:*", "*:0", true), ("forward", "localhost:0", true),
    ])
    func `a device listens where its grants say`(grant: String, at: String, isAllowed: Bool) async throws {
        let client = Client(try LocalCarrier(grant))
        let endpoint = try #require(Forward.Endpoint(at))
        do {
            let opened = try await client.open(
                Forward.Listen.self, Forward.Listen.Input(at: endpoint), on: "laptop")
            #expect(isAllowed)
            opened.stream.abort(.cancelled)
        } catch let error as KithError {
            #expect(!isAllowed)
            #expect(error.code == .denied)
            #expect(error.message.contains("forward:listen="), "\(error.message)")
        }
    }

    @Test func `what arrived is for the one who listens, and only once`() async throws {
        let carrier = try LocalCarrier("forward")
        let client = Client(carrier)
        let opened = try await client.open(
            Forward.Listen.self, Forward.Listen.Input(at: try #require(Forward.Endpoint("127.0.0.1:0"))), on: "laptop")
        let stream = try await dial(try #require(opened.output.endpoints.first))
        let messages = opened.stream
        let arrival = try #require(try await messages.receive())
        let input = Forward.Accept.Input(listener: opened.output.listener, number: arrival.number)

        carrier.caller.set(8)
        await #expect(throws: KithError(.notFound, "")) {
            try await client.open(Forward.Accept.self, input, on: "laptop")
        }
        carrier.caller.set(7)
        let accepted = ForwardStream(try await client.open(Forward.Accept.self, input, on: "laptop").stream.bytes)
        await #expect(throws: KithError(.notFound, "")) {
            try await client.open(Forward.Accept.self, input, on: "laptop")
        }
        try await accepted.write([9])
        #expect(try await stream.read(exactly: 1) == [9])
        opened.stream.abort(.cancelled)
    }

    @Test func `what nobody takes up is reset after a while`() async throws {
        var options = ForwardService.Options()
        let clock = ManualClock()
        options.clock = clock
        let client = Client(try LocalCarrier("forward", options: options))
        let opened = try await client.open(
            Forward.Listen.self, Forward.Listen.Input(at: try #require(Forward.Endpoint("127.0.0.1:0"))), on: "laptop")
        let stream = try await dial(try #require(opened.output.endpoints.first))
        await #expect(throws: KithError(.closed, "")) {
            try await clock.advance(by: options.arrivalPatience) { try await stream.readAll() }
        }
        opened.stream.abort(.cancelled)
    }

    @Test func `listening ends with the stream`() async throws {
        let carrier = try LocalCarrier("forward")
        let opened = try await Client(carrier).open(
            Forward.Listen.self, Forward.Listen.Input(at: try #require(Forward.Endpoint("127.0.0.1:0"))), on: "laptop")
        let endpoint = try #require(opened.output.endpoints.first)
        try await opened.stream.finish()
        while carrier.laptop.core.count > 0 { await Task.yield() }
        let connector = Connector(reactor: try .forForwarding(), resolver: Resolver())
        var outcome = Forward.Opening.Outcome.connected
        // The last task lets go of the socket a moment later.
        for _ in 0..<1_000 where outcome == .connected {
            outcome = try await connector.connect(to: endpoint, permission: OwnersPermission()).opening.outcome
        }
        #expect(outcome == .refused)
    }

    @Test func `a port that is taken is a conflict, and nothing of the set stays`() async throws {
        let taken = try Peer("echo")
        let client = Client(try LocalCarrier("forward"))
        let free = try unusedEndpoint()
        let set = ForwardSet([
            Forward.Rule(.local, listen: free, target: free),
            Forward.Rule(.local, listen: try #require(Forward.Endpoint(taken.endpoint)), target: free),
        ])
        await #expect(throws: KithError(.conflict, "")) {
            try await set.whileUp(to: "laptop", client: client) { _ in }
        }
        #expect(try await client.call(Forward.List.self, Nothing()).running.isEmpty)
        let again = ForwardSet([Forward.Rule(.local, listen: free, target: free)])
        try await again.whileUp(to: "laptop", client: client) { _ in }
    }

    /// Finds an endpoint where nothing listens or will: the system gives higher ports to those who leave the choice to it.
    private func unusedEndpoint() throws -> Forward.Endpoint {
        for _ in 0..<100 {
            let address = NetworkAddress(ipv4: 0x7F00_0001, port: .random(in: 20_000..<32_000))
            if let listener = try? ListeningSocket(at: address, on: try .forForwarding()) { return listener.endpoint }
        }
        throw KithError(.conflict, "No port is free.")
    }

    @Test func `started forwards stay until stopped`() async throws {
        let peer = try Peer("echo")
        let client = Client(try LocalCarrier("forward"))
        let rule = try Forward.Rule(.local, parsing: "0:127.0.0.1:\(peer.port)")
        let running = try await client.call(Forward.Start.self, Forward.Plan(device: "laptop", rules: [rule]))
        let endpoint = try #require(running.rules.first?.listening.first)
        let stream = try await dial(endpoint)
        try await stream.write([1, 2])
        #expect(try await stream.read(exactly: 2) == [1, 2])
        let list = try await client.call(Forward.List.self, Nothing())
        #expect(list.running.map(\.id) == [running.id])
        #expect(list.running.first?.isAttached == false)
        #expect(list.running.first?.rules.first?.open == 1)
        _ = try await client.call(Forward.Stop.self, Forward.Stop.Input(id: running.id))
        await #expect(throws: KithError(.closed, "")) { try await stream.readAll() }
        await #expect(throws: KithError(.notFound, "")) {
            try await client.call(Forward.Stop.self, Forward.Stop.Input(id: running.id))
        }
    }

    @Test func `a thousand connections at once are a thousand conversations`() async throws {
        let peer = try Peer("echo")
        let carrier = try LocalCarrier("forward")
        let count = 1_000
        let matching = try await forwarding(.local, "0:127.0.0.1:\(peer.port)", carrier) { endpoint in
            let connector = Connector(reactor: try .forForwarding(), resolver: Resolver())
            var streams: [any ByteStream] = []
            for _ in 0..<count {
                let connection = try await connector.connect(to: endpoint, permission: OwnersPermission())
                streams.append(try #require(connection.stream))
            }
            return try await withThrowingTaskGroup(of: Bool.self) { group in
                for (number, stream) in streams.enumerated() {
                    group.addTask {
                        let text = Array("conversation \(number)".utf8)
                        try await stream.write(text)
                        let answer = try await stream.read(exactly: text.count)
                        // All are open until all were answered.
                        return answer == text
                    }
                }
                let matching = try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
                #expect(carrier.laptop.core.count == count)
                for stream in streams { try await stream.finish() }
                return matching
            }
        }
        #expect(matching == count)
    }
}
