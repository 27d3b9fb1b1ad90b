import Foundation
import KithIO
import KithIdentity
import KithQUIC
import KithReach
import KithRelayServer
import KithTesting
import KithWire
import Logging
import Synchronization
import Testing

@testable import KithNet

/// The address discovery of relays, and between devices.
@Suite(.timeLimit(.minutes(4))) struct AddressDiscoveryTests {
    private let silent = Logger(label: "test", factory: SwiftLogNoOpLogHandler.init)

    private func withServer(
        _ credentials: [Credential] = [], at address: NetworkAddress = Family.v4.loopback,
        limits: AddressDiscoveryServer.Limits = .init(), _ body: (AddressDiscoveryServer) async throws -> Void
    ) async throws {
        let server = try await AddressDiscoveryServer.open(
            at: address, credentials: credentials, limits: limits, logger: silent)
        do {
            try await body(server)
        } catch {
            await server.close()
            throw error
        }
        await server.close()
    }

    @Test(arguments: Family.allCases)
    func `a relay tells an endpoint from where it sees its socket, and is left`(family: Family) async throws {
        try await withServer(at: family.loopback) { server in
            try await withEndpoint(family) { endpoint in
                let answer = try #require(await endpoint.observedAddress(by: server.address))
                #expect(answer.mapped == family.loopback.withPort(endpoint.port))
                #expect(answer.roundTrip > .zero)
                // Closed by the client: nothing is left after its word.
                try await eventually { server.connectionCount == 0 }
                #expect(endpoint.connections.isEmpty)
            }
        }
    }

    @Test func `where the server's key is known, nobody else is believed`() async throws {
        let key = DeviceKey()
        try await withServer([.rawPublicKey(seed: key.secret)]) { server in
            try await withEndpoint { endpoint in
                #expect(await endpoint.observedAddress(by: server.address, key: key.id) != nil)
                #expect(await endpoint.observedAddress(by: server.address, key: DeviceKey().id) == nil)
                #expect(await endpoint.observedAddress(by: server.address) != nil)
            }
        }
    }

    @Test(
        .enabled(if: SelfSignedCertificateTests.openssl != nil, "openssl is not installed"),
        arguments: [
            ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"], ["ec", "-pkeyopt", "ec_paramgen_curve:P-384"], ["rsa:2048"],
            ["ed25519"],
        ])
    func `a relay shows the certificate of its files, whatever its key`(kind: [String]) async throws {
        let folder = try TemporaryFolder()
        let openssl = try #require(SelfSignedCertificateTests.openssl)
        let (chain, key) = ("\(folder.path)/chain.pem", "\(folder.path)/key.pem")
        let made = try ChildProcess(
            openssl,
            ["req", "-x509", "-newkey"] + kind
                + ["-nodes", "-keyout", key, "-out", chain, "-subj", "/CN=relay", "-days", "2"],
            output: .connected, errors: .merged)
        _ = try made.output?.readToEnd()
        #expect(made.waitUntilExit() == 0)
        var options = RelayServerOptions(address: Family.v4.loopback)
        options.certificate = (chain, key)
        options.discoveryAddress = Family.v4.loopback
        let relay = try await RelayServer.open(options, logger: silent)
        let address = try #require(relay.discoveryAddress)
        try await withEndpoint { endpoint in
            #expect(await endpoint.observedAddress(by: address, named: "relay")?.mapped.port == endpoint.port)
        }
        await relay.close()
    }

    /// What a server shows that has no key that others know.
    private func certificate() throws -> [Credential] {
        let key = DeviceKey()
        return [.x509(chain: [try SelfSignedCertificate.make(for: key)], seed: key.secret)]
    }

    @Test func `nobody is asked who they are, and no stream is taken`() async throws {
        try await withServer(try certificate()) { server in
            var options = Endpoint.Options()
            options.alpn = [AddressDiscovery.alpn]
            try await withEndpoint(.v4, options) { endpoint in
                // One that shows its key is a device, which has no business here: it is refused, at once or soon.
                if let connection = try? await endpoint.connectForeign(at: [server.address]) {
                    #expect(await connection.closed().origin != .local)
                }
            }
            options.adjust = {
                $0.credentials = []
                $0.addressDiscovery = .asks
            }
            options.foreign = .acceptCertificates
            try await withEndpoint(.v4, options) { endpoint in
                let connection = try await endpoint.connectForeign(at: [server.address])
                #expect(connection.openStreamNow() == nil)
                #expect(throws: (any Error).self) { () throws -> Void in try connection.sendDatagram([1]) }
            }
        }
    }

    @Test func `one address has so many connections and no more`() async throws {
        var limits = AddressDiscoveryServer.Limits()
        limits.perHost = 3
        try await withServer(try certificate(), limits: limits) { server in
            var options = Endpoint.Options()
            options.alpn = [AddressDiscovery.alpn]
            options.foreign = .acceptCertificates
            options.adjust = { $0.credentials = [] }
            try await withEndpoint(.v4, options) { endpoint in
                var open: [Connection] = []
                for _ in 0..<3 { open.append(try await endpoint.connectForeign(at: [server.address])) }
                let refused = try await endpoint.connectForeign(at: [server.address])
                #expect(await refused.closed().code == .exhausted)
                #expect(!open.contains { !$0.isOpen })
                open[0].close()
                try await eventually { server.connectionCount == 2 }
                let another = try await endpoint.connectForeign(at: [server.address])
                try await eventually { server.connectionCount == 3 }
                #expect(another.isOpen)
            }
        }
    }

    @Test func `who does not answer is given up, and questions are bounded`() async throws {
        let silence = try await RawSocket.silent()
        try await withEndpoint { endpoint in
            let address = NetworkAddress(ipv4: (127, 0, 0, 1), port: silence.port)
            let answers = await withTaskGroup(of: Bool.self) { group in
                for _ in 0..<AddressObserver.maxCount + 4 {
                    group.addTask { await endpoint.observedAddress(by: address) != nil }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(answers.count == AddressObserver.maxCount + 4 && !answers.contains(true))
        }
    }

    @Test func `devices tell each other where they see them`() async throws {
        var options = Endpoint.Options()
        options.findsPaths = true
        try await withEndpoint(.v4, options) { server in
            try await withEndpoint(.v4, options) { client in
                let seen = Mutex<[DeviceID: NetworkAddress]>([:])
                let note: @Sendable (DeviceID, NetworkAddress) -> Void = { peer, address in
                    seen.withLock { $0[peer] = address }
                }
                server.onObservedAddress(note)
                client.onObservedAddress(note)
                _ = try await client.connect(to: server.id, at: server.localAddresses)
                try await eventually { seen.withLock { $0.count == 2 } }
                let told = seen.withLock { $0 }
                #expect(
                    told == [
                        server.id: Family.v4.loopback.withPort(client.port),
                        client.id: Family.v4.loopback.withPort(server.port),
                    ])
            }
        }
    }

    @Test func `a device that is held to little is not listened to`() async throws {
        var options = Endpoint.Options()
        options.findsPaths = true
        var guarded = options
        guarded.admit = { _, _ in .limited }
        try await withEndpoint(.v4, guarded) { server in
            try await withEndpoint(.v4, options) { client in
                let seen = Mutex<[DeviceID]>([])
                server.onObservedAddress { peer, _ in seen.withLock { $0.append(peer) } }
                let connection = try await client.connect(to: server.id, at: server.localAddresses)
                let incoming = try await next(server.established)
                // A request and its answer: what came with the handshake has been read long ago.
                let near = try await connection.openStream()
                try await near.write([1])
                try await near.finish()
                let far = try await next(incoming.incomingStreams)
                #expect(try await far.readAll() == [1])
                #expect(seen.withLock { $0.isEmpty })
                incoming.liftLimits()
                try await eventually { seen.withLock { $0 == [client.id] } }
            }
        }
    }
}
