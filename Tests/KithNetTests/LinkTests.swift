import Crypto
import KithIO
import KithIdentity
import KithQUIC
import KithTesting
import KithWire
import Synchronization
import Testing

@testable import KithNet

/// Paths that are not sockets, and candidates that become paths, over real sockets.
@Suite struct LinkTests {
    /// The relay the connection goes by at each end now; nil where it is direct.
    private func relays(_ pair: Pair) async -> [UInt32?] {
        var relays: [UInt32?] = []
        for connection in [pair.outgoing, pair.incoming] {
            relays.append(await connection.statistics().paths.first?.relay)
        }
        return relays
    }

    /// Sends from one end to the other until `body` is done, and compares.
    private func streaming(_ pair: Pair, while body: () async throws -> Void) async throws {
        let (near, far) = try await pair.stream()
        let isDone = Mutex(false)
        let writer = Task {
            var random = SplitMix(seed: 11)
            var hash = SHA256()
            var count = 0
            while !isDone.withLock({ $0 }) {
                let piece = random.bytes(16 << 10)
                hash.update(data: piece)
                count += piece.count
                try await near.write(piece)
            }
            try await near.finish()
            return (count, Array(hash.finalize()))
        }
        let reader = Task { try await far.readDigest() }
        do {
            try await body()
        } catch {
            isDone.withLock { $0 = true }
            throw error
        }
        isDone.withLock { $0 = true }
        let (sent, got) = (try await writer.value, try await reader.value)
        #expect(got.count == sent.0 && got.digest == sent.1)
    }

    @Test(.timeLimit(.minutes(5)))
    func `a device is dialed through a relay alone, which loses, delays and reorders`() async throws {
        try await withRelayedPair(MemoryRelay(loss: 0.02, delay: 2_000_000, seed: 1)) { pair in
            #expect(await relays(pair) == [3, 5])
            #expect(pair.outgoing.peerID == pair.server.id && pair.incoming.peerID == pair.client.id)
            try await streaming(pair) {
                let bytes = pair.incoming
                try await eventually { await bytes.statistics().bytesReceived > 300_000 }
            }
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func `a relay that repeats, holds back, alters and misattributes is noticed in the statistics alone`()
        async throws
    {
        let malice = MemoryRelay.Malice(repeated: 0.05, held: 0.02, misattributed: 0.02, altered: 0.02)
        try await withRelayedPair(MemoryRelay(loss: 0, delay: 1_000_000, seed: 12, malice: malice)) { pair in
            try await streaming(pair) {
                let bytes = pair.incoming
                try await eventually { await bytes.statistics().bytesReceived > 500_000 }
            }
            #expect(pair.outgoing.isOpen && pair.incoming.isOpen)
            // Nobody has been taken for the other device, and the way leads where it did.
            #expect(await relays(pair) == [3, 5])
            #expect(pair.outgoing.peerID == pair.server.id && pair.incoming.peerID == pair.client.id)
            #expect(pair.client.connection(to: pair.server.id) != nil)
            #expect(await pair.outgoing.statistics().packetsLost > 0)
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func `a relayed connection goes over to a direct path, back when that dies, and over again, and no byte is lost`()
        async throws
    {
        let relay = MemoryRelay(loss: 0.01, delay: 2_000_000, seed: 2)
        try await withRelayedPair(relay) { pair in
            try await Cable.to(pair.server.localAddresses[0]) { cable, address in
                try await streaming(pair) {
                    for _ in 0..<2 {
                        try await eventually {
                            pair.outgoing.probe([address])
                            return await relays(pair) == [nil, nil]
                        }
                        cable.cut()
                        try await eventually { await relays(pair) == [3, 5] }
                        cable.mend()
                    }
                }
                #expect(pair.outgoing.isOpen && pair.incoming.isOpen)
            }
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func `a direct connection falls back to a relay that was held ready, and at once when it is the relay that goes`()
        async throws
    {
        let relay = MemoryRelay(loss: 0, delay: 1_000_000, seed: 3)
        try await withPair { pair in
            relay.connect(pair.server, as: 5)
            relay.connect(pair.client, as: 3)
            // Before its handshake is confirmed an end adds no path (RFC 9000 §9).
            try await eventually {
                pair.outgoing.addPath(through: 3)
                return await pair.outgoing.heldPaths().contains { $0.address.local == .relay(3) && $0.isValidated }
            }
            #expect(await relays(pair) == [nil, nil])
            let held = await pair.outgoing.heldPaths()
            let standby = try #require(held.first { $0.address.local.kind == .relay })
            #expect(standby.rank == .backup)
            try await streaming(pair) {
                // On a busy machine the other end may take a pause for silence, and go back.
                try await eventually {
                    pair.outgoing.move(to: standby.address)
                    return await relays(pair) == [3, 5]
                }
            }
            pair.client.removeLink(3)
            relay.cut()
            try await streaming(pair) { try await eventually { await relays(pair) == [nil, nil] } }
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func `a probe from an address nobody named is reported to whoever decides about paths`() async throws {
        try await withRelayedPair(MemoryRelay(loss: 0, delay: 500_000, seed: 4)) { pair in
            let seen = Promise<PathAddress>()
            await pair.incoming.onPathEvent { if case .peerReflexive(let path) = $0 { seen.fulfil(path) } }
            // What has no port, or is nobody's alone, is not sent to.
            let refused = [
                NetworkAddress(ipv4: (224, 0, 0, 1), port: 9), NetworkAddress(ipv4: (255, 255, 255, 255), port: 9),
                NetworkAddress(ipv4: (127, 0, 0, 1), port: 0),
            ]
            // Before its handshake is confirmed an end probes nothing (RFC 9000 §9).
            try await eventually {
                pair.outgoing.probe(refused + pair.server.localAddresses)
                return seen.isFulfilled
            }
            let path = await seen.value()
            #expect(path.remote == NetworkAddress(ipv4: (127, 0, 0, 1), port: pair.client.port))
            #expect(path.local.kind == .socket)
            try await eventually {
                pair.outgoing.probe(pair.server.localAddresses)
                return await relays(pair) == [nil, nil]
            }
            #expect(await pair.outgoing.heldPaths().map(\.address.local.kind).contains(.relay))
        }
    }

    @Test func `an address that stands for a device behind a relay is nobody's to name`() async throws {
        try await withEndpoint { endpoint in
            let peer = DeviceKey().id
            let address = RelayedAddresses.address(of: peer, by: 3)
            #expect(RelayedAddresses.link(of: address) == 3)
            #expect(RelayedAddresses.link(of: NetworkAddress(ipv6: 0xFD4B_6974_0000_0000, 1, port: 1)) == nil)
            for links: [UInt32] in [[], [3]] {
                await #expect(throws: KithError(.invalid, "")) {
                    _ = try await endpoint.connect(to: peer, at: [address], through: links)
                }
            }
        }
    }

    @Test func `devices behind relays are remembered within a bound, those with paths always`() {
        var addresses = RelayedAddresses(limit: 64)
        let kept = DeviceKey().id
        let known = addresses.add(kept, by: 1) { [] }
        for _ in 0..<200 { _ = addresses.add(DeviceKey().id, by: 2) { [known] } }
        #expect(addresses.count <= 64)
        #expect(addresses.device(at: known) == kept)
        // By another link it is another address of the same device.
        let other = addresses.add(kept, by: 2) { [known] }
        #expect(other != known && addresses.device(at: other) == kept)
        #expect(addresses.device(at: NetworkAddress(ipv6: 1, known.halves.low, port: 1)) == nil)
    }

    @Test func `a relay that makes up a key with the front of another cuts off nobody at another relay`() throws {
        var addresses = RelayedAddresses()
        let peer = DeviceKey().id
        let known = addresses.add(peer, by: 1) { [] }
        let forged = try DeviceID(publicKey: peer.bytes.prefix(8) + [UInt8](repeating: 7, count: 24))
        let other = addresses.add(forged, by: 2) { [] }
        #expect(addresses.device(at: known) == peer && addresses.device(at: other) == forged)
    }

    // MARK: - STUN on the same socket

    /// A Binding request (RFC 8489 §5) with a transaction id of its own.
    private func binding(_ number: UInt8) -> [UInt8] {
        [0, 1, 0, 0, 0x21, 0x12, 0xA4, 0x42] + [UInt8](repeating: number, count: 12)
    }

    @Test(.timeLimit(.minutes(4)))
    func `STUN and QUIC share a socket, and datagrams of no connection are sent from it`() async throws {
        try await withPair { pair in
            let (arrived, feed) = AsyncStream.makeStream(
                of: (bytes: [UInt8], from: NetworkAddress, socket: UInt32).self)
            await pair.server.onOtherDatagram { feed.yield(($0, $1, $2)) }
            try await withRawSocket(to: pair.server) { raw in
                // What is not quite STUN is nobody's: too short, not of full words, another cookie, QUIC's first bits.
                for other in [
                    Array(binding(1).dropLast(4)), binding(1) + [0], [0, 1, 0, 0, 0x21, 0x12, 0xA4, 0x43] + binding(1),
                    [0x40] + binding(1).dropFirst(), [0xC0] + binding(1).dropFirst(),
                ] { try await raw.send(other) }
                try await raw.send(binding(2))
                let first = try await next(arrived)
                #expect(first.bytes == binding(2) && first.from.port == raw.port && first.socket == 0)
                // Beside a connection whose QUIC bit means nothing.
                let (near, far) = try await pair.stream()
                let expected = try await near.writeSeeded(2_000_000, seed: 5)
                async let got = far.readDigest()
                for number: UInt8 in 3..<30 {
                    try await raw.send(binding(number))
                    #expect(try await next(arrived).bytes == binding(number))
                }
                #expect(try await got.digest == expected)
                pair.server.send([1, 2, 3], to: first.from)
                // Answers to what was no STUN may come before.
                while try await raw.next() != [1, 2, 3] {}
                let sockets = await pair.server.sockets()
                #expect(sockets.count == 1 && sockets[0].number == 0 && sockets[0].address.port == pair.server.port)
            }
        }
    }
}
