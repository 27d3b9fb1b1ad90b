import KithIO
import KithQUIC
import KithTesting
import KithWire
import NIOCore
import Testing

@testable import KithNet

/// Connections that outlive the addresses they began with, over real sockets.
@Suite struct MovingTests {
    private static let elsewhere = NetworkAddress(ipv4: (127, 0, 0, 2), port: 0)

    /// Sends from `near` to `far`, has `move` happen in the middle, and compares.
    private func sends(
        _ near: QUICStream, to far: QUICStream, while move: @escaping @Sendable () async throws -> Void
    ) async throws {
        let bytes = SplitMixBytes.make(8_000_000)
        let reader = Task { try await far.readAll() }
        try await near.write(Array(bytes[..<2_000_000]))
        try await move()
        try await near.write(Array(bytes[2_000_000...]))
        try await near.finish()
        let isWhole = try await reader.value == bytes
        #expect(isWhole)
    }

    @Test func `the dialing end moves to another address while a stream runs`() async throws {
        try await withPair { pair in
            let (near, far) = try await pair.stream()
            let old = await pair.incoming.statistics().remoteAddress
            try await sends(near, to: far) { try await pair.client.rebind(to: [Self.elsewhere]) }
            let now = await pair.incoming.statistics().remoteAddress
            #expect(now != old && now == pair.client.localAddresses[0])
            try await far.write([7])
            #expect(try await near.read(upTo: 1) == [7])
        }
    }

    @Test func `the accepting end moves to another address while a stream runs`() async throws {
        try await withPair { pair in
            let (near, far) = try await pair.stream()
            let old = await pair.outgoing.statistics().remoteAddress
            try await sends(far, to: near) { try await pair.server.rebind(to: [Self.elsewhere]) }
            let now = await pair.outgoing.statistics().remoteAddress
            let paths = await (pair.outgoing.statistics().paths, pair.incoming.statistics().paths)
            #expect(now != old && now == pair.server.localAddresses[0], "\(paths)")
            #expect(pair.outgoing.isOpen && pair.incoming.isOpen)
            try await near.write([7])
            #expect(try await far.read(upTo: 1) == [7])
        }
    }

    /// Sends a byte there and one back.
    private func exchange(_ near: QUICStream, _ far: QUICStream) async throws {
        try await near.write([1])
        try #require(try await far.read(upTo: 1) == [1])
        try await far.write([2])
        try #require(try await near.read(upTo: 1) == [2])
    }

    @Test func `a dialing end that is to move during its handshake does so when that is confirmed`() async throws {
        try await withEndpoint { server in
            try await Cable.to(server.localAddresses[0]) { cable, address in
                try await withEndpoint { client in
                    cable.hold()
                    async let dialed = client.connect(to: server.id, at: [address])
                    try await eventually { try await cable.clientIP() != nil }
                    try await client.rebind(to: [Self.elsewhere])
                    cable.release(deafens: false)
                    let outgoing = try await dialed
                    let near = try await outgoing.openStream()
                    try await near.write([0])
                    let far = try await next(try await next(server.established).incomingStreams)
                    #expect(try await far.read(upTo: 1) == [0])
                    // The word that the handshake is confirmed is on its way; each round trip is a chance.
                    for _ in 0..<100 where try await cable.clientIP() == "127.0.0.1" { try await exchange(near, far) }
                    #expect(try await cable.clientIP() == "127.0.0.2")
                }
            }
        }
    }

    @Test func `a connection whose peer forbids moving stays at the old socket, which stays open`() async throws {
        var firm = Endpoint.Options()
        firm.adjust = { $0.disablesActiveMigration = true }
        try await withPair(serverOptions: firm) { pair in
            let (near, far) = try await pair.stream()
            let old = await pair.incoming.statistics().remoteAddress
            try await pair.client.rebind(to: [Self.elsewhere])
            // Sockets that were left have been closed by then.
            let looked = Promise<Void>()
            pair.client.driver.loop.scheduleTask(in: EndpointDriver.lingering) { looked.fulfil(()) }
            await looked.value()
            try await exchange(near, far)
            let now = await pair.incoming.statistics().remoteAddress
            #expect(now == old)
        }
    }

    @Test func `a connection whose peer forbids moving goes by another socket when it must`() async throws {
        var firm = Endpoint.Options()
        firm.adjust = { $0.disablesActiveMigration = true }
        try await withPair(serverOptions: firm) { pair in
            let (near, far) = try await pair.stream()
            let (endpoint, connection) = (pair.client.driver, pair.outgoing.driver)
            endpoint.loop.execute {
                endpoint.openSocket(like: endpoint.sockets[0], at: Self.elsewhere) { socket in
                    if let socket { connection.move(to: socket, isForced: true) }
                }
            }
            // To the peer it is as if a NAT had been rebound.
            for _ in 0..<100 where await pair.incoming.statistics().remoteAddress?.hasSameIP(as: Self.elsewhere) != true
            {
                try await exchange(near, far)
            }
            #expect(await pair.incoming.statistics().remoteAddress?.hasSameIP(as: Self.elsewhere) == true)
            try await sends(near, to: far) {}
        }
    }

    @Test func `an endpoint that moved is reached at its new address, and no longer at the old one`() async throws {
        var impatient = Endpoint.Options()
        impatient.handshakeTimeout = .seconds(1)
        try await withEndpoint { server in
            let old = server.localAddresses
            try await server.rebind(to: [Self.elsewhere])
            try await withEndpoint { client in
                _ = try await client.connect(to: server.id, at: server.localAddresses)
            }
            // Its old socket is read for a while, for those who are on their way.
            let driver = server.driver
            try await eventually {
                let count = Promise<Int>()
                driver.loop.execute { count.fulfil(driver.sockets.count) }
                return await count.value() == 1
            }
            try await withEndpoint(.v4, impatient) { client in
                await #expect(throws: KithError(.unreachable, "")) {
                    _ = try await client.connect(to: server.id, at: old)
                }
            }
        }
    }

    @Test func `a rebinding that cannot be done changes nothing`() async throws {
        try await withPair { pair in
            let before = pair.client.localAddresses
            await #expect(throws: KithError.self) {
                // Documentation addresses are nobody's (RFC 5737).
                try await pair.client.rebind(to: [NetworkAddress(ipv4: (192, 0, 2, 1), port: 0)])
            }
            await #expect(throws: KithError(.invalid, "")) { try await pair.client.rebind(to: []) }
            #expect(pair.client.localAddresses == before)
            let (near, far) = try await pair.stream()
            try await far.write([7])
            #expect(try await near.read(upTo: 1) == [7])
        }
    }
}
