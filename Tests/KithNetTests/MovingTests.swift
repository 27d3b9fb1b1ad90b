import KithNet
import KithWire
import Testing

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
            #expect(now != old && now == pair.server.localAddresses[0])
            #expect(pair.outgoing.isOpen && pair.incoming.isOpen)
            try await near.write([7])
            #expect(try await far.read(upTo: 1) == [7])
        }
    }

    @Test func `an endpoint that moved is reached at its new address, and no longer at the old one`() async throws {
        var impatient = Endpoint.Options()
        impatient.handshakeTimeout = .seconds(1)
        try await withEndpoint { server in
            let old = server.localAddresses
            try await server.rebind(to: [Self.elsewhere])
            try await withEndpoint(.v4, impatient) { client in
                _ = try await client.connect(to: server.id, at: server.localAddresses)
            }
            // Its old socket is read for a while, for those who are on their way.
            try await Task.sleep(for: .seconds(6))
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
