import Testing

@testable import KithQUIC

/// Key updates (RFC 9001 §6).
@Suite struct KeyUpdateTests {
    private func established(_ change: (inout QUICConfiguration) -> Void = { _ in }) throws -> Pair {
        let pair = try Pair(client: change)
        #expect(pair.connect())
        pair.run(seconds: 2)
        return pair
    }

    private func send(_ count: Int, _ pair: Pair) throws {
        let id = try pair.clientOpen(.unidirectional)
        let bytes = patterned(count)
        var sent = 0
        while sent < count {
            sent += try bytes[sent...].withUnsafeBytes { try pair.client.write($0, to: id) }
            pair.run(seconds: 30) { $0.clientEvents.last == .writable(id) }
            var chunk = [UInt8](repeating: 0, count: 1 << 16)
            while let part = try chunk.withUnsafeMutableBytes({ try pair.server?.read(id, into: $0) }), part.count > 0 {
            }
        }
        try pair.client.finish(id)
        #expect(pair.run(seconds: 60) { $0.clientEvents.contains(.streamFinished(id)) })
    }

    @Test func `an update is refused before the handshake is confirmed and while one is under way`() throws {
        let early = try Pair()
        let isEarly = early.client.updateKeys(at: early.now)
        #expect(!isEarly)
        let pair = try established()
        let first = pair.client.updateKeys(at: pair.now)
        let second = pair.client.updateKeys(at: pair.now)
        #expect(first)
        #expect(!second)
        try send(1000, pair)
        pair.run(seconds: 2)
        let third = pair.client.updateKeys(at: pair.now)
        #expect(third)
    }

    @Test func `keys change by themselves after so many packets`() throws {
        let pair = try established { $0.packetsPerKey = 50 }
        try send(1_000_000, pair)
        let counts = (pair.client.keys.count, pair.server?.keys.count)
        #expect(counts.0 >= 2)
        #expect(counts.0 == counts.1)
    }

    @Test func `worn keys that cannot be changed close the connection`() throws {
        let pair = try established()
        pair.client.keys.sealed = CipherSuite.aes128GCM.confidentialityLimit - 10
        let id = try pair.clientOpen(.unidirectional)
        // Nothing sent in this phase has been acknowledged: no update is allowed.
        pair.client.keys.previousRead = pair.client.spaces[.application].readKeys
        pair.client.keys.previousExpiry = .distantFuture
        _ = try patterned(10).withUnsafeBytes { try pair.client.write($0, to: id) }
        pair.flush()
        guard case .transport(0xF, _, _, false) = Pair.closeReason(pair.clientEvents) else {
            Issue.record("closed for another reason: \(pair.clientEvents)")
            return
        }
    }

    @Test func `as many forgeries as the cipher bears close the connection`() throws {
        let pair = try established()
        pair.client.keys.failures = CipherSuite.aes128GCM.integrityLimit - 1
        var forged = [UInt8](repeating: 0x40, count: 60)
        let id = pair.client.firstLocalID.bytes
        for index in id.indices { forged[1 + index] = id[index] }
        pair.deliver(Pair.Datagram(bytes: forged, from: Pair.serverAddress, due: pair.now, toServer: false))
        pair.flush()
        // Header protection decides whether the forgery seems to be of the next phase; both count.
        guard case .transport(0xF, _, _, false) = Pair.closeReason(pair.clientEvents) else {
            Issue.record("closed for another reason: \(pair.clientEvents)")
            return
        }
    }

    @Test func `old keys for newer packets are a KEY_UPDATE_ERROR`() throws {
        let pair = try established()
        let old = try #require(pair.client.spaces[.application].writeKeys)
        let isUpdated = pair.client.updateKeys(at: pair.now)
        #expect(isUpdated)
        let id = try pair.clientOpen(.unidirectional)
        _ = try patterned(10).withUnsafeBytes { try pair.client.write($0, to: id) }
        #expect(pair.run(seconds: 1) { $0.server?.keys.isOdd ?? false })
        let number = pair.client.recovery.nextPacketNumber(.application) + 5
        let destination = pair.client.peerIDs.current
        var packet = [UInt8](repeating: 0, count: 100)
        packet.withUnsafeMutableBytes { buffer in
            var writer = PacketWriter(buffer)
            writer.shortHeader(destination: destination, keyPhase: false, number: number, numberLength: 4)
            let headerLength = writer.count
            writer.ping()
            writer.pad(to: 84)
            old.protect(
                writer.base, headerLength: headerLength, packetNumberLength: 4,
                payloadLength: writer.count - headerLength, packetNumber: number)
        }
        pair.deliver(Pair.Datagram(bytes: packet, from: pair.clientFrom, due: pair.now, toServer: true))
        pair.flush()
        guard case .transport(0xE, _, _, false) = Pair.closeReason(pair.serverEvents) else {
            Issue.record("closed for another reason: \(pair.serverEvents)")
            return
        }
    }

    @Test(arguments: 0..<10) func `updates at both ends survive losses and reordering`(_ seed: UInt64) throws {
        let pair = try established { $0.packetsPerKey = 40 }
        var generator = SeededGenerator(state: seed)
        pair.filter = { datagram in
            switch Int.random(in: 0..<20, using: &generator) {
            case 0: return []
            case 1:
                var late = datagram
                late.due = late.due + 15_000_000
                return [late]
            default: return [datagram]
            }
        }
        try send(400_000, pair)
        let updates = pair.client.keys.count
        #expect(updates >= 1, "seed \(seed)")
        #expect(Pair.closeReason(pair.clientEvents) == nil, "seed \(seed)")
    }
}
