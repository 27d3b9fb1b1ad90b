import Foundation
import KithIdentity
import KithReach
import KithTesting
import KithWire
import Logging
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import KithRelayServer

extension RelayServer {
    /// Runs a relay on a free port of the loopback address while `body` does.
    static func with(
        _ change: (inout RelayServerOptions) -> Void = { _ in }, _ body: (RelayServer) async throws -> Void
    ) async throws {
        var options = RelayServerOptions(address: NetworkAddress(ipv4: (127, 0, 0, 1), port: 0))
        options.loops = 2
        change(&options)
        let server = try await RelayServer.open(
            options, logger: Logger(label: "relay", factory: SwiftLogNoOpLogHandler.init))
        do {
            try await body(server)
        } catch {
            await server.close()
            throw error
        }
        await server.close()
    }

    var url: String { "http://\(address)" }
}

/// Hands on what a socket receives.
private final class DatagramFeed: ChannelInboundHandler {
    typealias InboundIn = AddressedEnvelope<ByteBuffer>

    private let feed: AsyncStream<[UInt8]>.Continuation

    init(_ feed: AsyncStream<[UInt8]>.Continuation) { self.feed = feed }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        feed.yield(Array(unwrapInboundIn(data).data.readableBytesView))
    }
}

@Suite("A relay server", .timeLimit(.minutes(4))) struct RelayServerTests {
    private struct Step: Decodable, Equatable {
        var passed: String?
        var denied: String?
    }

    private func exchange(_ text: String, with server: RelayServer) async throws -> String {
        try await RawConnection.exchange(Array(text.utf8), with: server.address)
    }

    private func request(_ path: String, _ headers: [String] = []) -> String {
        "GET \(path) HTTP/1.1\r\nHost: relay\r\n" + headers.map { "\($0)\r\n" }.joined() + "\r\n"
    }

    private static let upgrade = [
        "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol: iroh-relay-v2, iroh-relay-v1",
    ]

    @Test func `it tells from where it sees a datagram, and answers with no more than was asked`() async throws {
        try await RelayServer.with({ $0.stunAddress = NetworkAddress(ipv4: (127, 0, 0, 1), port: 0) }) { server in
            let stun = try #require(server.stunAddress)
            let (answers, feed) = AsyncStream.makeStream(of: [UInt8].self)
            let socket = try await DatagramBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.addHandler(DatagramFeed(feed))
                    }
                }.bind(host: "127.0.0.1", port: 0).get()
            func send(_ bytes: [UInt8]) async throws {
                let remote = try SocketAddress(ipAddress: "127.0.0.1", port: Int(stun.port))
                try await socket.writeAndFlush(AddressedEnvelope(remoteAddress: remote, data: ByteBuffer(bytes: bytes)))
            }
            var (client, random) = (STUNClient(), SystemRandomNumberGenerator())
            let start = ContinuousClock.now
            let isAsked = client.ask(STUNClient.Request(server: stun), at: start, using: &random)
            let next = client.nextDatagram(at: start)
            let question = try #require(next).bytes
            #expect(isAsked)
            // Garbage, and what is too short for its answer, get none: the first answer is to the last of them.
            for bytes in [[1, 2, 3], Array(question.prefix(20)), [UInt8](repeating: 0xFF, count: 100), question] {
                try await send(bytes)
            }
            var iterator = answers.makeAsyncIterator()
            let answer = try #require(await iterator.next())
            #expect(answer.count <= question.count)
            let isTaken = client.receive(answer, from: stun, at: start)
            #expect(isTaken)
            guard case .answered(let mapped, _, _) = client.nextResult()?.outcome else {
                throw KithError(.corrupt, "no mapped address")
            }
            #expect(Int(mapped.port) == socket.localAddress?.port && mapped.isLoopback)
            #expect(server.metrics.contains("kith_relay_stun_answers_total 1\n"))
            try await socket.close()
        }
    }

    @Test func `its pages answer probes, portals, health and Prometheus`() async throws {
        try await RelayServer.with { server in
            #expect(try await exchange(request("/ping"), with: server).hasPrefix("HTTP/1.1 200 OK\r\n"))
            let portal = try await exchange(request("/generate_204", ["X-Iroh-Challenge: a-B_9."]), with: server)
            #expect(portal.hasPrefix("HTTP/1.1 204 "))
            #expect(portal.lowercased().contains("x-iroh-response: response a-b_9.\r\n"))
            let forged = try await exchange(request("/generate_204", ["X-Iroh-Challenge: <script>"]), with: server)
            #expect(!forged.contains("script"))
            let long = String(repeating: "a", count: 64)
            #expect(
                try await !exchange(request("/generate_204", ["X-Iroh-Challenge: \(long)"]), with: server).contains(
                    long))
            #expect(try await exchange(request("/healthz"), with: server).contains(#""status":"ok""#))
            #expect(try await exchange(request("/metrics"), with: server).contains("\nkith_relay_clients 0\n"))
            #expect(try await exchange(request("/other"), with: server).hasPrefix("HTTP/1.1 404 "))
        }
    }

    @Test(arguments: [
        "X-Forwarded-For: 203.0.113.7", "Forwarded: for=203.0.113.7", "X-Real-IP: 203.0.113.7", "Via: 1.1 a",
    ])
    func `whoever asks by a proxy on the relay's own machine is not of that machine`(header: String) async throws {
        for isPublic in [false, true] {
            try await RelayServer.with({ $0.showsMetrics = isPublic }) { server in
                let metrics = try await exchange(request("/metrics", [header]), with: server)
                #expect(metrics.hasPrefix(isPublic ? "HTTP/1.1 200 " : "HTTP/1.1 404 "))
                #expect(metrics.contains("kith_relay_clients") == isPublic)
                #expect(try await exchange(request("/healthz", [header]), with: server).contains("clients") == isPublic)
            }
        }
    }

    @Test func `an upgrade must be one of this protocol, to the letter`() async throws {
        try await RelayServer.with { server in
            for (old, new) in [
                ("Upgrade: websocket", "Upgrade: WebSocket"), ("Version: 13", "Version: 12"),
                ("dGhlIHNhbXBsZSBub25jZQ==", "short"), ("iroh-relay-v2, iroh-relay-v1", "chat"),
            ] {
                let headers = Self.upgrade.map { $0.replacingOccurrences(of: old, with: new) }
                let answer = try await exchange(request("/relay", headers), with: server)
                #expect(answer.hasPrefix("HTTP/1.1 400 "), "\(new): \(answer)")
            }
        }
    }

    @Test func `whoever does not finish opening is disconnected, byte by byte or not at all`() async throws {
        try await RelayServer.with {
            $0.openingTime = 1
        } _: { server in
            #expect(try await exchange("", with: server).isEmpty)
            #expect(try await exchange("GET /relay HTTP/1.1\r\nX: ", with: server).isEmpty)
            // On a busy machine a second may be too short.
            try await eventually {
                let opened = try await exchange(request("/relay", Self.upgrade), with: server)
                // RFC 6455's own example.
                return opened.hasPrefix("HTTP/1.1 101 ") && opened.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
            }
        }
    }

    @Test func `ten thousand handshakes that nobody finishes keep nobody out`() async throws {
        try await RelayServer.with {
            $0.openingTime = 300
            $0.limits.halfOpen = 256
        } _: { server in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<10_000 {
                    if number >= 64 { try await group.next() }
                    group.addTask {
                        // Forty hosts, each within its own bounds; half of them say something.
                        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                            .bind(to: try SocketAddress(ipAddress: "127.0.1.\(number % 40 + 1)", port: 0))
                            .connect(host: "127.0.0.1", port: Int(server.address.port)).get()
                        let text = "GET /relay HTTP/1.1\r\nHost: relay\r\nX-Slow: "
                        // It may have been displaced already.
                        if number % 2 == 0 { try? await channel.writeAndFlush(ByteBuffer(string: text)) }
                    }
                }
                try await group.waitForAll()
            }
            // All but those that are still open were displaced, and the last to come is let in at once.
            #expect(try await exchange(request("/ping"), with: server).hasPrefix("HTTP/1.1 200 "))
            // Each is looked at on a loop of its own.
            try await eventually {
                let line = server.metrics.split(separator: "\n")
                    .first { $0.hasPrefix("kith_relay_refused_sockets_total ") }
                let refused = line.flatMap { Int($0.split(separator: " ")[1]) } ?? 0
                return refused >= 10_000 - 256
            }
        }
    }

    private struct Closed: Decodable, Equatable {
        var code: Int?
        var reason: String?
        var client: Int?
        var passed: String?
    }

    private func value(_ name: String, of server: RelayServer) -> Int {
        server.metrics.split(separator: "\n").first { $0.hasPrefix("kith_relay_\(name) ") }?
            .split(separator: " ").last.flatMap { Int($0) } ?? -1
    }

    @Test(
        .enabled(if: PythonPeer.isInstalled("websockets, blake3, cryptography")),
        arguments: ["pings", "pongs", "texts", "parts"])
    func `a client that floods it with empty frames is closed, and says why`(kind: String) async throws {
        try await RelayServer.with { server in
            try await PythonPeer.run("relay_peer.py", ["flood", server.url, kind]) { peer in
                let closed = try await peer.next(Closed.self)
                #expect(closed == Closed(code: 1_008, reason: "far too many small frames"))
                let said = try await peer.next(Closed.self)
                #expect(said == Closed(passed: "datagrams"))
            }
            #expect(value("floods_total", of: server) == 1)
        }
    }

    @Test(.enabled(if: PythonPeer.isInstalled("websockets, blake3, cryptography")))
    func `a client that sends too many small datagrams waits, and short ones do not travel by the hundred`()
        async throws
    {
        try await RelayServer.with {
            $0.loops = 1
            $0.frameRate = 100
            $0.queue.age = .seconds(60)
        } _: { server in
            try await PythonPeer.run("relay_peer.py", ["small", server.url]) { peer in
                for step in ["small", "segments"] {
                    let said = try await peer.next(Step.self)
                    #expect(said == Step(passed: step))
                }
            }
            #expect(value("rate_limited_total", of: server) > 0)
            #expect(value("dropped_short_total", of: server) == 1)
            #expect(value("floods_total", of: server) == 0)
        }
    }

    @Test(.enabled(if: PythonPeer.isInstalled("websockets, blake3, cryptography")))
    func `of the clients that hold too much with what they do not finish the one that began first goes`() async throws {
        try await RelayServer.with {
            // On one loop, what was sent first is read first.
            $0.loops = 1
            $0.unfinishedBytes = 320 << 10
        } _: { server in
            try await PythonPeer.run("relay_peer.py", ["unfinished", server.url, "8"]) { peer in
                var closed: Set<Int> = []
                var number = Int?.none
                while number.map({ closed.count < $0 }) ?? true {
                    let said = try await peer.next(Closed.self)
                    if let client = said.client {
                        closed.insert(client)
                    } else {
                        number = value("unfinished_total", of: server)
                    }
                }
                let count = try #require(number)
                #expect((1..<8).contains(count) && closed == Set(0..<count))
            }
            try await eventually { server.clientCount == 0 && server.unfinishedBytes == 0 }
        }
    }

    @Test(.enabled(if: PythonPeer.isInstalled("websockets, blake3, cryptography")))
    func `a client that never finishes what it says is closed`() async throws {
        try await RelayServer.with {
            $0.unfinishedTime = 1
        } _: { server in
            try await PythonPeer.run("relay_peer.py", ["unfinished", server.url, "1"]) { peer in
                // On a busy machine it may be closed before the others have met.
                let said = [try await peer.next(Closed.self), try await peer.next(Closed.self)]
                #expect(said.contains(Closed(passed: "datagrams")))
                #expect(said.contains(Closed(code: 1_008, client: 0)))
            }
            #expect(value("unfinished_total", of: server) == 1)
        }
    }

    private struct Slow: Decodable {
        var exchanged: Int?
        var closed: Bool?
    }

    @Test(.enabled(if: PythonPeer.isInstalled("websockets, blake3, cryptography")))
    func `a client that reads nothing is dropped, and others do not wait for it`() async throws {
        try await RelayServer.with {
            $0.stallTime = 1
            $0.keepAlive.silence = .milliseconds(500)
            $0.keepAlive.jitter = .zero ... .zero
        } _: { server in
            try await PythonPeer.run("relay_peer.py", ["slow", server.url]) { peer in
                // 200 messages there and back beside 64 MiB that nobody takes, then the end of whoever does not read.
                let exchanged = try await peer.next(Slow.self).exchanged
                #expect(exchanged == 200)
                let isClosed = try await peer.next(Slow.self).closed
                #expect(isClosed == true)
            }
            #expect(!server.metrics.contains("kith_relay_dropped_full_total 0\n"))
        }
    }

    private struct Pinged: Decodable { var pinged: Bool }

    @Test(
        .enabled(if: PythonPeer.isInstalled("websockets, blake3, cryptography")), arguments: ["240", "59", nil])
    func `a device that asks for silence gets the times for that, and nobody else`(silence: String?) async throws {
        try await RelayServer.with {
            // Whose times are whose is told by who is pinged at all.
            let (soon, never) = (Duration.milliseconds(20), Duration.seconds(3_600))
            $0.keepAlive.silence = silence == "240" ? never : soon
            $0.savingKeepAlive.silence = silence == "240" ? soon : never
            ($0.keepAlive.jitter, $0.savingKeepAlive.jitter) = (.zero ... .zero, .zero ... .zero)
        } _: { server in
            try await PythonPeer.run("relay_peer.py", ["pinged", server.url, silence ?? "-"]) { peer in
                let isPinged = try await peer.next(Pinged.self).pinged
                #expect(isPinged)
            }
        }
    }

    @Test func `one address has a bounded number of sockets`() async throws {
        // On one loop, sockets are counted in the order in which they came.
        try await RelayServer.with {
            $0.loops = 1
            $0.openingTime = 300
            $0.limits.sockets = 2
        } _: { server in
            try await RawConnection.open(to: server.address).executeThenClose { _, _ in
                try await RawConnection.open(to: server.address).executeThenClose { _, _ in
                    let refused = try await exchange(request("/ping"), with: server)
                    #expect(refused.isEmpty)
                    #expect(server.metrics.contains("refused_sockets_total 1\n"))
                }
            }
            // Once they are gone, others may come.
            try await eventually { try await exchange(request("/ping"), with: server).hasPrefix("HTTP/1.1 200 ") }
        }
    }

    @Test func `a port that is taken is said so`() async throws {
        try await RelayServer.with { server in
            let error = await #expect(throws: KithError.self) {
                try await RelayServer.open(RelayServerOptions(address: server.address), logger: Logger(label: "relay"))
            }
            #expect(error?.code == .conflict)
            #expect(error?.message.contains("another program has that port") == true)
        }
    }

    @Test(.enabled(if: PythonPeer.isInstalled("websockets, blake3, cryptography")), arguments: RelayVersion.allCases)
    func `clients in another language meet at it`(version: RelayVersion) async throws {
        try await RelayServer.with { server in
            try await PythonPeer.run("relay_peer.py", ["client", server.url, version.name, "-"]) { peer in
                for step in [
                    "datagrams", "pings", "absent", "same key", "gone", "unknown frame", "wrong signature",
                ] {
                    let said = try await peer.next(Step.self)
                    #expect(said == Step(passed: step))
                }
            }
            try await eventually { server.clientCount == 0 }
        }
    }

    @Test(.enabled(if: PythonPeer.isInstalled("websockets, blake3, cryptography")))
    func `a wrong token is refused with the reason, a right one lets in`() async throws {
        try await RelayServer.with {
            $0.access = RelayAccess(tokens: ["right"])
        } _: { server in
            for (token, expected) in [
                ("wrong", Step(denied: "this relay does not know the token")),
                ("-", Step(denied: "this relay wants a token")), ("right", Step(passed: "datagrams")),
            ] {
                try await PythonPeer.run("relay_peer.py", ["client", server.url, "iroh-relay-v2", token]) { peer in
                    let said = try await peer.next(Step.self)
                    #expect(said == expected)
                }
            }
        }
    }

    private struct Restart: Decodable {
        var ready: Bool?
        var reconnect: Int?
        var tries: Int?
        var code: Int?
    }

    @Test(.enabled(if: PythonPeer.isInstalled("websockets, blake3, cryptography")))
    func `clients of a relay that restarts are told when to come back`() async throws {
        try await RelayServer.with { server in
            try await PythonPeer.run("relay_peer.py", ["wait", server.url]) { peer in
                #expect(try await peer.next(Restart.self).ready == true)
                await server.restart()
                let said = try await peer.next(Restart.self)
                #expect((100...101).contains(said.reconnect ?? 0))
                #expect(said.tries == 30_000)
                #expect(said.code == 1_012)
            }
        }
    }

    private struct Iroh: Decodable {
        var online: Bool?
        var connected: Bool?
        var answered: Int?
        var verdict: String?
    }

    @Test(.enabled(if: PythonPeer.isInstalled("iroh")), arguments: [nil, "right"])
    func `two unmodified iroh endpoints meet through it`(token: String?) async throws {
        try await RelayServer.with {
            if let token { $0.access = RelayAccess(tokens: [token]) }
        } _: { server in
            let arguments = ["pair", server.url, token ?? "-", "1000000"]
            try await PythonPeer.run("iroh_relay.py", arguments) { peer in
                let said = [
                    try await peer.next(Iroh.self), try await peer.next(Iroh.self), try await peer.next(Iroh.self),
                    try await peer.next(Iroh.self),
                ]
                #expect(said.contains { $0.online == true })
                #expect(said.contains { $0.connected == true })
                #expect(said.contains { $0.answered == 1_000_000 })
                #expect(said.contains { $0.verdict == "ok" })
            }
            #expect(!server.metrics.contains("kith_relay_sent_frames_total 0\n"))
        }
    }
}
