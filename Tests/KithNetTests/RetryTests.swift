import KithIO
import KithIdentity
import KithQUIC
import KithWire
import NIOCore
import Testing

@testable import KithNet

/// A client that speaks through a socket of the test, so that the test decides what it says.
struct Caller: ~Copyable {
    var engine: QUICConnection

    init(to server: Endpoint) throws {
        let key = DeviceKey()
        var configuration = QUICConfiguration(credentials: [.rawPublicKey(seed: key.seed)], alpn: ["kith/1"])
        configuration.verify = { _ in true }
        // One datagram is all it takes to be unknown.
        configuration.offersPostQuantumKeyShare = false
        engine = try QUICConnection.client(configuration, remote: server.localAddresses[0], at: .now())
    }

    /// The next datagram it wants to send.
    mutating func next() throws -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: 1500)
        let transmit = buffer.withUnsafeMutableBytes { engine.nextTransmit(into: $0, at: .now()) }
        return Array(buffer.prefix(try #require(transmit).length))
    }

    mutating func receive(_ datagram: [UInt8], from server: Endpoint) {
        var bytes = datagram
        bytes.withUnsafeMutableBytes { engine.receive($0, from: server.localAddresses[0], ecn: 0, at: .now()) }
    }
}

/// Unknown clients in masses: Retry, and what a half-open handshake may cost (RFC 9000 §8.1, §21.3).
@Suite(.timeLimit(.minutes(4))) struct RetryTests {
    private func form(_ datagram: [UInt8]) -> DatagramHeader.Form? {
        datagram.withUnsafeBytes { DatagramHeader($0)?.form }
    }

    @Test func `beyond the bound clients get a Retry, and come in with its token`() async throws {
        var options = Endpoint.Options()
        // However slow this machine is just now, the first two must not be given up meanwhile.
        options.handshakeTimeout = .seconds(600)
        options.retryAbove = 2
        try await withEndpoint(.v4, options) { server in
            try await withRawSocket(to: server) { raw in
                for _ in 0..<2 {
                    var caller = try Caller(to: server)
                    try await raw.send(try caller.next())
                    #expect(form(try await raw.next()) == .initial)
                }
                var caller = try Caller(to: server)
                try await raw.send(try caller.next())
                var answer = try await raw.next()
                // What the server still has for the first two may come between.
                while form(answer) != .retry { answer = try await raw.next() }
                #expect(await server.tally() == Tally(halfOpen: 2, connections: 2, retries: 1))
                caller.receive(answer, from: server)
                try await raw.send(try caller.next())
                while await server.tally().halfOpen < 3 { await Task.yield() }
                #expect(await server.tally() == Tally(halfOpen: 3, connections: 3, retries: 1))
            }
            // A device comes in all the same.
            try await withEndpoint { client in
                let connection = try await client.connect(to: server.id, at: server.localAddresses)
                let retries = await server.tally().retries
                #expect(retries > 1)
                while await !client.hasToken(of: server.id) { await Task.yield() }
                connection.close()
                _ = await connection.closed()
                // It was given a token, which spares it the Retry of the next time.
                _ = try await client.connect(to: server.id, at: server.localAddresses)
                #expect(await server.tally().retries == retries)
            }
        }
    }

    @Test func `a flood of first packets leaves nothing behind but the bound`() async throws {
        var options = Endpoint.Options()
        options.retryAbove = 3
        options.maxHandshakesPerSecond = 1_000_000
        try await withEndpoint(.v4, options) { server in
            try await withRawSocket(to: server) { raw in
                for _ in 0..<400 {
                    var caller = try Caller(to: server)
                    try await raw.send(try caller.next())
                }
                while await server.tally().retries < 300 { await Task.yield() }
                let tally = await server.tally()
                #expect(tally.halfOpen == 3 && tally.connections == 3)
            }
            try await withEndpoint { client in
                _ = try await client.connect(to: server.id, at: server.localAddresses)
            }
        }
    }

    @Test func `a forged token is refused`() async throws {
        var options = Endpoint.Options()
        options.retryAbove = 0
        try await withEndpoint(.v4, options) { server in
            try await withRawSocket(to: server) { raw in
                var caller = try Caller(to: server)
                try await raw.send(try caller.next())
                let retry = try await raw.next()
                #expect(form(retry) == .retry)
                caller.receive(retry, from: server)
                var second = try caller.next()
                let header = try #require(second.withUnsafeBytes { DatagramHeader($0) })
                second[header.token.upperBound - 1] ^= 1
                try await raw.send(second)
                let answer = try await raw.next()
                caller.receive(answer, from: server)
                var reason: QUICConnection.CloseReason?
                while let event = caller.engine.nextEvent() { if case .closed(let why) = event { reason = why } }
                guard case .transport(0xB, _, _, true) = reason else {
                    Issue.record("closed for another reason: \(String(describing: reason))")
                    return
                }
                #expect(await server.tally().connections == 0)
            }
        }
    }
}

/// What unknown clients cost an endpoint.
struct Tally: Hashable, Sendable {
    var halfOpen: Int
    var connections: Int
    var retries: Int
}

extension Endpoint {
    func tally() async -> Tally {
        let answer = Promise<Tally>()
        let driver = self.driver
        driver.loop.execute {
            answer.fulfil(
                Tally(
                    halfOpen: driver.limiter.halfOpen, connections: driver.drivers.count, retries: driver.retriesSent))
        }
        return await answer.value()
    }

    /// How many Retries were sent.
    func retriesSent() async -> Int { await tally().retries }

    fileprivate func hasToken(of peer: DeviceID) async -> Bool {
        let answer = Promise<Bool>()
        let driver = self.driver
        driver.loop.execute { answer.fulfil(driver.sessionCache.hasToken(of: .device(peer))) }
        return await answer.value()
    }
}
