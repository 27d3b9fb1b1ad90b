import KithIdentity
import KithNet
import KithReach
import KithTesting
import KithWire
import NIOPosix
import Synchronization
import Testing

/// The device's end of a relay, against a relay in another language; ours is in KithRelayServerTests.
@Suite(
    "A relay client", .timeLimit(.minutes(3)),
    .enabled(if: PythonPeer.isInstalled("websockets, blake3, cryptography"))
)
struct RelayClientTests {
    private struct Line: Decodable {
        var port: UInt16?
        var joined: String?
        var left: String?
        var authorization: String?
        var version: String?
    }

    private func withRelay(
        _ arguments: [String] = [], _ body: (PythonPeer, RelayAddress) async throws -> Void
    ) async throws {
        try await PythonPeer.run("relay_peer.py", ["serve"] + arguments) { peer in
            let port = try #require(try await peer.next(Line.self).port)
            try await body(peer, try #require(RelayAddress("http://127.0.0.1:\(port)")))
        }
    }

    @Test func `two devices exchange datagrams, single and in batches`() async throws {
        try await withRelay { peer, address in
            let (one, two) = (DeviceKey(), DeviceKey())
            let (first, second) = (ObservedClient(address, key: one, token: "t"), ObservedClient(address, key: two))
            first.client.connect()
            let joined = try await peer.next(Line.self)
            #expect(joined.joined == Hex.encode(one.id.bytes))
            #expect(joined.authorization == "Bearer t")
            #expect(joined.version == "iroh-relay-v2")
            second.client.connect()
            await first.connected()
            await second.connected()
            #expect(
                await first.send([1, 2, 3], segmentSize: 3, to: second, of: two.id)
                    == .received(RelayedDatagrams([1, 2, 3]), from: one.id))
            let batch = (0..<3_000).map { UInt8(truncatingIfNeeded: $0) }
            #expect(
                await second.send(batch, segmentSize: 1_200, to: first, of: one.id)
                    == .received(RelayedDatagrams(batch, segmentSize: 1_200), from: two.id))
            let absent = DeviceKey().id
            let isGone = await first.send([9], segmentSize: 1, to: first, of: absent) {
                if case .gone = $0 { true } else { false }
            }
            #expect(isGone == .gone(absent))
            await first.client.close()
            await second.client.close()
            #expect(first.client.state == .closed)
        }
    }

    @Test func `the round trip is known once a ping was answered`() async throws {
        try await withRelay { _, address in
            let device = ObservedClient(address)
            device.client.connect()
            let event = await device.next {
                if case .state(.connected(.some)) = $0 { true } else { false }
            }
            #expect(event != nil)
            await device.client.close()
        }
    }

    @Test func `a relay that refuses is not asked again until somebody says so`() async throws {
        try await withRelay { peer, address in
            let device = ObservedClient(address, token: "wrong")
            device.client.connect()
            #expect(
                await device.next { if case .state(.denied) = $0 { true } else { false } }
                    == .state(.denied(reason: "bad token")))
            device.client.networkChanged()
            device.client.connect()
            #expect(
                await device.next { if case .state(.denied) = $0 { true } else { false } }
                    == .state(.denied(reason: "bad token")))
            await device.client.close()
        }
    }

    @Test(arguments: ["restart 50", "drop", "break"])
    func `it comes back when the relay restarts, dies or breaks the protocol`(command: String) async throws {
        try await withRelay { peer, address in
            let device = ObservedClient(address)
            device.client.connect()
            await device.connected()
            let joined = try await peer.next(Line.self)
            #expect(joined.joined != nil)
            peer.send(command)
            let state = await device.next {
                switch $0 {
                case .state(.restarting), .state(.waiting): true
                default: false
                }
            }
            #expect((state == .state(.restarting)) == command.hasPrefix("restart"))
            await device.connected()
            await device.client.close()
        }
    }

    @Test func `a relay that says it is away for weeks is looked for as soon as the network changes`() async throws {
        try await withRelay { peer, address in
            let device = ObservedClient(address)
            device.client.connect()
            await device.connected()
            peer.send("restart 4000000000")
            _ = await device.next { $0 == .state(.restarting) }
            device.client.networkChanged()
            await device.connected()
            await device.client.close()
        }
    }

    @Test func `a relay that falls silent is given up`() async throws {
        try await withRelay { peer, address in
            let device = ObservedClient(address) {
                $0.keepAlive.silence = .milliseconds(100)
                $0.keepAlive.firstAnswer = .milliseconds(300)
                $0.keepAlive.answer = .milliseconds(300) ... .milliseconds(300)
            }
            device.client.connect()
            await device.connected()
            peer.send("silent")
            #expect(
                await device.next { if case .state(.waiting) = $0 { true } else { false } }
                    == .state(.waiting(reason: "it does not answer")))
            await device.client.close()
        }
    }

    @Test func `a relay that is killed is found again on the same port`() async throws {
        let device = Mutex<ObservedClient?>(nil)
        var port: UInt16 = 0
        try await withRelay { _, address in
            port = address.port
            let observed = ObservedClient(address)
            device.withLock { $0 = observed }
            observed.client.connect()
            await observed.connected()
        }
        let observed = try #require(device.withLock { $0 })
        _ = await observed.next { if case .state(.waiting) = $0 { true } else { false } }
        try await withRelay(["\(port)"]) { _, _ in await observed.connected() }
        await observed.client.close()
    }

    @Test func `what is not a relay is said so`() async throws {
        try await PythonPeer.run("relay_peer.py", ["page"]) { peer in
            let port = try #require(try await peer.next(Line.self).port)
            let device = ObservedClient(try #require(RelayAddress("http://127.0.0.1:\(port)")))
            device.client.connect()
            #expect(
                await device.next { if case .state(.waiting) = $0 { true } else { false } }
                    == .state(.waiting(reason: "it answers with HTTP status 404: no relay is there")))
            await device.client.close()
        }
    }
}
