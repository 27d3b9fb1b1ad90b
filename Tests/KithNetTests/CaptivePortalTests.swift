import KithIdentity
import KithNet
import KithReach
import KithRelayServer
import KithTesting
import KithWire
import Logging
import Testing

/// A network that wants its users to sign in first, made by hand.
@Suite(.timeLimit(.minutes(3)), .enabled(if: PythonPeer.isInstalled("asyncio"))) struct CaptivePortalTests {
    private struct Line: Decodable {
        var port: UInt16?
        var request: String?
        var host: String?
        var mode: String?
        var probes: Int?
    }

    private func withPortal(_ body: (PythonPeer, UInt16) async throws -> Void) async throws {
        let server = try await RelayServer.open(
            RelayServerOptions(address: NetworkAddress(ipv4: (127, 0, 0, 1), port: 0)),
            logger: Logger(label: "test", factory: SwiftLogNoOpLogHandler.init))
        do {
            try await PythonPeer.run("hostile_network.py", ["portal", "\(server.address)"]) { peer in
                try await body(peer, try #require(try await peer.next(Line.self).port))
            }
        } catch {
            await server.close()
            throw error
        }
        await server.close()
    }

    private func portal(_ device: ObservedClient) async -> String? {
        var url: String?
        _ = await device.next {
            if case .state(.captive(let portal)) = $0 { url = portal.url }
            return url != nil
        }
        return url
    }

    /// The number of times a portal was looked for.
    private func probes(_ peer: PythonPeer) async throws -> Int {
        peer.send("count")
        while true {
            if let probes = try await peer.next(Line.self).probes { return probes }
        }
    }

    @Test(arguments: [
        ("status 302 Location: http://login.example/start", "http://login.example/start"),
        ("status 200", "http://127.0.0.1/"), ("status 511", "http://127.0.0.1/"),
    ])
    func `it is said, and once somebody has signed in the device connects by itself`(
        mode: String, page: String
    ) async throws {
        try await withPortal { peer, port in
            peer.send(mode)
            #expect(try await peer.next(Line.self).mode == "status")
            let device = ObservedClient(try #require(RelayAddress("http://127.0.0.1:\(port)"))) {
                $0.portalCheckInterval = .seconds(3_600)
            }
            device.client.connect()
            #expect(await portal(device) == page)
            // Said again at the end of each attempt, and not asked for each time.
            for _ in 0..<5 {
                device.client.networkChanged()
                #expect(await portal(device) == page)
            }
            #expect(try await probes(peer) == 1)
            peer.send("open")
            await device.connected()
            await device.client.close()
        }
    }

    @Test func `a relay with TLS has its host asked where the web is not encrypted`() async throws {
        try await withPortal { peer, port in
            let device = ObservedClient(try #require(RelayAddress("https://127.0.0.1:1"))) { $0.portalPort = port }
            device.client.connect()
            #expect(await portal(device) == "http://login.example/start")
            let line = try await peer.next(Line.self)
            #expect(line.request == "GET /generate_204 HTTP/1.1" && line.host == "127.0.0.1:\(port)")
            await device.client.close()
        }
    }

    @Test func `nobody on this machine is asked for a relay that a peer named`() async throws {
        try await withPortal { peer, port in
            let device = ObservedClient(try #require(RelayAddress("http://127.0.0.1:\(port)"))) {
                $0.refusesThisMachine = true
            }
            device.client.connect()
            #expect(await device.waiting() == "its name leads to this machine, or to its own link")
            await device.client.close()
            #expect(try await probes(peer) == 0)
        }
    }

    @Test func `a relay that is there but refuses this device is no portal`() async throws {
        try await withPortal { peer, port in
            peer.send("status 403")
            #expect(try await peer.next(Line.self).mode == "status")
            let device = ObservedClient(try #require(RelayAddress("http://127.0.0.1:\(port)")))
            device.client.connect()
            #expect(
                await device.next { if case .state(.denied) = $0 { true } else { false } }
                    == .state(.denied(reason: "it answers 403: this device, or its token, is not allowed")))
            await device.client.close()
        }
    }
}
