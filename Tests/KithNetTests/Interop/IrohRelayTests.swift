import KithIdentity
import KithReach
import KithRelayServer
import KithTesting
import KithWire
import Logging
import NIOPosix
import Testing

@testable import KithNet

/// A device of ours and an unmodified iroh endpoint, which meet at our relay and know nothing else of each other.
@Suite(.timeLimit(.minutes(4)), .enabled(if: PythonPeer.isInstalled("iroh"))) struct IrohRelayTests {
    private struct Line: Decodable {
        var id: String?
        var connected: Bool?
        var answered: Int?
        var verdict: String?
    }

    private static let token = "of-the-test"
    private static let count = 2_000_000

    /// A relay that wants a token, and an endpoint with a link to it.
    private func withDevice(
        _ body: (Endpoint, _ link: UInt32, _ relay: RelayServer) async throws -> Void
    ) async throws {
        let silent = Logger(label: "test", factory: SwiftLogNoOpLogHandler.init)
        var options = RelayServerOptions(address: NetworkAddress(ipv4: (127, 0, 0, 1), port: 0))
        options.access = RelayAccess(tokens: [Self.token])
        let server = try await RelayServer.open(options, logger: silent)
        let key = DeviceKey()
        do {
            try await withEndpoint(key: key) { endpoint in
                var settings = RelayClient.Options(try #require(RelayAddress("http://\(server.address)")))
                settings.token = Self.token
                let (states, feed) = AsyncStream.makeStream(of: RelayClient.State.self)
                let link = RelayLink(
                    number: 3, key: key, options: settings, endpoint: endpoint,
                    on: MultiThreadedEventLoopGroup.singleton.next(), note: { feed.yield($0) })
                link.client.connect()
                for await state in states {
                    if case .connected = state { break }
                    if case .denied(let reason) = state { throw KithError(.denied, reason) }
                }
                endpoint.add(link)
                do {
                    try await body(endpoint, 3, server)
                } catch {
                    await link.client.close()
                    throw error
                }
                await link.client.close()
            }
        } catch {
            await server.close()
            throw error
        }
        await server.close()
    }

    @Test func `ours dials iroh by its key`() async throws {
        try await withDevice { endpoint, link, server in
            let url = "http://\(server.address)"
            try await PythonPeer.run("iroh_relay.py", ["serve", url, Self.token, "kith/1"]) { peer in
                let said = try #require(try await peer.next(Line.self).id)
                let id = try DeviceID(publicKey: try #require(Hex.decode(said)))
                let connection = try await endpoint.connect(to: id, at: [], through: [link])
                #expect(connection.peerID == id)
                try await Exchange.ask(connection, count: Self.count)
                #expect(await connection.statistics().paths.first?.relay == link)
                #expect(try await peer.next(Line.self).answered == Self.count)
                connection.close(code: .closed, reason: "done")
            }
        }
    }

    @Test func `iroh dials ours by its key`() async throws {
        try await withDevice { endpoint, link, server in
            let (url, key) = ("http://\(server.address)", Hex.encode(endpoint.id.bytes))
            let arguments = ["dial", url, Self.token, "kith/1", key, "\(Self.count)"]
            try await PythonPeer.run("iroh_relay.py", arguments) { peer in
                let id = try #require(try await peer.next(Line.self).id)
                let connection = try await next(endpoint.established)
                #expect(connection.peerID.map { Hex.encode($0.bytes) } == id)
                try await Exchange.answer(next(connection.incomingStreams))
                #expect(await connection.statistics().paths.first?.relay == link)
                #expect(try await peer.next(Line.self).connected == true)
                #expect(try await peer.next(Line.self).verdict == "ok")
            }
        }
    }
}
