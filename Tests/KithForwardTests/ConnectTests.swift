import Foundation
import KithAPI
import KithIO
import KithIdentity
import KithNode
import KithTesting
import KithWire
import Testing

@testable import KithForward

@Suite struct ConnectTests {
    @Test func `bytes arrive as they were sent, both ways`() async throws {
        let peer = try Peer("echo")
        let opened = try await Client(LocalCarrier("forward")).connect(peer.endpoint)
        #expect(opened.output.outcome == .connected)
        #expect(opened.output.address?.description == peer.endpoint)
        var random = SeededRandom.fromEnvironment()
        print(random)
        let sent = random.bytes(3 << 20)
        async let writing: Void = {
            try await opened.stream.write(sent)
            try await opened.stream.finish()
        }()
        let received = try await opened.stream.readAll()
        try await writing
        #expect(received == sent, "\(random)")
    }

    @Test func `the end of one direction leaves the other open`() async throws {
        let drain = try Peer("drain")
        let to = try await Client(LocalCarrier("forward")).connect(drain.endpoint).stream
        try await to.write([1, 2, 3])
        try await to.finish()
        #expect(
            try await to.readText() == "3 039058c6f2c0cb492c533b0a4d14ef77cc0f78abccced5287d84a1a2011cfb81\n")

        let source = try Peer("source", "1000000")
        let from = try await Client(LocalCarrier("forward")).connect(source.endpoint).stream
        #expect(try await from.readAll().count == 1_000_000)
        // The other has ended; ours goes on.
        for _ in 0..<10 { try await from.write([UInt8](repeating: 0, count: 100_000)) }
        try await from.finish()
    }

    @Test func `a connection that is reset abandons the stream, and the other way round`() async throws {
        let client = Client(try LocalCarrier("forward"))
        let resetting = try Peer("reset")
        let stream = try await client.connect(resetting.endpoint).stream
        try await stream.write([1])
        await #expect(throws: KithError(.closed, "")) { try await stream.readAll() }

        let waiting = try Peer("wait")
        let abandoned = try await client.connect(waiting.endpoint).stream
        try await abandoned.write([1])
        abandoned.abort(.cancelled)
        #expect(try await client.connect(waiting.endpoint).stream.readText() == "reset\n")
    }

    @Test func `what a host answers is told`() async throws {
        let client = Client(try LocalCarrier("forward", names: ["nowhere.example": []]))
        #expect(try await client.connect("\(try closedEndpoint())").output.outcome == .refused)
        #expect(try await client.connect("unix:/tmp/kith-nobody").output.outcome == .unreachable)
        #expect(try await client.connect("nowhere.example:80").output.outcome == .notFound)
        let stuck = try StuckListener()
        let silent = try await client.open(
            Forward.Connect.self, Forward.Connect.Input(to: stuck.endpoint), on: "laptop",
            options: CallOptions(timeout: .milliseconds(300)))
        #expect(silent.output.outcome == .timedOut)
        #expect(silent.output.message?.contains("\(stuck.endpoint)") == true)
    }

    @Test func `a Unix socket is reached like a port`() async throws {
        let scratch = try TemporaryFolder()
        let path = scratch.path + "/echo"
        let peer = try Peer("echo", "unix", path)
        defer { peer.process.kill() }
        let carrier = try LocalCarrier("forward:to=unix:\(path)")
        let stream = try await Client(carrier).connect("unix:\(path)").stream
        try await stream.write(Array("hello".utf8))
        try await stream.finish()
        #expect(try await stream.readText() == "hello")
        await #expect(throws: KithError(.denied, "")) { try await Client(carrier).connect("unix:\(path)x") }
    }

    @Test(arguments: [
        ("shell", "127.0.0.1"), ("forward:to=*:*", "127.0.0.1"), ("forward:to=*:*", "inside.example"),
        ("forward:to=db.example:*", "127.0.0.1"), ("forward:to=inside.example:*", "inside.example"),
        ("forward:to=10.0.0.0/8:*", "127.0.0.1"), ("forward:to=10.0.0.0/8:*", "inside.example"),
        ("forward:to=localhost:1", "127.0.0.1"), ("forward:to=unix:/tmp/x", "localhost"),
        ("forward:listen=*:*", "127.0.0.1"),
    ])
    func `without a grant no packet leaves`(grant: String, host: String) async throws {
        let reactor = try Reactor.forForwarding()
        let listener = try ListeningSocket(at: NetworkAddress(ipv4: 0x7F00_0001, port: 0), on: reactor)
        let port = try #require(listener.endpoint.port)
        let carrier = try LocalCarrier(grant, names: ["inside.example": ["127.0.0.1:0"]])
        await #expect(throws: KithError(.denied, "")) { try await Client(carrier).connect("\(host):\(port)") }
        // Connected on this machine, it would wait here already.
        let arrived = await withTaskGroup(of: Bool.self) { group in
            group.addTask { (try? await listener.accept()) != nil }
            group.addTask {
                for _ in 0..<50 { await Task.yield() }
                return false
            }
            defer { group.cancelAll() }
            return await group.next() ?? false
        }
        #expect(!arrived)
    }

    @Test func `a name that no grant allows is not even looked up`() async throws {
        let carrier = try LocalCarrier("forward:to=db.example:5432", "forward:to=localhost:*")
        for endpoint in ["secret.attacker.example:5432", "db.example:5433"] {
            await #expect(throws: KithError(.denied, "")) { try await Client(carrier).connect(endpoint) }
        }
        #expect(carrier.lookups.value.isEmpty)
    }

    @Test func `of several addresses only those granted are tried`() async throws {
        let peer = try Peer("echo")
        let carrier = try LocalCarrier(
            "forward:to=127.0.0.0/8:*", names: ["both.example": ["192.0.2.1:0", "127.0.0.1:0"]])
        let opened = try await Client(carrier).connect("both.example:\(peer.port)")
        #expect(opened.output.address?.description == peer.endpoint)
    }

    @Test func `the refusal says which grant would do`() async throws {
        let client = Client(try LocalCarrier("forward:to=*:443"))
        do {
            _ = try await client.connect("10.1.2.3:22")
            Issue.record("it was allowed")
        } catch let error as KithError {
            #expect(error.message.contains("kith grant phone --add forward:to=10.1.2.3:22"))
        }
    }

    @Test(arguments: ["0.0.0.0:80", "[::]:80", "*:80", "127.0.0.1:0", "localhost:0"])
    func `what nobody can connect to is refused`(endpoint: String) async throws {
        await #expect(throws: KithError(.invalid, "")) {
            try await Client(LocalCarrier("forward")).connect(endpoint)
        }
    }

    @Test func `a slow host holds up no other`() async throws {
        let peer = try Peer("echo")
        let client = Client(try LocalCarrier("forward"))
        // A listener whose queue is full takes no connection: its clients wait.
        let stuck = try StuckListener()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<50 {
                group.addTask {
                    _ = try await client.open(
                        Forward.Connect.self, Forward.Connect.Input(to: stuck.endpoint), on: "laptop",
                        options: CallOptions(timeout: .seconds(60)))
                }
            }
            for _ in 0..<20 {
                let stream = try await client.connect(peer.endpoint).stream
                try await stream.write([42])
                #expect(try await stream.read(exactly: 1) == [42])
                try await stream.finish()
            }
            group.cancelAll()
        }
    }

    @Test func `a reader that does not read stops the sender`() async throws {
        let peer = try Peer("source", "200000000")
        let carrier = try LocalCarrier("forward")
        let stream = try await Client(carrier).connect(peer.endpoint).stream
        _ = try await stream.read(exactly: 1)
        // When nothing moves any more, everything on the way is full: far less than there is.
        var carried: UInt64 = 0
        while true {
            try await Task.sleep(for: .milliseconds(200))  // Real time: what moves is not full.
            let now = carrier.laptop.core.everything
            if now == carried { break }
            carried = now
        }
        #expect(carried < 20_000_000)
        stream.abort(.cancelled)
    }

    @Test func `one caller has so many connections and no more`() async throws {
        let peer = try Peer("echo")
        var options = ForwardService.Options()
        options.limitPerCaller = 10
        let carrier = try LocalCarrier("forward", options: options)
        let client = Client(carrier)
        var streams: [any ByteStream] = []
        for _ in 0..<10 { streams.append(try await client.connect(peer.endpoint).stream) }
        await #expect(throws: KithError(.exhausted, "")) { try await client.connect(peer.endpoint) }
        carrier.caller.set(8)
        let other = try await client.connect(peer.endpoint).stream
        other.abort(.cancelled)
        carrier.caller.set(7)
        for stream in streams { stream.abort(.cancelled) }
        while carrier.laptop.core.count > 0 { await Task.yield() }
        try await client.connect(peer.endpoint).stream.finish()
    }

    @Test func `ten thousand opens leave nothing behind`() async throws {
        let peer = try Peer("echo")
        let carrier = try LocalCarrier("forward:to=127.0.0.1:\(peer.port)")
        let client = Client(carrier)
        for round in 0..<100 {
            await withTaskGroup(of: Void.self) { group in
                for number in 0..<100 {
                    group.addTask {
                        // Whatever happens to it: refused, exhausted, opened and thrown away.
                        let host =
                            number % 2 == 0 ? "127.0.0.1:\(peer.port)" : "127.0.0.1:\(1 + (round + number) % 1000)"
                        try? await client.connect(host).stream.abort(.cancelled)
                    }
                }
            }
        }
        while carrier.laptop.core.count > 0 { await Task.yield() }
        // Tasks that still let go of their sockets.
        let reactor = try carrier.laptop.core.connector().reactor
        try await eventually { reactor.count == 0 }
    }
}

/// A listener with a full queue.
final class StuckListener: Sendable {
    let endpoint: Forward.Endpoint
    private let process: ChildProcess

    init() throws {
        let script = """
            import socket, time
            s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(0)
            held = [socket.create_connection(s.getsockname()) for _ in range(1)]
            print(s.getsockname()[1], flush=True)
            time.sleep(600)
            """
        process = try ChildProcess("/usr/bin/env", ["python3", "-c", script], output: .connected, errors: .inherited)
        let output = try #require(process.output)
        let line = String(decoding: output.availableData, as: UTF8.self)
        let port = try #require(UInt16(line.trimmingCharacters(in: .whitespacesAndNewlines)))
        endpoint = .address(NetworkAddress(ipv4: 0x7F00_0001, port: port))
    }

    deinit { process.kill() }
}
