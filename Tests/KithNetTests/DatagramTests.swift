import KithQUIC
import KithTesting
import KithWire
import Testing

@testable import KithNet

/// QUIC DATAGRAM frames for users of connections (RFC 9221).
@Suite struct DatagramTests {
    @Test(.timeLimit(.minutes(4))) func `datagrams arrive whole, from none to the most bytes`() async throws {
        try await withPair { pair in
            var random = SplitMix(seed: 3)
            let limit = try #require(await pair.outgoing.maxDatagramSize)
            #expect(limit >= 1_100)
            var here = pair.outgoing.datagrams.makeAsyncIterator()
            var there = pair.incoming.datagrams.makeAsyncIterator()
            for size in [0, 1, 100, 1_000, limit] + (0..<50).map({ $0 * 20 }) {
                let bytes = random.bytes(size)
                try pair.outgoing.sendDatagram(bytes)
                #expect(await there.next() == bytes)
                try pair.incoming.sendDatagram(bytes)
                #expect(await here.next() == bytes)
            }
        }
    }

    @Test func `a datagram larger than the path takes is refused, with the most it takes`() async throws {
        try await withPair { pair in
            let limit = try #require(await pair.outgoing.maxDatagramSize)
            #expect(throws: KithError(.invalid, "")) {
                try pair.outgoing.sendDatagram([UInt8](repeating: 0, count: limit + 70_000))
            }
            try pair.outgoing.sendDatagram([1])
            #expect(try await next(pair.incoming.datagrams) == [1])
        }
    }

    @Test func `a peer that takes no datagrams is sent none`() async throws {
        var options = Endpoint.Options()
        options.adjust = { $0.maxDatagramFrameSize = 0 }
        try await withPair(serverOptions: options) { pair in
            #expect(await pair.outgoing.maxDatagramSize == nil)
            #expect(throws: KithError(.unsupported, "")) { try pair.outgoing.sendDatagram([1]) }
            // The other direction is a promise of its own.
            try pair.incoming.sendDatagram([2])
            #expect(try await next(pair.outgoing.datagrams) == [2])
        }
    }

    @Test func `of datagrams nobody reads the newest are kept`() async throws {
        try await withPair { pair in
            for number in 0..<300 { pair.incoming.received([UInt8(number & 0xFF), UInt8(number >> 8)]) }
            var datagrams = pair.incoming.datagrams.makeAsyncIterator()
            #expect(await datagrams.next() == [44, 0])
            for _ in 0..<254 { _ = await datagrams.next() }
            #expect(await datagrams.next() == [43, 1])
        }
    }

    @Test func `datagrams end with the connection`() async throws {
        try await withPair { pair in
            let reader = Task {
                var count = 0
                for await _ in pair.incoming.datagrams { count += 1 }
                return count
            }
            pair.outgoing.close()
            _ = await pair.incoming.closed()
            #expect(await reader.value == 0)
            #expect(throws: KithError(.closed, "")) { try pair.outgoing.sendDatagram([1]) }
        }
    }

    @Test func `datagrams of a limited device are not kept until its limits are lifted`() async throws {
        var options = Endpoint.Options()
        options.admit = { _, _ in .limited }
        try await withPair(serverOptions: options) { pair in
            try pair.outgoing.sendDatagram([1])
            // In the same packet or after it: when the byte is here, so was the datagram.
            let (near, far) = try await pair.stream()
            pair.incoming.liftLimits()
            try await near.write([2])
            #expect(try await far.read(upTo: 1) == [2])
            try pair.outgoing.sendDatagram([3])
            #expect(try await next(pair.incoming.datagrams) == [3])
        }
    }
}
