import KithIdentity
import KithNet
import KithTesting
import KithWire
import Logging
import Testing

@Suite struct LifecycleTests {
    @Test func `a peer that vanishes is noticed by the idle timeout`() async throws {
        var options = Endpoint.Options()
        // Long enough for a handshake on a busy machine.
        options.idleTimeout = .seconds(2)
        options.keepAlive = .milliseconds(100)
        try await withEndpoint(.v4, options) { server in
            try await withEndpoint(.v4, options) { client in
                try await Cable.to(server.localAddresses[0]) { cable, address in
                    let near = try await client.connect(to: server.id, at: [address])
                    let far = try await next(server.established)
                    let stream = try await near.openStream()
                    try await stream.write([1])
                    let farStream = try await next(far.incomingStreams)
                    #expect(try await farStream.read(upTo: 1) == [1])
                    cable.cut()
                    #expect(await near.closed().origin == .idleTimeout)
                    #expect(await far.closed().origin == .idleTimeout)
                    await #expect(throws: KithError(.unreachable, "")) { try await stream.read(upTo: 1) }
                    await #expect(throws: KithError(.unreachable, "")) { try await farStream.write([1]) }
                    #expect(client.connections.isEmpty && server.connections.isEmpty)
                }
            }
        }
    }

    @Test func `a keep-alive keeps a quiet connection open past its idle timeout`() async throws {
        var lively = Endpoint.Options()
        lively.idleTimeout = .seconds(1)
        lively.keepAlive = .milliseconds(100)
        var silent = lively
        silent.keepAlive = nil
        try await withPair(clientOptions: lively, serverOptions: silent) { pair in
            // Connections that go idle are the clock: two of them come to their end one after the other.
            for _ in 0..<2 {
                try await withEndpoint(.v4, silent) { other in
                    let quiet = try await other.connect(to: pair.server.id, at: pair.server.localAddresses)
                    #expect(await quiet.closed().origin == .idleTimeout)
                }
            }
            #expect(pair.outgoing.isOpen && pair.incoming.isOpen)
        }
    }

    @Test func `a shutdown with grace lets a running stream finish`() async throws {
        try await withEndpoint { server in
            try await withEndpoint { client in
                let near = try await client.connect(to: server.id, at: server.localAddresses)
                let far = try await next(server.established)
                let stream = try await near.openStream()
                let bytes = SplitMixBytes.make(2_000_000)
                try await stream.write(Array(bytes[..<1000]))
                let farStream = try await next(far.incomingStreams)
                let shutdown = Task { await client.shutdown(grace: .seconds(60)) }
                let reader = Task { try await farStream.readAll() }
                try await stream.write(Array(bytes[1000...]))
                try await stream.finish()
                try await farStream.finish()
                #expect(try await stream.readAll().isEmpty)
                #expect(try await reader.value == bytes)
                await shutdown.value
                #expect(await far.closed().origin == .remote)
            }
        }
    }

    @Test func `a drained connection takes no new streams`() async throws {
        try await withPair { pair in
            let (near, far) = try await pair.stream()
            let drain = Task { [outgoing = pair.outgoing] in await outgoing.drain(deadline: .seconds(60)) }
            // The order reaches the event loop some time; from then on opening is refused.
            var refused = false
            while !refused {
                do throws(KithError) {
                    try await pair.outgoing.openStream().abort(.cancelled)
                } catch {
                    #expect(error.code == .closed)
                    refused = true
                }
            }
            #expect(pair.outgoing.isOpen)
            try await near.finish()
            try await far.finish()
            #expect(try await near.readAll().isEmpty)
            #expect(try await far.readAll().isEmpty)
            await drain.value
            #expect(!pair.outgoing.isOpen)
        }
    }

    @Test func `a shut down endpoint refuses everything and wakes everyone`() async throws {
        try await withPair { pair in
            let (near, far) = try await pair.stream()
            let reader = Task { try await near.read(upTo: 1) }
            let acceptor = Task { [client = pair.client] in
                for await _ in client.established {}
                return true
            }
            await pair.client.shutdown()
            await #expect(throws: KithError(.closed, "")) { try await reader.value }
            #expect(await acceptor.value)
            await #expect(throws: KithError(.closed, "")) { try await pair.outgoing.openStream() }
            await #expect(throws: KithError(.closed, "")) {
                try await pair.client.connect(to: DeviceKey().id, at: pair.server.localAddresses)
            }
            await pair.client.shutdown()
            #expect(await pair.incoming.closed().origin == .remote)
            await #expect(throws: KithError(.closed, "")) { try await far.read(upTo: 1) }
        }
    }

    @Test func `a restarted device replaces its old connection`() async throws {
        let key = DeviceKey()
        try await withEndpoint { server in
            try await Cable.to(server.localAddresses[0]) { cable, address in
                try await withEndpoint(key: key) { first in
                    let old = try await first.connect(to: server.id, at: [address])
                    let oldFar = try await next(server.established)
                    cable.cut()
                    try await withEndpoint(key: key) { second in
                        let new = try await second.connect(to: server.id, at: server.localAddresses)
                        let newFar = try await next(server.established)
                        #expect(oldFar !== newFar)
                        #expect(server.connection(to: key.id) === newFar)
                        #expect(new.isOpen && old.isOpen)
                    }
                }
            }
        }
    }

    @Test func `a stream that a restarted device never saw says so`() async throws {
        let key = DeviceKey()
        var options = Endpoint.Options()
        options.bindAddresses = [Family.v4.loopback]
        let first = try await Endpoint.bind(key: key, options: options, logger: Logger(label: "test"))
        options.bindAddresses = first.localAddresses
        try await withEndpoint { [options] client in
            try await Cable.to(first.localAddresses[0]) { cable, address in
                let connection = try await client.connect(to: key.id, at: [address])
                let seen = try await connection.openStream()
                try await seen.write([1])
                let far = try await next(try await next(first.established).incomingStreams)
                #expect(try await far.read(upTo: 1) == [1])
                try await far.write([1])
                #expect(try await seen.read(upTo: 1) == [1])
                cable.cut()
                await first.shutdown()
                try await withEndpoint(key: key, options) { _ in
                    cable.mend()
                    let unseen = try await connection.openStream()
                    try await unseen.write([2])
                    await #expect(throws: KithError(.closed, "")) { try await unseen.read(upTo: 1) }
                    #expect(unseen.isUndelivered)
                    #expect(!seen.isUndelivered)
                }
            }
        }
    }

    @Test func `a peer is told when there are too many connections`() async throws {
        var options = Endpoint.Options()
        options.maxConnections = 1
        try await withPair(serverOptions: options) { pair in
            let server = pair.server
            try await withEndpoint { late in
                let connection = try await late.connect(to: server.id, at: server.localAddresses)
                #expect(await connection.closed().code == .exhausted)
                #expect(pair.incoming.isOpen)
            }
        }
    }

    @Test func `a caller is told at once when its own device has too many connections`() async throws {
        var options = Endpoint.Options()
        options.maxConnections = 1
        try await withPair(clientOptions: options) { pair in
            try await withEndpoint { other in
                // The time for dialing is no way out: the test would not end.
                await #expect(throws: KithError(.exhausted, "")) {
                    _ = try await pair.client.connect(
                        to: other.id, at: other.localAddresses, timeout: .seconds(86_400))
                }
                // Whether its handshake was complete or not when it was told.
                try await eventually { other.connections.isEmpty }
                #expect(pair.outgoing.isOpen)
            }
        }
    }
}
