import KithIdentity
import KithQUIC
import KithReach
import KithRelayServer
import KithTesting
import KithWire
import Logging
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import KithNet

/// A relay by QUIC and by TCP, and its clients, over real sockets.
@Suite("The relay over QUIC", .timeLimit(.minutes(4))) struct RelayQUICTests {
    private static let silent = Logger(label: "test", factory: SwiftLogNoOpLogHandler.init)
    private static let loopback = NetworkAddress(ipv4: (127, 0, 0, 1), port: 0)

    /// Runs a relay on free ports while `body` does.
    private func withRelay(
        key: DeviceKey = DeviceKey(), change: (inout RelayServerOptions) -> Void = { _ in },
        _ body: (RelayServer, RelayAddress) async throws -> Void
    ) async throws {
        var options = RelayServerOptions(address: Self.loopback)
        options.loops = 1
        (options.quicAddress, options.quicKey, options.requiresQUIC) = (Self.loopback, key, true)
        // A busy machine lets datagrams wait.
        options.queue.age = .seconds(60)
        change(&options)
        let server = try await RelayServer.open(options, logger: Self.silent)
        let scheme = options.identity == nil ? "http" : "https"
        do {
            try await body(server, try #require(RelayAddress("\(scheme)://\(server.address)#\(key.id)")))
        } catch {
            await server.close()
            throw error
        }
        await server.close()
    }

    private func connected(
        _ address: RelayAddress, key: DeviceKey = DeviceKey(), token: String? = nil,
        change: (inout RelayClient.Options) -> Void = { _ in }
    ) async -> ObservedClient {
        let client = ObservedClient(address, key: key, token: token) {
            $0.queue.age = .seconds(60)
            change(&$0)
        }
        client.client.connect()
        await client.connected()
        return client
    }

    private func value(_ name: String, of server: RelayServer) -> Int {
        server.metrics.split(separator: "\n").first { $0.hasPrefix("kith_relay_\(name) ") }?
            .split(separator: " ").last.flatMap { Int($0) } ?? -1
    }

    /// The bytes of datagrams that come from a device, until there are `count`; small ones are passed over.
    private func bytes(_ count: Int, of device: DeviceID, at client: ObservedClient) async -> [UInt8] {
        var all: [UInt8] = []
        while all.count < count {
            guard
                case .received(let datagrams, from: device)? = await client.next({
                    if case .received(_, from: device) = $0 { true } else { false }
                })
            else { break }
            if datagrams.contents.count <= 3 { continue }
            all += datagrams.contents
        }
        return all
    }

    // MARK: - Meeting

    @Test func `clients by QUIC and by TCP meet, single datagrams and batches`() async throws {
        try await withRelay { server, address in
            let (one, two, three) = (DeviceKey(), DeviceKey(), DeviceKey())
            let first = await connected(address, key: one) { $0.headStart = .seconds(60) }
            let second = await connected(address, key: two) { $0.usesQUIC = false }
            let third = await connected(address, key: three) { $0.headStart = .seconds(60) }
            #expect(first.client.carrier == .quic && third.client.carrier == .quic && second.client.carrier == .tcp)
            try await eventually { value("quic_clients", of: server) == 2 && value("clients", of: server) == 3 }
            for (from, to, key, sender) in [
                (first, second, two, one), (second, first, one, two), (first, third, three, one),
            ] {
                #expect(
                    await from.send([1, 2, 3], segmentSize: 3, to: to, of: key.id)
                        == .received(RelayedDatagrams([1, 2, 3]), from: sender.id))
            }
            // Three datagrams in one; the loopback keeps their order.
            let batch = (0..<3_000).map { UInt8(truncatingIfNeeded: $0 / 7) }
            for (from, to, key, sender) in [
                (second, first, one, two), (first, second, two, one), (third, first, one, three),
            ] {
                from.client.send(batch, segmentSize: 1_100, to: key.id)
                #expect(await bytes(3_000, of: sender.id, at: to) == batch)
            }
            let absent = DeviceKey().id
            #expect(
                await first.send([9], segmentSize: 1, to: first, of: absent) {
                    if case .gone = $0 { true } else { false }
                } == .gone(absent))
            // Who leaves is told to those it sent to, whatever carries either.
            await second.client.close()
            #expect(await first.next { $0 == .gone(two.id) } == .gone(two.id))
            await first.client.close()
            await third.client.close()
            try await eventually { server.clientCount == 0 && value("quic_clients", of: server) == 0 }
        }
    }

    @Test func `connections of devices go through it, and find the size of its datagrams`() async throws {
        try await withRelay { _, address in
            let (one, two) = (DeviceKey(), DeviceKey())
            try await withEndpoint(key: one) { server in
                try await withEndpoint(key: two) { client in
                    let near = await link(3, of: two, client, to: address)
                    let far = await link(5, of: one, server, to: address)
                    let outgoing = try await client.connect(to: server.id, at: [], through: [3])
                    let incoming = try await next(server.established)
                    let stream = try await outgoing.openStream()
                    let reader = Task { try await next(incoming.incomingStreams).readDigest() }
                    let digest = try await stream.writeSeeded(4_000_000, seed: 7)
                    let read = try await reader.value
                    #expect(read.count == 4_000_000 && read.digest == digest)
                    // A frame of the link holds 1386 bytes; sizes within 8 bytes of that are not looked for.
                    try await eventually { await outgoing.statistics().udpPayloadSize > 1_370 }
                    #expect(await outgoing.statistics().udpPayloadSize <= 1_386)
                    for link in [near, far] {
                        #expect(link.client.carrier == .quic)
                        await link.client.close()
                    }
                }
            }
        }
    }

    /// A link of an endpoint to a relay, once it is open.
    private func link(
        _ number: UInt32, of key: DeviceKey, _ endpoint: Endpoint, to relay: RelayAddress
    ) async -> RelayLink {
        let (states, feed) = AsyncStream.makeStream(of: RelayClient.State.self)
        var options = RelayClient.Options(relay)
        options.headStart = .seconds(60)
        let link = RelayLink(
            number: number, key: key, options: options, endpoint: endpoint,
            on: MultiThreadedEventLoopGroup.singleton.next()
        ) { feed.yield($0) }
        link.client.connect()
        for await state in states { if case .connected = state { break } }
        endpoint.add(link)
        return link
    }

    /// Waits until a client has a ticket of its relay for the next session.
    private func ticket(of relay: DeviceID, at endpoint: Endpoint) async throws {
        let driver = endpoint.driver
        try await eventually {
            try await driver.loop.eventLoop.submit {
                var isThere = false
                driver.loop.withLock { isThere = driver.sessionCache.address(of: .device(relay)) != nil }
                return isThere
            }.get()
        }
    }

    @Test func `a device that comes again is let in with its first flight`() async throws {
        try await withRelay { server, address in
            let client = await connected(address) { $0.headStart = .seconds(60) }
            let endpoint = try #require(await self.endpoint(of: client))
            let first = try #require(endpoint.connections.first)
            #expect(await !first.statistics().isResumed)
            try await ticket(of: try #require(server.quicKey), at: endpoint)
            first.close()
            try await eventually { endpoint.connections.first.map { $0 !== first } ?? false }
            let second = try #require(endpoint.connections.first)
            #expect(await second.handshakeCompleted())
            let statistics = await second.statistics()
            #expect(statistics.isResumed && statistics.isEarlyDataAccepted)
            try await eventually { value("quic_accepted_total", of: server) == 2 && client.client.carrier == .quic }
            await client.client.close()
        }
    }

    @Test func `a first flight, which anybody may repeat, puts nobody at the relay`() async throws {
        try await withRelay {
            $0.quicAddress = NetworkAddress(ipv4: (127, 0, 0, 2), port: 0)
        } _: { server, address in
            try await Cable.to(try #require(server.quicAddress), at: server.address) { cable, _ in
                let client = await connected(address) { $0.headStart = .seconds(60) }
                let endpoint = try #require(await self.endpoint(of: client))
                try await ticket(of: try #require(server.quicKey), at: endpoint)
                // From here on the relay has what an eavesdropper could send as well, and its answers go nowhere.
                cable.hold()
                try #require(endpoint.connections.first).close()
                try await eventually { server.clientCount == 0 }
                let before = cable.heldCount
                try await eventually { cable.heldCount > before }
                #expect(value("accepted_total", of: server) == 1 && server.clientCount == 0)
                cable.release(deafens: false)
                try await eventually { value("accepted_total", of: server) == 2 }
                await client.client.close()
            }
        }
    }

    // MARK: - Which carrier

    private func endpoint(of client: ObservedClient) async -> Endpoint? {
        let box = client.client.driver
        return try? await client.client.eventLoop.submit { box.value?.dialer?.endpoint }.get()
    }

    @Test func `where nobody answers by UDP the WebSocket is used, and QUIC as soon as somebody does`() async throws {
        // The relay's UDP port is that of another address; the cable stands where clients look.
        try await withRelay {
            $0.quicAddress = NetworkAddress(ipv4: (127, 0, 0, 2), port: 0)
        } _: { server, address in
            let quic = try #require(server.quicAddress)
            try await Cable.to(quic, at: server.address) { cable, _ in
                cable.cut()
                let (one, two) = (DeviceKey(), DeviceKey())
                let client = await connected(address, key: one) {
                    $0.headStart = .milliseconds(50)
                    $0.probeInterval = .milliseconds(50)
                    $0.openingTime = .milliseconds(1_500)
                    // A busy machine may answer late, which is not what this is about.
                    $0.keepAlive.firstAnswer = .seconds(60)
                    $0.keepAlive.answer = .seconds(60) ... .seconds(60)
                }
                #expect(client.client.carrier == .tcp)
                let other = await connected(address, key: two) { $0.usesQUIC = false }
                #expect(
                    await client.send([1], segmentSize: 1, to: other, of: two.id)
                        == .received(RelayedDatagrams([1]), from: one.id))
                cable.mend()
                // It stays connected all the while.
                let wasLost = await client.next { event in
                    if case .state(let state) = event, case .connected = state { return client.client.carrier == .quic }
                    if case .state = event { return true }
                    return false
                }
                #expect(wasLost.map { if case .state(.connected) = $0 { true } else { false } } == true)
                #expect(client.client.carrier == .quic)
                #expect(
                    await client.send([2], segmentSize: 1, to: other, of: two.id)
                        == .received(RelayedDatagrams([2]), from: one.id))
                #expect(
                    await other.send([3], segmentSize: 1, to: client, of: one.id)
                        == .received(RelayedDatagrams([3]), from: two.id))
                await client.client.close()
                await other.client.close()
            }
        }
    }

    @Test func `where the UDP port is closed the WebSocket does not wait its time`() async throws {
        try await withRelay {
            $0.quicAddress = nil
        } _: { _, address in
            let client = await connected(address) { $0.headStart = .seconds(600) }
            #expect(client.client.carrier == .tcp)
            await client.client.close()
        }
    }

    @Test func `a relay with another key than its URL names is refused by either carrier`() async throws {
        let (key, other) = (DeviceKey(), DeviceKey())
        try await withRelay(key: key) {
            $0.identity = key
        } _: { server, address in
            let right = await connected(address) { $0.headStart = .seconds(60) }
            #expect(right.client.carrier == .quic)
            await right.client.close()
            let pinned = await connected(address) { $0.usesQUIC = false }
            #expect(pinned.client.carrier == .tcp)
            await pinned.client.close()
            let wrong = ObservedClient(try #require(RelayAddress("https://\(server.address)#\(other.id)")))
            wrong.client.connect()
            #expect(await wrong.waiting() == "it proved the key \(key.id), not the expected \(other.id)")
            #expect(wrong.client.carrier == nil)
            await wrong.client.close()
        }
    }

    @Test func `a relay that proves another key is not used over plain TCP, however often it is tried`() async throws {
        let (key, other) = (DeviceKey(), DeviceKey())
        try await withRelay(key: key) { server, _ in
            let address = try #require(RelayAddress("http://\(server.address)#\(other.id)"))
            // TCP is not slower than QUIC here.
            let client = ObservedClient(address) { ($0.headStart, $0.longestPause) = (.zero, .milliseconds(10)) }
            client.client.connect()
            for _ in 0..<3 {
                #expect(await client.waiting() == "it proved the key \(key.id), not the expected \(other.id)")
            }
            #expect(client.client.carrier == nil)
            await client.client.close()
        }
    }

    // MARK: - Who may

    @Test func `the token is shown in the hello, and a refusal says why`() async throws {
        try await withRelay {
            $0.access = RelayAccess(tokens: ["right"])
        } _: { server, address in
            for (token, reason) in [
                (String?.none, "this relay wants a token"), ("wrong", "this relay does not know the token"),
            ] {
                let client = ObservedClient(address, token: token) { $0.headStart = .seconds(60) }
                client.client.connect()
                #expect(
                    await client.next { if case .state(.denied) = $0 { true } else { false } }
                        == .state(.denied(reason: reason)))
                await client.client.close()
            }
            let client = await connected(address, token: "right") { $0.headStart = .seconds(60) }
            #expect(client.client.carrier == .quic)
            #expect(value("denied_total", of: server) == 2)
            await client.client.close()
        }
    }

    @Test func `who is over the rate is told once, and what is too much is dropped`() async throws {
        try await withRelay {
            $0.rate = 10_000
        } _: { server, address in
            let (one, two) = (DeviceKey(), DeviceKey())
            let sender = await connected(address, key: one) { $0.headStart = .seconds(60) }
            let receiver = await connected(address, key: two) { $0.headStart = .seconds(60) }
            let status = await sender.send(
                [UInt8](repeating: 1, count: 40_000), segmentSize: 1_000, to: sender, of: two.id
            ) { $0 == .status(.rateLimited) }
            #expect(status == .status(.rateLimited))
            #expect(value("rate_limited_total", of: server) > 0)
            #expect(value("sent_bytes_total", of: server) < 200_000)
            await sender.client.close()
            await receiver.client.close()
        }
    }

    @Test func `who sends far more small datagrams than it may is closed, and others meet`() async throws {
        try await withRelay {
            $0.frameRate = 1
        } _: { server, address in
            let (one, two, three) = (DeviceKey(), DeviceKey(), DeviceKey())
            let sender = await connected(address, key: one) { $0.headStart = .seconds(60) }
            let receiver = await connected(address, key: two) { $0.headStart = .seconds(60) }
            // Each goes in a frame of its own.
            _ = await sender.send([UInt8](repeating: 1, count: 40), segmentSize: 1, to: sender, of: two.id) {
                if case .state(.waiting) = $0 { true } else { false }
            }
            #expect(value("floods_total", of: server) > 0)
            // Large ones are free of that, and so is whoever sends few.
            let other = await connected(address, key: three) { $0.headStart = .seconds(60) }
            let large = [UInt8](repeating: 2, count: 1_100)
            #expect(
                await other.send(large, segmentSize: 1_100, to: receiver, of: two.id) {
                    $0 == .received(RelayedDatagrams(large), from: three.id)
                } != nil)
            for client in [sender, receiver, other] { await client.client.close() }
        }
    }

    @Test func `a frame of many short datagrams is not cut up for a client by QUIC`() async throws {
        try await withRelay { server, address in
            let (one, two) = (DeviceKey(), DeviceKey())
            let sender = await connected(address, key: one) { $0.usesQUIC = false }
            let receiver = await connected(address, key: two) { $0.headStart = .seconds(60) }
            sender.client.send([UInt8](repeating: 1, count: 3_000), segmentSize: 1, to: two.id)
            guard
                case .received(let datagrams, from: one.id)? =
                    await sender.send([7, 8], segmentSize: 1, to: receiver, of: two.id)
            else { throw KithError(.internal, "nothing was received") }
            #expect(datagrams.contents.first == 7)
            #expect(value("dropped_short_total", of: server) == 1)
            #expect(value("sent_bytes_total", of: server) < 3_000)
            await sender.client.close()
            await receiver.client.close()
        }
    }

    // MARK: - What may happen

    @Test func `the link survives another port and address of the client`() async throws {
        try await withRelay { server, address in
            let (one, two) = (DeviceKey(), DeviceKey())
            let client = await connected(address, key: one) { $0.headStart = .seconds(60) }
            let other = await connected(address, key: two) { $0.headStart = .seconds(60) }
            let endpoint = try #require(await endpoint(of: client))
            for host in 2...4 {
                try await endpoint.rebind(to: [NetworkAddress(ipv4: (127, 0, 0, UInt8(host)), port: 0)])
                #expect(
                    await client.send([UInt8(host)], segmentSize: 1, to: other, of: two.id)
                        == .received(RelayedDatagrams([UInt8(host)]), from: one.id))
                #expect(
                    await other.send([7], segmentSize: 1, to: client, of: one.id)
                        == .received(RelayedDatagrams([7]), from: two.id))
            }
            // The same connection all along.
            #expect(value("accepted_total", of: server) == 2)
            await client.client.close()
            await other.client.close()
        }
    }

    @Test func `clients of a relay that restarts come back when they are told to`() async throws {
        let key = DeviceKey()
        var options = RelayServerOptions(address: Self.loopback)
        (options.loops, options.quicAddress, options.quicKey, options.requiresQUIC) = (1, Self.loopback, key, true)
        let server = try await RelayServer.open(options, logger: Self.silent)
        let address = try #require(RelayAddress("http://\(server.address)#\(key.id)"))
        let client = await connected(address) {
            $0.headStart = .seconds(60)
            $0.probeInterval = .milliseconds(50)
        }
        #expect(client.client.carrier == .quic)
        options.address = server.address
        await server.restart()
        #expect(await client.next { $0 == .state(.restarting) } == .state(.restarting))
        let again = try await RelayServer.open(options, logger: Self.silent)
        await client.connected()
        // It listens on TCP a moment sooner.
        try await eventually { client.client.carrier == .quic }
        await client.client.close()
        await again.close()
    }

    @Test func `a link that falls silent is given up`() async throws {
        try await withRelay {
            $0.quicAddress = NetworkAddress(ipv4: (127, 0, 0, 2), port: 0)
        } _: { server, address in
            try await Cable.to(try #require(server.quicAddress), at: server.address) { cable, _ in
                let client = await connected(address) {
                    $0.headStart = .seconds(60)
                    $0.keepAlive.answer = .milliseconds(300) ... .milliseconds(300)
                }
                #expect(client.client.carrier == .quic)
                cable.cut()
                let reason = Task { await client.waiting() }
                // Something has to be sent: a link that is idle is not looked after so soon.
                client.client.send([1], segmentSize: 1, to: DeviceKey().id)
                #expect(await reason.value == "it does not answer")
                await client.client.close()
            }
        }
    }

    @Test func `a client that does not read holds up nobody, and what waits for it is bounded`() async throws {
        try await withRelay {
            $0.quicAddress = NetworkAddress(ipv4: (127, 0, 0, 2), port: 0)
            $0.queue.bytes = 20_000
        } _: { server, address in
            let (slow, sender, other) = (DeviceKey(), DeviceKey(), DeviceKey())
            try await Cable.to(try #require(server.quicAddress), at: server.address) { cable, _ in
                let deaf = await connected(address, key: slow) { $0.headStart = .seconds(60) }
                cable.cut()
                let (place, relay) = (try #require(server.quicAddress), try #require(server.quicKey))
                let direct = try #require(RelayAddress("http://\(place)#\(relay)"))
                let from = await connected(direct, key: sender) { $0.headStart = .seconds(60) }
                let to = await connected(direct, key: other) { $0.headStart = .seconds(60) }
                let flood = [UInt8](repeating: 3, count: 50_000)
                var dropped = 0
                // Until the window of whoever does not acknowledge is full, and so is the queue.
                while dropped == 0 {
                    from.client.send(flood, segmentSize: 1_000, to: slow.id)
                    #expect(
                        await from.send([5], segmentSize: 1, to: to, of: other.id)
                            == .received(RelayedDatagrams([5]), from: sender.id))
                    dropped = value("dropped_full_total", of: server)
                }
                #expect(dropped > 0)
                for client in [deaf, from, to] { await client.client.close() }
            }
        }
    }

    // MARK: - Attacks

    /// A client of its own making: a connection to the relay, and what it says.
    private func withRaw(
        _ server: RelayServer, _ options: Endpoint.Options? = nil, _ body: (Connection) async throws -> Void
    ) async throws {
        var own = options ?? Endpoint.Options()
        own.alpn = [RelayQUIC.alpn]
        try await withEndpoint(.v4, own) { endpoint in
            let address = try #require(server.quicAddress)
            try await body(try await endpoint.connect(to: try #require(server.quicKey), at: [address]))
        }
    }

    @Test func `whoever breaks the protocol is disconnected, and only they`() async throws {
        try await withRelay { server, address in
            let key = DeviceKey()
            let client = await connected(address, key: key) { $0.headStart = .seconds(60) }
            let hello = RelayStreamMessage.hello(token: nil).bytes
            let streams: [[UInt8]] = [
                [0, 0], [0xFF, 0xFF, 14], [0, 1, 9], hello + hello, hello + [0, 1, 2], [0, 3, 14, 0xFF, 0xFE],
                hello + RelayStreamMessage.framed([4] + key.id.bytes + [9, 1]),
                RelayStreamMessage.framed(RelayFrame.send(to: key.id, RelayedDatagrams([1])).bytes),
            ]
            for bytes in streams {
                try await withRaw(server) { connection in
                    let stream = try await connection.openStream()
                    try await stream.write(bytes)
                    let reason = await connection.closed()
                    #expect(reason.origin == .remote && reason.code == .invalid, "\(bytes.prefix(40)): \(reason)")
                    // Letting go of it would end it before the relay has read it.
                    withExtendedLifetime(stream) {}
                }
            }
            let frame = RelayFrame.send(to: key.id, RelayedDatagrams([1])).bytes
            let (front, rest): ([UInt8], [UInt8]) = (Array(frame[1..<33]), Array(frame.dropFirst()))
            let datagrams: [[UInt8]] = [
                [], [4], Array(frame.dropLast()), [6] + rest, [14, 1], [4] + front + [4, 1],
                [5] + front + [0, 0, 0, 1],
            ]
            for bytes in datagrams {
                try await withRaw(server) { connection in
                    let stream = try await connection.openStream()
                    try await stream.write(hello)
                    #expect(try await stream.read(upTo: 100) == RelayStreamMessage.frame(.confirmed).bytes)
                    try connection.sendDatagram(bytes)
                    let reason = await connection.closed()
                    #expect(reason.origin == .remote && reason.code == .invalid, "\(bytes.prefix(40)): \(reason)")
                }
            }
            // The end of the stream is the end; a second one is not allowed.
            try await withRaw(server) { connection in
                try await connection.openStream().finish(writing: hello)
                #expect(await connection.closed().origin == .remote)
            }
            #expect(value("protocol_errors_total", of: server) == streams.count + datagrams.count)
            #expect(
                await client.send([1], segmentSize: 1, to: client, of: key.id)
                    == .received(RelayedDatagrams([1]), from: key.id))
            await client.client.close()
        }
    }

    @Test func `datagrams before the hello, and after a refusal, go nowhere`() async throws {
        try await withRelay {
            $0.access = RelayAccess(tokens: ["right"])
        } _: { server, address in
            try await withRaw(server) { connection in
                let frame = RelayFrame.send(to: DeviceKey().id, RelayedDatagrams([1])).bytes
                for _ in 0..<50 { try connection.sendDatagram(frame) }
                let stream = try await connection.openStream()
                try await stream.write(RelayStreamMessage.hello(token: "wrong").bytes)
                let refusal = RelayStreamMessage.frame(.denied("this relay does not know the token")).bytes
                #expect(try await stream.read(upTo: 200) == refusal)
                for _ in 0..<50 { try? connection.sendDatagram(frame) }  // over meanwhile, perhaps
                #expect(await connection.closed().origin == .remote)
            }
            #expect(value("received_frames_total", of: server) == 0)
            #expect(server.clientCount == 0)
        }
    }

    @Test func `whoever says nothing is disconnected`() async throws {
        try await withRelay {
            $0.openingTime = 1
        } _: { server, _ in
            try await withRaw(server) { connection in #expect(await connection.closed().origin == .remote) }
            try await withRaw(server) { connection in
                // On a busy machine it may be over before it begins to speak.
                let stream = try? await connection.openStream()
                try? await stream?.write([0])
                #expect(await connection.closed().origin == .remote)
                withExtendedLifetime(stream) {}
            }
        }
    }

    @Test func `silent clients displace each other, and keep nobody out`() async throws {
        try await withRelay {
            $0.limits.halfOpen = 1
        } _: { server, address in
            try await withRaw(server) { first in
                try await withRaw(server) { second in
                    #expect(await first.closed().origin == .remote)
                    let client = await connected(address) { $0.usesQUIC = false }
                    #expect(await second.closed().origin == .remote)
                    await client.client.close()
                }
            }
        }
    }

    @Test func `one address has a bounded number of links, and gives them back`() async throws {
        try await withRelay {
            $0.limits.sockets = 2
        } _: { server, address in
            let first = await connected(address) { $0.headStart = .seconds(60) }
            let second = await connected(address) { $0.headStart = .seconds(60) }
            try await withRaw(server) { connection in
                let reason = await connection.closed()
                #expect(reason.code == .exhausted && reason.message.contains("too many connections"), "\(reason)")
            }
            #expect(value("refused_sockets_total", of: server) == 1)
            await first.client.close()
            let third = await connected(address) { $0.headStart = .milliseconds(100) }
            await second.client.close()
            await third.client.close()
        }
    }

    @Test func `a flood for devices that are not there is answered now and then only`() async throws {
        try await withRelay { server, address in
            let key = DeviceKey()
            let client = await connected(address, key: key) { $0.headStart = .seconds(60) }
            try await withRaw(server) { connection in
                let stream = try await connection.openStream()
                try await stream.write(RelayStreamMessage.hello(token: nil).bytes)
                #expect(try await stream.read(upTo: 100) == RelayStreamMessage.frame(.confirmed).bytes)
                let frame = RelayFrame.send(to: DeviceKey().id, RelayedDatagrams([UInt8](repeating: 1, count: 900)))
                    .bytes
                for _ in 0..<2_000 { try connection.sendDatagram(frame) }
                #expect(
                    await client.send([1], segmentSize: 1, to: client, of: key.id)
                        == .received(RelayedDatagrams([1]), from: key.id))
                try await eventually { value("dropped_absent_total", of: server) > 100 }
                let told = try #require(try await stream.read(upTo: 64 << 10))
                #expect(told.count <= 10 * 35)
            }
            await client.client.close()
        }
    }

    @Test func `the same key twice: the newest is active, and the other one again when that is gone`() async throws {
        try await withRelay { server, address in
            let (key, other) = (DeviceKey(), DeviceKey())
            let older = await connected(address, key: key) { $0.headStart = .seconds(60) }
            let newer = await connected(address, key: key) { $0.headStart = .seconds(60) }
            #expect(await older.next { $0 == .status(.elsewhere) } == .status(.elsewhere))
            let sender = await connected(address, key: other) { $0.usesQUIC = false }
            #expect(
                await sender.send([1], segmentSize: 1, to: newer, of: key.id)
                    == .received(RelayedDatagrams([1]), from: other.id))
            await newer.client.close()
            #expect(await older.next { $0 == .status(.healthy) } == .status(.healthy))
            #expect(
                await sender.send([2], segmentSize: 1, to: older, of: key.id)
                    == .received(RelayedDatagrams([2]), from: other.id))
            await older.client.close()
            await sender.client.close()
        }
    }
}
