import KithIdentity
import KithNet
import KithWire
import Logging
import Testing

@Suite struct ConnectTests {
    @Test(arguments: Family.allCases)
    func `both ends know each other's key`(family: Family) async throws {
        try await withPair(family) { pair in
            #expect(pair.outgoing.peerID == pair.server.id)
            #expect(pair.incoming.peerID == pair.client.id)
            #expect(pair.outgoing.isDialed && !pair.incoming.isDialed)
            #expect(pair.outgoing.negotiatedALPN == "kith/1")
            #expect(pair.server.connection(to: pair.client.id) === pair.incoming)
            #expect(pair.client.connections.count == 1)
        }
    }

    @Test func `an endpoint on every interface is reached over IPv4 and IPv6`() async throws {
        let server = try await Endpoint.bind(key: DeviceKey(), logger: .init(label: "test"))
        #expect(server.localAddresses.allSatisfy { !$0.isUnspecified && $0.port == server.port })
        for address in server.localAddresses.filter(\.isLoopback) {
            let client = try await Endpoint.bind(key: DeviceKey(), logger: .init(label: "test"))
            let connection = try await client.connect(to: server.id, at: [address])
            #expect(await connection.statistics().remoteAddress == address)
            await client.shutdown()
        }
        await server.shutdown()
    }

    @Test func `a peer with another key is refused`() async throws {
        try await withEndpoint { server in
            try await withEndpoint { client in
                await #expect(throws: KithError(.denied, "")) {
                    try await client.connect(to: DeviceKey().id, at: server.localAddresses)
                }
                #expect(client.connections.isEmpty)
                #expect(server.connections.isEmpty)
            }
        }
    }

    @Test func `a device that is not admitted is refused during the handshake`() async throws {
        var options = Endpoint.Options()
        options.admit = { _, _ in .refused }
        try await withEndpoint(.v4, options) { server in
            try await withEndpoint { client in
                // A client completes its half of the handshake before the server judges its key (RFC 8446 §2).
                do throws(KithError) {
                    let connection = try await client.connect(to: server.id, at: server.localAddresses)
                    #expect(await connection.closed().code == .unpaired)
                } catch {
                    #expect(error.code == .unpaired)
                }
                #expect(server.connections.isEmpty)
            }
        }
    }

    @Test func `other application protocols are refused`() async throws {
        var options = Endpoint.Options()
        options.alpn = ["other/1"]
        try await withEndpoint(.v4, options) { server in
            try await withEndpoint { client in
                await #expect(throws: KithError(.unsupported, "")) {
                    try await client.connect(to: server.id, at: server.localAddresses)
                }
            }
        }
    }

    @Test func `dialing twice gives the same connection`() async throws {
        try await withPair { pair in
            let again = try await pair.client.connect(to: pair.server.id, at: pair.server.localAddresses)
            #expect(again === pair.outgoing)
            let back = try await pair.server.connect(to: pair.client.id, at: pair.client.localAddresses)
            #expect(back === pair.incoming)
        }
    }

    @Test func `concurrent calls for one peer share one attempt`() async throws {
        try await withEndpoint { server in
            try await withEndpoint { client in
                let addresses = server.localAddresses
                let ids = try await withThrowingTaskGroup { group in
                    for _ in 0..<20 {
                        group.addTask { try await client.connect(to: server.id, at: addresses).id }
                    }
                    return try await group.reduce(into: Set<UInt64>()) { $0.insert($1) }
                }
                #expect(ids.count == 1)
            }
        }
    }

    @Test func `a reconnect after the end is a new connection`() async throws {
        try await withPair { pair in
            pair.outgoing.close(code: .cancelled, reason: "for the test")
            #expect(await pair.outgoing.closed().origin == .local)
            let reason = await pair.incoming.closed()
            #expect(reason.origin == .remote && reason.code == .cancelled)
            #expect(reason.message.contains("for the test"))
            var last = pair.outgoing
            for _ in 0..<20 {
                let again = try await pair.client.connect(to: pair.server.id, at: pair.server.localAddresses)
                #expect(again !== last && again.isOpen)
                again.close()
                _ = await again.closed()
                last = again
            }
        }
    }

    @Test func `live addresses win against dead ones`() async throws {
        try await withEndpoint { server in
            try await withEndpoint { client in
                // A bound socket nobody answers at, and a network there is no way to.
                try await Cable.to(NetworkAddress(ipv4: (127, 0, 0, 1), port: 9)) { cable, dead in
                    cable.cut()
                    let nowhere = NetworkAddress(ipv6: 0x2001_0DB8 << 32, 1, port: 9)
                    let connection = try await client.connect(
                        to: server.id, at: [dead, nowhere] + server.localAddresses)
                    #expect(connection.peerID == server.id)
                }
            }
        }
    }

    @Test func `nobody at any address is unreachable or timed out`() async throws {
        try await withEndpoint { client in
            try await Cable.to(NetworkAddress(ipv4: (127, 0, 0, 1), port: 9)) { cable, dead in
                cable.cut()
                let peer = DeviceKey().id
                await #expect(throws: KithError(.timedOut, "")) {
                    try await client.connect(to: peer, at: [dead], timeout: .milliseconds(200))
                }
                await #expect(throws: KithError(.unreachable, "")) {
                    try await client.connect(to: peer, at: [NetworkAddress(ipv6: 0x2001_0DB8 << 32, 1, port: 9)])
                }
                await #expect(throws: KithError(.invalid, "")) { try await client.connect(to: peer, at: []) }
                await #expect(throws: KithError(.invalid, "")) {
                    try await client.connect(to: client.id, at: [dead])
                }
            }
        }
    }

    @Test func `a cancelled dial ends at once`() async throws {
        try await withEndpoint { client in
            try await Cable.to(NetworkAddress(ipv4: (127, 0, 0, 1), port: 9)) { cable, dead in
                cable.cut()
                let task = Task { () -> KithError.Code? in
                    do throws(KithError) {
                        _ = try await client.connect(to: DeviceKey().id, at: [dead], timeout: .seconds(600))
                        return nil
                    } catch { return error.code }
                }
                task.cancel()
                #expect(await task.value == .cancelled)
            }
        }
    }

    @Test(arguments: 0..<8)
    func `ends that dial each other at once keep the same connection`(round: Int) async throws {
        try await withEndpoint { one in
            try await withEndpoint { two in
                let (oneID, twoID) = (one.id, two.id)
                let (oneAddresses, twoAddresses) = (one.localAddresses, two.localAddresses)
                async let first = one.connect(to: twoID, at: twoAddresses)
                async let second = two.connect(to: oneID, at: oneAddresses)
                let (near, far) = try await (first, second)
                // Whichever connection each got, a stream opened on it is served at the other end.
                for (connection, other) in [(near, two), (far, one)] {
                    let stream = try await connection.openStream()
                    try await stream.write([1])
                    try await stream.finish()
                    var served = false
                    for await established in other.established where established.isDialed != connection.isDialed {
                        let incoming = try await next(established.incomingStreams)
                        #expect(try await incoming.readAll() == [1])
                        served = true
                        break
                    }
                    #expect(served)
                }
            }
        }
    }

    @Test func `keying material is the same at both ends and differs by label`() async throws {
        try await withPair { pair in
            let near = try await pair.outgoing.exportKeyingMaterial(label: "kith test", context: [1, 2], count: 32)
            let far = try await pair.incoming.exportKeyingMaterial(label: "kith test", context: [1, 2], count: 32)
            let other = try await pair.incoming.exportKeyingMaterial(label: "kith other", context: [1, 2], count: 32)
            #expect(near == far && near.count == 32)
            #expect(near != other)
        }
    }

    @Test func `a taken port is a conflict`() async throws {
        try await withEndpoint { first in
            var options = Endpoint.Options()
            options.bindAddresses = [NetworkAddress(ipv4: (127, 0, 0, 1), port: first.port)]
            await #expect(throws: KithError(.conflict, "")) {
                try await Endpoint.bind(key: DeviceKey(), options: options, logger: .init(label: "test"))
            }
        }
    }
}
