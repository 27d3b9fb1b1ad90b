import KithIO
import KithIdentity
import KithQUIC
import KithReach
import KithTesting
import KithWire
import Testing

@testable import KithNet

/// An address of this machine that is told to others: loopback is not.
let outsideAddress = NetworkInterface.all.filter(\.leadsElsewhere).flatMap(\.addresses).first {
    !$0.isIPv6 && !$0.isLoopback && !$0.isLinkLocal
}

/// Two endpoints tell each other where they are, and find the direct path by themselves.
@Suite(.enabled(if: outsideAddress != nil, "this machine has no address but its loopback's"))
struct PathFinderTests {
    private static var options: Endpoint.Options {
        var options = Endpoint.Options()
        options.findsPaths = true
        options.bindAddresses = outsideAddress.map { [$0.withPort(0)] } ?? []
        return options
    }

    /// Two endpoints at one relay, and a connection through it.
    private func withRelayedPair(
        client: Endpoint.Options = options, server: Endpoint.Options = options,
        _ body: (Pair, MemoryRelay) async throws -> Void
    ) async throws {
        let relay = MemoryRelay(loss: 0, delay: 1_000_000, seed: 9)
        try await withEndpoint(.v4, server) { server in
            try await withEndpoint(.v4, client) { client in
                relay.connect(server, as: 5)
                relay.connect(client, as: 3)
                client.setLinks([3], of: server.id)
                server.setLinks([5], of: client.id)
                let outgoing = try await client.connect(to: server.id, at: [], through: [3])
                let incoming = try await next(server.established)
                try await body(Pair(client: client, server: server, outgoing: outgoing, incoming: incoming), relay)
            }
        }
    }

    /// The ways to reach an endpoint that has one address.
    private func info(_ endpoint: Endpoint, _ preference: ReachPreference = .auto) -> ReachInfo {
        var info = ReachInfo()
        info.candidates.set(endpoint.localAddresses.map { LocalAddress($0) })
        info.preference = preference
        return info
    }

    /// The relay that each end's packets go by; nil where they go directly.
    private func relays(_ pair: Pair) async -> [UInt32?] {
        var relays: [UInt32?] = []
        for connection in [pair.outgoing, pair.incoming] {
            relays.append(await connection.statistics().paths.first?.relay)
        }
        return relays
    }

    /// Has something answered across the connection.
    private func exchange(_ pair: Pair) async throws {
        let (near, far) = try await pair.stream()
        try await near.finish()
        #expect(try await far.readAll().isEmpty)
        try await far.write([7])
        try await far.finish()
        #expect(try await near.readAll() == [7])
    }

    @Test(.timeLimit(.minutes(4)), arguments: [true, false])
    func `one end says where it is, and the connection goes there from the relay`(isClient: Bool) async throws {
        try await withRelayedPair { pair, _ in
            #expect(await relays(pair) == [3, 5])
            let near = isClient ? pair.client : pair.server
            near.announce(info(near))
            try await eventually { await relays(pair) == [nil, nil] }
            try await exchange(pair)
            // The relay is held ready at both ends.
            for connection in [pair.outgoing, pair.incoming] {
                try await eventually { await connection.heldPaths().contains { $0.address.local.kind == .relay } }
            }
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `a direct connection holds the relay ready, goes on there when nothing else is left, and comes back`()
        async throws
    {
        let relay = MemoryRelay(loss: 0, delay: 1_000_000, seed: 10)
        try await withPair(clientOptions: Self.options, serverOptions: Self.options) { pair in
            pair.server.announce(info(pair.server))
            relay.connect(pair.server, as: 5)
            relay.connect(pair.client, as: 3)
            pair.client.setLinks([3], of: pair.server.id)
            pair.server.setLinks([5], of: pair.client.id)
            try await eventually {
                await pair.outgoing.heldPaths().contains { $0.address.local == .relay(3) && $0.isValidated }
            }
            #expect(await relays(pair) == [nil, nil])
            let held = await pair.outgoing.heldPaths()
            let direct = try #require(held.first { $0.isActive }).address
            let relayed = try #require(held.first { $0.address.local == .relay(3) }).address
            try await eventually {
                // Until the direct path is gone, the connection goes back to it by itself.
                pair.outgoing.move(to: relayed)
                pair.outgoing.forget(direct)
                return await relays(pair)[0] == 3
            }
            try await exchange(pair)
            pair.server.announce(info(pair.server, .auto))
            try await eventually {
                // One probe may be lost.
                pair.outgoing.probe([direct.remote])
                return await relays(pair) == [nil, nil]
            }
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `a device that has forgotten the connection says so by the relay where the direct path is dead`()
        async throws
    {
        let (relay, key) = (MemoryRelay(loss: 0, delay: 1_000_000, seed: 11), DeviceKey())
        var options = Self.options
        // Else the machine itself says that nobody listens there.
        options.asksMachines = false
        try await withEndpoint(.v4, options) { client in
            relay.connect(client, as: 3)
            client.setLinks([3], of: key.id)
            let connection = try await withEndpoint(.v4, key: key, options) { server in
                relay.connect(server, as: 5)
                let connection = try await client.connect(to: server.id, at: server.localAddresses)
                try await eventually {
                    await connection.heldPaths().contains { $0.address.local == .relay(3) && $0.isValidated }
                }
                // It ends as a process does that is killed.
                let (driver, done) = (server.driver, Promise<Void>())
                driver.loop.execute {
                    let reason = CloseReason(origin: .local, code: .closed, message: "killed")
                    for connection in driver.drivers.values { connection.abandon(reason) }
                    done.fulfil(())
                }
                await done.value()
                return connection
            }
            try await withEndpoint(.v4, key: key, options) { server in
                relay.connect(server, as: 5)
                #expect(connection.isOpen)
                let stream = try await connection.openStream()
                try await stream.write([1])
                #expect(await connection.closed().origin == .remote)
            }
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `a quiet connection by a relay whose link is open again says so at once`() async throws {
        var options = Self.options
        // Nothing else makes it send.
        (options.keepAlive, options.idleTimeout) = (nil, .seconds(3_600))
        try await withRelayedPair(client: options, server: options) { pair, relay in
            try await exchange(pair)
            for (endpoint, link) in [(pair.client, UInt32(3)), (pair.server, 5)] {
                endpoint.removeLink(link)
                // The loop has done it when it answers.
                _ = await endpoint.activeLinks()
            }
            let before = relay.forwarded
            relay.connect(pair.client, as: 3)
            try await eventually { relay.forwarded > before }
            relay.connect(pair.server, as: 5)
            try await exchange(pair)
        }
    }

    @Test(.timeLimit(.minutes(4)), arguments: [true, false])
    func `who wants the relay alone leaves the direct path, and goes back to it when it wants to`(
        isClient: Bool
    ) async throws {
        try await withRelayedPair { pair, _ in
            for endpoint in [pair.client, pair.server] { endpoint.announce(info(endpoint)) }
            try await eventually { await relays(pair) == [nil, nil] }
            let end = isClient ? pair.client : pair.server
            end.announce(info(end, .relay))
            try await eventually { await relays(pair) == [3, 5] }
            try await exchange(pair)
            end.announce(info(end))
            try await eventually { await relays(pair) == [nil, nil] }
            try await exchange(pair)
        }
    }

    @Test(.timeLimit(.minutes(4)), arguments: [true, false])
    func `who wants the relay alone is told no address, tells none, and probes none`(isClient: Bool) async throws {
        try await withRelayedPair { pair, _ in
            for endpoint in [pair.client, pair.server] {
                let wantsRelay = (endpoint === pair.client) == isClient
                endpoint.announce(info(endpoint, wantsRelay ? .relay : .auto))
            }
            for _ in 0..<20 {
                try await exchange(pair)
                // Real time: what must not happen has some in which it could.
                try await Task.sleep(for: .milliseconds(20))
            }
            #expect(await relays(pair) == [3, 5])
            let held = await pair.outgoing.heldPaths() + pair.incoming.heldPaths()
            #expect(held.allSatisfy { $0.address.local.kind == .relay })
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `much that goes through the relay is noticed at both ends`() async throws {
        try await withRelayedPair { pair, _ in
            #expect(await pair.outgoing.bulkSeen == nil)
            let (near, far) = try await pair.stream()
            async let all = far.readAll()
            try await near.write([UInt8](repeating: 7, count: 4 << 20))
            try await near.finish()
            #expect(try await all.count == 4 << 20)
            for connection in [pair.outgoing, pair.incoming] {
                try await eventually { await connection.bulkSeen != nil }
            }
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `an end that knows nothing of paths is left alone`() async throws {
        var plain = Self.options
        plain.findsPaths = false
        try await withRelayedPair(server: plain) { pair, _ in
            pair.client.announce(info(pair.client))
            pair.server.announce(info(pair.server))
            try await exchange(pair)
            #expect(await relays(pair) == [3, 5])
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `a device that is not paired is told no address, and is once it is`() async throws {
        var strict = Self.options
        strict.admit = { _, _ in .limited }
        try await withRelayedPair(server: strict) { pair, _ in
            pair.server.announce(info(pair.server))
            for _ in 0..<10 {
                try await exchange(pair)
                // Real time: what must not happen has some in which it could.
                try await Task.sleep(for: .milliseconds(20))
            }
            #expect(await relays(pair) == [3, 5])
            pair.incoming.liftLimits()
            try await eventually { await relays(pair) == [nil, nil] }
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `a device that is not at its relay fails the attempt at once, whatever addresses are silent`() async throws {
        let relay = MemoryRelay(loss: 0, delay: 1_000_000, seed: 11)
        try await withEndpoint(.v4, Self.options) { endpoint in
            relay.connect(endpoint, as: 3)
            let peer = DeviceKey().id
            let telling = Task {
                while !Task.isCancelled {
                    endpoint.isGone(peer, by: 3)
                    // Real time: the relay says so whenever it is asked, and the attempt may not have begun.
                    try await Task.sleep(for: .milliseconds(10))
                }
            }
            defer { telling.cancel() }
            try await withRawSocket(to: endpoint) { silent in
                for addresses in [[], [NetworkAddress(ipv4: 0x7F00_0001, port: silent.port)]] {
                    let error = await #expect(throws: KithError(.unreachable, "")) {
                        _ = try await endpoint.connect(to: peer, at: addresses, through: [3], timeout: .seconds(60))
                    }
                    // That of an address which was waited for to the end would be another.
                    #expect(error?.message.contains("is not connected to its relay") == true)
                }
            }
        }
    }

    @Test(.timeLimit(.minutes(4)))
    func `what an end says against the rules ends what it says, not the connection`() async throws {
        var plain = Self.options
        plain.findsPaths = false
        // A version that is none, a candidate list with nothing in it, one that is too long, and garbage.
        let streams: [[UInt8]] = [[0x00], [1, 1, 0], [1, 1, 0x7F, 0xFF], [1, 1, 5, 0, 0, 0, 1, 255]]
        for bytes in streams {
            try await withRelayedPair(server: plain) { pair, _ in
                pair.incoming.say(bytes)
                try await exchange(pair)
                pair.client.announce(info(pair.client))
                try await exchange(pair)
                #expect(pair.outgoing.isOpen && pair.incoming.isOpen)
            }
        }
    }
}

extension Connection {
    /// The time at which it was noticed last that much is carried.
    fileprivate var bulkSeen: ContinuousClock.Instant? {
        get async {
            let (driver, seen) = (self.driver, Promise<ContinuousClock.Instant?>())
            driver.loop.execute { seen.fulfil(driver.pathFinder?.bulk.last) }
            return await seen.value()
        }
    }

    /// Says something on the stream on which ends say where they are.
    fileprivate func say(_ bytes: [UInt8]) {
        let driver = self.driver
        driver.loop.execute {
            guard let stream = driver.engine.openStream(.unidirectional) else { return }
            // A connection that ended meanwhile is what the test looks for anyway.
            _ = try? driver.write(bytes, from: 0, to: stream)
            driver.service()
        }
    }
}
