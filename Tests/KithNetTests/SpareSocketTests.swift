import KithIO
import KithIdentity
import KithQUIC
import KithTesting
import KithWire
import Synchronization
import Testing

@testable import KithNet

/// Sockets that are opened for a while, to be found by chance.
@Suite(.timeLimit(.minutes(4))) struct SpareSocketTests {
    @Test func `they send from ports of their own, are bounded, and are gone when they are closed`() async throws {
        try await withEndpoint { server in
            let seen = Mutex<Set<UInt16>>([])
            await server.onOtherDatagram { _, source, _ in seen.withLock { _ = $0.insert(source.port) } }
            try await withEndpoint { endpoint in
                var open: [UInt32] = []
                while open.count < SpareSockets.limit, let number = await endpoint.openSpare() { open.append(number) }
                #expect(open.count == SpareSockets.count && Set(open).count == open.count)
                #expect(await endpoint.openSpare() == nil)
                let question: [UInt8] = [0, 1, 0, 0, 0x21, 0x12, 0xA4, 0x42] + [UInt8](repeating: 1, count: 12)
                // Some may be lost where a buffer is full.
                try await eventually {
                    for number in open {
                        endpoint.send(question, to: server.localAddresses[0], from: number)
                    }
                    return seen.withLock { $0.count } == open.count
                }
                #expect(!seen.withLock { $0.contains(endpoint.port) })
                for number in open { endpoint.closeSpare(number) }
                // Closed twice is closed.
                endpoint.closeSpare(open[0])
                try await eventually { await endpoint.openSpareCount() == 0 }
                #expect(await endpoint.sockets().count == 1)
                let another = await endpoint.openSpare()
                #expect(another != nil)
            }
            await server.onOtherDatagram(nil)
        }
    }

    @Test func `a path by one is gone with it, and stays with one that is kept`() async throws {
        try await withRelayedPair(MemoryRelay(loss: 0, delay: 500_000, seed: 9)) { pair in
            for isKept in [false, true] {
                let number = try #require(await pair.client.openSpare())
                try await eventually {
                    pair.outgoing.probe(pair.server.localAddresses[0], from: number)
                    return await pair.outgoing.heldPaths().first?.address.local == .socket(number)
                }
                try await exchange(pair)
                // Both go by it: the other end sees its port.
                let port = try #require(await pair.incoming.statistics().remoteAddress?.port)
                #expect(port != pair.client.port)
                guard !isKept else {
                    pair.client.keepSpare(number)
                    #expect(await pair.client.openSpareCount() == 0)
                    #expect(await pair.client.sockets().map(\.number).contains(number))
                    try await exchange(pair)
                    #expect(await pair.outgoing.heldPaths().first?.address.local == .socket(number))
                    return
                }
                pair.client.closeSpare(number)
                try await exchange(pair)
                #expect(await !pair.outgoing.heldPaths().contains { $0.address.local == .socket(number) })
            }
        }
    }

    private func exchange(_ pair: Pair) async throws {
        let (near, far) = try await pair.stream()
        try await near.write([1])
        try await near.finish()
        #expect(try await far.read(upTo: 10) == [1])
    }
}

extension Endpoint {
    fileprivate func openSpareCount() async -> Int {
        await withLoop { $0.spares.open.count + $0.spares.opening }
    }

    fileprivate func keepSpare(_ number: UInt32) {
        let driver = self.driver
        driver.loop.execute { driver.keepSpare(number) }
    }

    private func withLoop<Value: Sendable>(_ body: @escaping @Sendable (EndpointDriver) -> Value) async -> Value {
        let answer = Promise<Value>()
        let driver = self.driver
        driver.loop.execute { answer.fulfil(body(driver)) }
        return await answer.value()
    }
}

extension Connection {
    fileprivate func probe(_ address: NetworkAddress, from number: UInt32) {
        let driver = self.driver
        driver.loop.execute {
            driver.addProbe(to: address, from: number)
            driver.service()
        }
    }
}
