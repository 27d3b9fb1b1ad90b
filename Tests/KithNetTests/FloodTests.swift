import Foundation
import KithIO
import KithIdentity
import KithQUIC
import KithTesting
import KithWire
import Synchronization
import Testing

@testable import KithNet

/// First packets by the thousand from addresses of nobody's, and a device that comes in among them (RFC 9000 §21.3).
@Suite(.serialized, .timeLimit(.minutes(4))) struct FloodTests {
    /// The first packets a second, where a run says so (`make soak`); else as many as the endpoint answers.
    private static let rate = environment("KITH_FLOOD").flatMap { Int($0) }

    @Test func `a device connects through a flood of first packets, which leaves nothing behind but the bound`()
        async throws
    {
        let bound = Endpoint.Options().retryAbove
        try await withEndpoint(.v4) { server in
            let flood = try await Flood(to: server)
            try await flood.occupy(bound)
            let before = residentBytes()
            async let sent = flood.run(rate: Self.rate)
            while await server.tally().retries < 2_000 { await Task.yield() }
            let spent = try await withEndpoint { client in
                let start = ContinuousClock.now
                _ = try await client.connect(to: server.id, at: server.localAddresses, timeout: .seconds(60))
                return ContinuousClock.now - start
            }
            let underWay = await server.tally().retries
            // It still goes on.
            while await server.tally().retries < underWay + 100 { await Task.yield() }
            flood.stop()
            let count = await sent
            let tally = await server.tally()
            print(
                "flood: \(count) first packets, \(tally.retries) Retries, \(tally.connections) connections;",
                "a device came in within \(spent); \((residentBytes() - before) >> 20) MiB more held")
            #expect(tally.connections <= bound + 1 && tally.halfOpen <= bound + 1)
            if Self.rate != nil { #expect(spent < .seconds(1)) }
            try await flood.close()
        }
    }

    @Test func `Retries suffice for everybody in a flood of 50,000 first packets a second`() {
        let start = Timestamp(nanoseconds: .seconds(100))
        var limiter = AnswerLimiter(perSecond: Endpoint.Options().maxRetriesPerSecond, at: start)
        var refused = 0
        for number in 0..<150_000 where !limiter.allows(at: start.advanced(nanoseconds: Int64(number) * 20_000)) {
            refused += 1
        }
        #expect(refused == 0)
    }

    /// The memory this process holds, in bytes; 0 where that cannot be read.
    private func residentBytes() -> Int {
        guard let text = try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8) else { return 0 }
        let fields = text.split(separator: " ")
        return fields.count > 1 ? (Int(fields[1]) ?? 0) * 4_096 : 0
    }
}

/// Sockets at many addresses of the loopback, whose first packets all name another connection.
private final class Flood: Sendable {
    private let server: Endpoint
    private let sockets: [RawSocket]
    private let isStopped = Atomic(false)
    /// A client's first packet, of 1200 bytes or more.
    private let template: [UInt8]

    init(to server: Endpoint, addresses: Int = 64) async throws {
        self.server = server
        var caller = try Caller(to: server)
        template = try caller.next()
        var sockets: [RawSocket] = []
        for number in 0..<addresses {
            #if os(Linux)
            let host = "127.\(1 + number / 250).77.\(1 + number % 250)"
            #else
            let host = "127.0.0.1"
            #endif
            sockets.append(try await RawSocket.to(server, from: host, isKeeping: false))
        }
        self.sockets = sockets
    }

    /// Begins so many handshakes that nobody ends.
    func occupy(_ count: Int) async throws {
        for number in 0..<count {
            var caller = try Caller(to: server)
            try await sockets[number % sockets.count].send(try caller.next())
        }
        while await server.tally().halfOpen < count { await Task.yield() }
    }

    func stop() { isStopped.store(true, ordering: .relaxed) }

    /// Sends until it is stopped; answers how many packets there were.
    func run(rate: Int?) async -> Int {
        var random = SeededRandom(seed: 7)
        let start = ContinuousClock.now
        var sent = 0
        while !isStopped.load(ordering: .relaxed) {
            for socket in sockets {
                // The id begins at byte 6 (RFC 9000 §17.2).
                var datagram = template
                datagram.replaceSubrange(6..<14, with: random.bytes(8))
                socket.spill([datagram])
                sent += 1
            }
            if let rate {
                while ContinuousClock.now - start < .nanoseconds(1_000_000_000 / rate * sent) { await Task.yield() }
            } else {
                // The endpoint answers what has come before it says this.
                _ = await server.tally()
            }
        }
        return sent
    }

    func close() async throws {
        for socket in sockets { try await socket.close() }
    }
}
