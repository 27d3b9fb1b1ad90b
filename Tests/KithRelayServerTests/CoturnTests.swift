import Foundation
import KithReach
import KithTesting
import KithWire
import NIOCore
import NIOPosix
import Testing

@testable import KithRelayServer

/// STUN with coturn: its server for our client, its client for our responder.
@Suite("coturn", .serialized, .timeLimit(.minutes(4))) struct CoturnTests {
    /// Whether a program of it is installed; says so if not.
    private static func isInstalled(_ program: String) -> Bool {
        let isThere = FileManager.default.isExecutableFile(atPath: "/usr/bin/\(program)")
        if !isThere { print("skipped: \(program) is not installed (scripts/bootstrap --test)") }
        return isThere
    }

    /// Hands on what a socket receives, and from whom.
    private final class Feed: ChannelInboundHandler {
        typealias InboundIn = AddressedEnvelope<ByteBuffer>

        private let feed: AsyncStream<(bytes: [UInt8], source: NetworkAddress)>.Continuation

        init(_ feed: AsyncStream<(bytes: [UInt8], source: NetworkAddress)>.Continuation) { self.feed = feed }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let datagram = unwrapInboundIn(data)
            guard let source = NetworkAddress(datagram.remoteAddress as SocketAddress?) else { return }
            feed.yield((Array(datagram.data.readableBytesView), source))
        }
    }

    /// Asks until there is an answer: a server that is just starting hears nothing yet.
    private func ask(_ request: STUNClient.Request) async throws -> (outcome: STUNClient.Outcome, port: Int) {
        let (datagrams, feed) = AsyncStream.makeStream(of: (bytes: [UInt8], source: NetworkAddress).self)
        let socket = try await DatagramBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Feed(feed))
                }
            }.bind(host: "127.0.0.1", port: 0).get()
        let port = socket.localAddress?.port ?? 0
        var random = SystemRandomNumberGenerator()
        let remote = try SocketAddress(ipAddress: "127.0.0.1", port: Int(request.server.port))
        var iterator = datagrams.makeAsyncIterator()
        // Each question has a number of its own; an answer to any of them will do.
        var clients: [STUNClient] = []
        for _ in 0..<200 {
            var client = STUNClient()
            let now = ContinuousClock.now
            _ = client.ask(request, at: now, using: &random)
            let next = client.nextDatagram(at: now)
            let bytes = try #require(next).bytes
            clients.append(client)
            // Refused as long as nobody listens there.
            try? await socket.writeAndFlush(AddressedEnvelope(remoteAddress: remote, data: ByteBuffer(bytes: bytes)))
            let timer = socket.eventLoop.scheduleTask(in: .milliseconds(100)) { feed.yield(([], request.server)) }
            guard let (answer, source) = await iterator.next() else { break }
            timer.cancel()
            for index in clients.indices where clients[index].receive(answer, from: source, at: .now) {
                let result = clients[index].nextResult()
                try await socket.close()
                return (try #require(result).outcome, port)
            }
        }
        try await socket.close()
        throw KithError(.timedOut, "coturn does not answer")
    }

    @Test(.enabled(if: isInstalled("turnserver")))
    func `our client understands coturn, and that it has two addresses`() async throws {
        let folder = try TemporaryFolder()
        let port = UInt16.random(in: 20_000...50_000)
        let process = try ChildProcess(
            "/usr/bin/turnserver",
            [
                "-n", "--listening-ip", "127.0.0.1", "--listening-ip", "127.0.0.2", "--listening-port", "\(port)",
                "--alt-listening-port", "\(port + 1)", "--no-tls", "--no-dtls", "--stun-only", "--no-cli", "--no-auth",
                "--log-file", "\(folder.path)/log", "--pidfile", "\(folder.path)/pid", "--userdb", "\(folder.path)/db",
            ], output: .nothing, errors: .nothing)
        defer { process.kill() }
        let server = NetworkAddress(ipv4: (127, 0, 0, 1), port: port)
        let (outcome, own) = try await ask(STUNClient.Request(server: server))
        guard case .answered(let mapped, let other, _) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(mapped.isLoopback && Int(mapped.port) == own)
        #expect(other == NetworkAddress(ipv4: (127, 0, 0, 2), port: port + 1))
        // RFC 5780: from the other address and port, and from the other port alone.
        for (changesIP, origin) in [
            (true, NetworkAddress(ipv4: (127, 0, 0, 2), port: port + 1)),
            (false, NetworkAddress(ipv4: (127, 0, 0, 1), port: port + 1)),
        ] {
            let change = STUNMessage.ChangeRequest(changesIP: changesIP, changesPort: true)
            let asked = try await ask(STUNClient.Request(server: server, change: change, answersFrom: origin))
            guard case .answered(let again, _, _) = asked.outcome else {
                Issue.record("\(asked.outcome)")
                return
            }
            #expect(Int(again.port) == asked.port)
        }
    }

    /// What coturn's client says of a responder of ours.
    private func said(of responder: STUNResponder) async throws -> String {
        let local = NetworkAddress(ipv4: (127, 0, 0, 1), port: 0)
        let channel = try await DatagramBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(STUNHandler(at: local, RelayCounters(), responder))
                }
            }.bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(channel.localAddress?.port)
        let process = try ChildProcess(
            "/usr/bin/timeout", ["3", "/usr/bin/turnutils_stunclient", "-p", "\(port)", "127.0.0.1"],
            output: .connected, errors: .merged)
        let text = try process.output?.readToEnd() ?? Data()
        process.waitUntilExit()
        try await channel.close()
        return String(decoding: text, as: UTF8.self)
    }

    @Test(.enabled(if: isInstalled("turnutils_stunclient")))
    func `coturn's client understands our responder, which answers its bare questions only where that is set`()
        async throws
    {
        #expect(
            try await said(of: STUNResponder(answersShortRequests: true)).contains("UDP reflexive addr: 127.0.0.1:"))
        // Twenty bytes are fewer than any answer has. Real time: it waits for one until it is ended.
        #expect(!(try await said(of: STUNResponder())).contains("reflexive addr"))
    }
}
