import KithIO
import KithIdentity
import KithQUIC
import KithWire
import Logging
import NIOCore
import Synchronization
import Testing

@testable import KithNet

/// Whose handshakes take as long as a busy machine lets them.
private let unhurried: Endpoint.Options = {
    var options = Endpoint.Options()
    options.handshakeTimeout = .seconds(100)
    return options
}()

/// Connections that resume a session (RFC 9001 §4.5, §4.6), over real sockets.
@Suite(.timeLimit(.minutes(4))) struct EarlyConnectionTests {
    /// Connects once, so that the client holds a ticket, and ends the connection.
    private func acquaint(_ client: Endpoint, with server: Endpoint, at address: NetworkAddress) async throws {
        let connection = try await client.connect(to: server.id, at: [address])
        while await client.ticketAddress(of: server.id) == nil { await Task.yield() }
        let other = try await next(server.established)
        connection.close()
        _ = await other.closed()
    }

    @Test func `a peer from before is asked in the first flight, and answers before the handshake is complete`()
        async throws
    {
        try await withEndpoint(.v4, unhurried) { server in
            try await withEndpoint(.v4, unhurried) { client in
                try await Cable.to(server.localAddresses[0]) { cable, address in
                    try await acquaint(client, with: server, at: address)
                    // The server is heard by nobody, so that all the client has is what it remembers.
                    cable.hold()
                    let near = try await client.connectEarly(to: server.id, at: [address])
                    #expect(!near.isHandshakeComplete)
                    #expect(near.peerID == server.id)
                    #expect(client.connection(to: server.id) == nil)
                    let question = try await near.openStream()
                    try await question.write(Array("ls".utf8))
                    try await question.finish()

                    let far = try await next(server.established)
                    let heard = try await next(far.incomingStreams)
                    #expect(heard.isEarly)
                    #expect(try await heard.readAll() == Array("ls".utf8))
                    #expect(far.peerID == client.id && !far.isHandshakeComplete)
                    // Nobody is taken for connected by what may be a repetition.
                    #expect(server.connection(to: client.id) == nil && server.connections.isEmpty)
                    try await heard.write(Array("a b c".utf8))
                    try await heard.finish()
                    // The client's Finished never comes: the answer arrives all the same.
                    cable.release(deafens: true)
                    #expect(try await question.readAll() == Array("a b c".utf8))
                    #expect(!far.isHandshakeComplete)
                    #expect(await near.handshakeCompleted())
                    #expect(client.connection(to: server.id) === near)

                    cable.release(deafens: false)
                    try #require(await far.handshakeCompleted())
                    while server.connection(to: client.id) !== far { await Task.yield() }
                    let later = try await near.openStream()
                    try await later.write([1])
                    let second = try await next(far.incomingStreams)
                    #expect(!second.isEarly)
                    // The resumed session gave a ticket for the next time.
                    while await client.ticketAddress(of: server.id) == nil { await Task.yield() }
                }
            }
        }
    }

    @Test func `what a peer with certificates asks early waits until its handshake is complete`() async throws {
        var options = Endpoint.Options()
        options.foreign = .acceptCertificates
        options.adjust = { configuration in
            configuration.credentials.removeAll { if case .rawPublicKey = $0 { true } else { false } }
        }
        try await withEndpoint(.v4, options) { server in
            try await withEndpoint(.v4, options) { client in
                for isEarly in [false, true] {
                    let near = try await client.connectForeign(at: server.localAddresses, isEarly: isEarly)
                    let question = try await near.openStream()
                    try await question.write([7])
                    try await question.finish()
                    let far = try await next(server.established)
                    #expect(far.isHandshakeComplete && far.peerID == nil)
                    let heard = try await next(far.incomingStreams)
                    #expect(try await heard.readAll() == [7])
                    try await heard.finish()
                    #expect(try await question.readAll() == [])
                    #expect(await near.statistics().isEarlyDataAccepted == isEarly)
                    #expect(await far.statistics().isResumed == isEarly)
                    near.close()
                    _ = await (near.closed(), far.closed())
                }
            }
        }
    }

    @Test func `a restarted peer knows the ticket no more, and gets the question after a full handshake`() async throws
    {
        let key = DeviceKey()
        try await withEndpoint { client in
            var options = Endpoint.Options()
            let first = try await Endpoint.bind(key: key, options: loopback(options), logger: Logger(label: "test"))
            try await acquaint(client, with: first, at: first.localAddresses[0])
            options.port = first.port
            await first.shutdown()
            try await withEndpoint(.v4, key: key, loopback(options)) { second in
                let near = try await client.connectEarly(to: key.id, at: second.localAddresses)
                let question = try await near.openStream()
                try await question.write([7, 7])
                try await question.finish()
                let far = try await next(second.established)
                let heard = try await next(far.incomingStreams)
                #expect(!heard.isEarly && far.isHandshakeComplete)
                #expect(try await heard.readAll() == [7, 7])
            }
        }
    }

    @Test func `a restarted client asks in the first flight with what was kept of the time before`() async throws {
        let key = DeviceKey()
        try await withEndpoint { server in
            var options = loopback(Endpoint.Options())
            let first = try await Endpoint.bind(key: key, options: options, logger: Logger(label: "test"))
            try await acquaint(first, with: server, at: server.localAddresses[0])
            await first.shutdown()
            options.sessionCache = await first.takeSessionCache()
            #expect(await first.takeSessionCache().count < options.sessionCache.count)
            try await withEndpoint(.v4, key: key, options) { second in
                let near = try await second.connectEarly(to: server.id, at: server.localAddresses)
                let question = try await near.openStream()
                try await question.write([7, 7])
                try await question.finish()
                let far = try await next(server.established)
                let heard = try await next(far.incomingStreams)
                #expect(try await heard.readAll() == [7, 7])
                #expect(far.peerID == key.id)
                #expect(await near.handshakeCompleted())
                // The server may have heard the question after the handshake, which takes no time here.
                let statistics = await near.statistics()
                #expect(statistics.isResumed && statistics.isEarlyDataAccepted)
            }
        }
    }

    @Test func `what is kept is one ticket and token of each device, for two days`() throws {
        let place = NetworkAddress(ipv4: (10, 0, 0, 1), port: 1)
        let peers = (0..<3).map { _ in Dial.Target.device(DeviceKey().id) }
        let tickets = try (0..<2).map { number in
            try #require(SessionTicket([1, 0, 0, 0, 1, 0, 0] + [UInt8](repeating: UInt8(number), count: 40)))
        }
        func memory() -> SessionCache {
            var sessionCache = SessionCache(limit: 4)
            for peer in peers + [.foreign(serverName: "a.test")] {
                for ticket in tickets { sessionCache.remember(ticket: ticket, of: peer, at: place) }
                sessionCache.remember(token: [1], of: peer, at: place)
            }
            return sessionCache
        }
        func restored(_ bytes: [UInt8], at time: Int64, limit: Int = 4) -> SessionCache {
            var fresh = SessionCache(limit: limit)
            fresh.restore(bytes, at: time)
            return fresh
        }
        var full = memory()
        let kept = full.takeAll(at: 1_000)
        #expect(full.count == 0)
        var fresh = restored(kept, at: 1_000 + SessionCache.lifetime - 1)
        #expect(fresh.count == 3)
        let taken = fresh.take(for: peers[0], at: place)
        #expect(taken.ticket == tickets[1] && taken.token == [1])
        #expect(fresh.take(for: peers[0], at: place).ticket == nil)
        // Those used last, where there is room for fewer.
        let few = restored(kept, at: 1_000, limit: 2)
        #expect(few.count == 2 && few.address(of: peers[0]) == nil && few.address(of: peers[2]) == place)
        #expect(restored(kept, at: 1_000 + SessionCache.lifetime).count == 0)
        #expect(restored(kept, at: 999).count == 0)
        #expect(restored(Array(kept.dropLast()), at: 1_000).count == 0)
        #expect(restored([], at: 1_000).count == 0)
    }

    private func loopback(_ options: Endpoint.Options) -> Endpoint.Options {
        var options = options
        options.bindAddresses = [NetworkAddress(ipv4: (127, 0, 0, 1), port: options.port)]
        return options
    }

    @Test func `a device that is not admitted any more gets in by no ticket`() async throws {
        try await withAdmission { allow, options in
            try await withEndpoint(.v4, options) { server in
                try await withEndpoint { client in
                    try await acquaint(client, with: server, at: server.localAddresses[0])
                    allow.withLock { $0 = false }
                    let near = try await client.connectEarly(to: server.id, at: server.localAddresses)
                    await #expect(throws: KithError(.unpaired, "")) {
                        let question = try await near.openStream()
                        try await question.write([1])
                        _ = try await question.readAll()
                    }
                    #expect(await near.handshakeCompleted() == false)
                    #expect(server.connections.isEmpty)
                    await server.shutdown()
                    // Nothing was ever offered to whoever serves.
                    var connections = server.established.makeAsyncIterator()
                    #expect(await connections.next() == nil)
                }
            }
        }
    }

    private func withAdmission(_ body: (Admission, Endpoint.Options) async throws -> Void) async throws {
        let admission = Admission()
        var options = Endpoint.Options()
        options.admit = { _, _ in admission.withLock { $0 } ? .full : .refused }
        try await body(admission, options)
    }

    /// Whether devices are let in.
    private final class Admission: Sendable {
        private let isOpen = Mutex(true)
        func withLock<Result: Sendable>(_ body: (inout sending Bool) -> sending Result) -> Result {
            isOpen.withLock(body)
        }
    }

    @Test func `without early data a connection is there when its handshake is complete`() async throws {
        var options = Endpoint.Options()
        options.earlyData = false
        for isServer in [true, false] {
            try await withEndpoint(.v4, isServer ? options : Endpoint.Options()) { server in
                try await withEndpoint(.v4, isServer ? Endpoint.Options() : options) { client in
                    try await acquaint(client, with: server, at: server.localAddresses[0])
                    let near = try await client.connectEarly(to: server.id, at: server.localAddresses)
                    let far = try await next(server.established)
                    #expect(await near.handshakeCompleted())
                    let stream = try await near.openStream()
                    try await stream.write([3])
                    #expect(try await !next(far.incomingStreams).isEarly)
                }
            }
        }
    }

    @Test func `an early question to nobody fails when its time is up`() async throws {
        try await withEndpoint { client in
            let address = try await withEndpoint { server in
                try await acquaint(client, with: server, at: server.localAddresses[0])
                return (server.id, server.localAddresses[0])
            }
            // A port where nobody answers, and nobody says so.
            try await withSilence(at: address.1) {
                let near = try await client.connectEarly(
                    to: address.0, at: [address.1], timeout: .milliseconds(300))
                await #expect(throws: KithError(.timedOut, "")) {
                    let question = try await near.openStream()
                    try await question.write([1])
                    _ = try await question.readAll()
                }
                #expect(await near.handshakeCompleted() == false)
            }
        }
    }

    private func withSilence(at address: NetworkAddress, _ body: () async throws -> Void) async throws {
        try await Cable.to(address, port: address.port) { cable, _ in
            cable.cut()
            try await body()
        }
    }

    @Test func `what peers gave is bounded, used once, and good for one place`() throws {
        var sessionCache = SessionCache(limit: 2)
        let here = NetworkAddress(ipv4: (10, 0, 0, 1), port: 1)
        let there = NetworkAddress(ipv4: (10, 0, 0, 2), port: 1)
        let peers = (0..<3).map { _ in Dial.Target.device(DeviceKey().id) }
        let tickets = (0..<6).map { number in
            SessionTicket([1, 0, 0, 0, 1, 0, 0] + [UInt8](repeating: UInt8(number), count: 40))
        }
        for ticket in tickets { sessionCache.remember(ticket: try #require(ticket), of: peers[0], at: here) }
        for number in 0..<3 as Range<UInt8> { sessionCache.remember(token: [number], of: peers[0], at: here) }
        #expect(sessionCache.address(of: peers[0]) == here)
        #expect(sessionCache.take(for: peers[0], at: there).ticket == nil)
        var taken: [SessionTicket?] = []
        for _ in 0..<5 { taken.append(sessionCache.take(for: peers[0], at: here).ticket) }
        // The newest first, the four newest at all.
        #expect(taken == [tickets[5], tickets[4], tickets[3], tickets[2], nil])
        #expect(sessionCache.address(of: peers[0]) == nil)
        sessionCache.remember(token: [9], of: peers[0], at: there)
        #expect(sessionCache.take(for: peers[0], at: there).token == [9])
        // The longest unused gives way.
        sessionCache.remember(token: [1], of: peers[1], at: here)
        sessionCache.remember(token: [2], of: peers[2], at: here)
        #expect(sessionCache.count == 2)
        #expect(sessionCache.take(for: peers[2], at: here).token == [2])
        sessionCache.forget(peers[1])
        #expect(sessionCache.count == 1)
    }
}

extension Endpoint {
    /// Where the session with `peer` can be resumed, as the event loop knows.
    fileprivate func ticketAddress(of peer: DeviceID) async -> NetworkAddress? {
        let answer = Promise<NetworkAddress?>()
        let driver = self.driver
        driver.loop.execute { answer.fulfil(driver.sessionCache.address(of: .device(peer))) }
        return await answer.value()
    }
}
