import Testing

@testable import KithQUIC

/// A peer within the rules that makes no haste: what it leaves unread or half said costs a bounded amount of memory,
/// and the streams beside go on.
@Suite struct SlowPeerTests {
    /// What the server's streams hold, sent or received.
    private func memory(_ pair: Pair) -> Int {
        pair.server?.streams.streams.reduce(0) { $0 + $1.send.memory + $1.receive.memory } ?? .max
    }

    @Test func `a peer that never reads fills one buffer, and its other streams go on`() throws {
        let pair = try Pair(client: {
            $0.streamWindow = 10_000
            $0.maxStreamWindow = 10_000
        })
        #expect(pair.connect())
        let stuck = try pair.serverOpen(.unidirectional)
        let lively = try pair.serverOpen(.unidirectional)
        let endless = [UInt8](repeating: 7, count: 1 << 20)
        let bytes = patterned(500_000)
        var taken = 0
        var sent = 0
        var received: [UInt8] = []
        while received.count < bytes.count {
            taken += try endless.withUnsafeBytes { try pair.server?.write($0, to: stuck) ?? 0 }
            if sent < bytes.count {
                sent += try bytes[sent...].withUnsafeBytes { try pair.server?.write($0, to: lively) ?? 0 }
            }
            guard pair.step(until: pair.now + 10_000_000_000) else { break }
            if pair.clientEvents.contains(.streamOpened(lively)) { received += try pair.clientRead(lively).bytes }
        }
        #expect(received == bytes)
        // What the window let through, and one full buffer.
        #expect(taken <= 10_000 + (pair.server?.streams.sendCapacity ?? 0))
        #expect(memory(pair) <= 4 << 20)
        #expect(Pair.closeReason(pair.serverEvents) == nil)
    }

    @Test func `a peer that grants nothing is never sent a byte, and may write itself`() throws {
        let pair = try Pair(client: {
            $0.streamWindow = 0
            $0.maxStreamWindow = 0
            $0.connectionWindow = 0
            $0.maxConnectionWindow = 0
        })
        #expect(pair.connect())
        let ids = try (0..<100).map { _ in try pair.serverOpen(.unidirectional) }
        let piece = [UInt8](repeating: 7, count: 1 << 10)
        for id in ids { _ = try piece.withUnsafeBytes { try pair.server?.write($0, to: id) } }
        let up = try pair.clientOpen(.unidirectional)
        let bytes = patterned(500_000)
        #expect(try bytes.withUnsafeBytes { try pair.client.write($0, to: up) } == bytes.count)
        let before = pair.sentByServer
        var received: [UInt8] = []
        while received.count < bytes.count, pair.step(until: pair.now + 10_000_000_000) {
            if pair.serverEvents.contains(.streamOpened(up)) { received += try pair.serverRead(up).bytes }
        }
        #expect(received == bytes)
        for id in ids where pair.clientEvents.contains(.streamOpened(id)) {
            #expect(try pair.clientRead(id).bytes.isEmpty)
        }
        #expect(memory(pair) <= 100 << 10 + 1 << 20)
        #expect(pair.sentByServer - before <= 200)
    }

    @Test func `a peer that grants byte by byte gets two packets for each, and its own stream goes on`() throws {
        let pair = try Pair(client: {
            $0.streamWindow = 1
            $0.maxStreamWindow = 1
        })
        #expect(pair.connect())
        let down = try pair.serverOpen(.unidirectional)
        let up = try pair.clientOpen(.unidirectional)
        let slow = patterned(2_000)
        let fast = patterned(500_000, seed: 8)
        #expect(try slow.withUnsafeBytes { try pair.server?.write($0, to: down) } == slow.count)
        #expect(try fast.withUnsafeBytes { try pair.client.write($0, to: up) } == fast.count)
        var slowReceived: [UInt8] = []
        var fastReceived: [UInt8] = []
        while slowReceived.count < slow.count, pair.step(until: pair.now + 10_000_000_000) {
            if pair.clientEvents.contains(.streamOpened(down)) { slowReceived += try pair.clientRead(down).bytes }
            guard fastReceived.count < fast.count else { continue }
            if pair.serverEvents.contains(.streamOpened(up)) { fastReceived += try pair.serverRead(up).bytes }
            // The other stream does not wait for this one.
            if fastReceived.count == fast.count { #expect(slowReceived.count < slow.count / 2) }
        }
        #expect(slowReceived == slow)
        #expect(fastReceived == fast)
        // The byte, and that it is blocked again.
        #expect(pair.sentByServer <= 2 * slow.count + 200)
        #expect(memory(pair) <= 4 << 10)
    }

    @Test func `a byte in every packet and streams that stay open cost little`() throws {
        let pair = try Pair()
        #expect(pair.connect())
        let ids = try (0..<100).map { _ in try pair.clientOpen(.bidirectional) }
        let lively = try pair.clientOpen(.bidirectional)
        let bytes = patterned(500_000)
        #expect(try bytes.withUnsafeBytes { try pair.client.write($0, to: lively) } == bytes.count)
        let before = (client: pair.sentByClient, server: pair.sentByServer)
        var received: [UInt8] = []
        for _ in 0..<50 {
            for id in ids {
                #expect(try [UInt8(7)].withUnsafeBytes { try pair.client.write($0, to: id) } == 1)
                pair.flush()
            }
            pair.run(seconds: 1)
            if pair.serverEvents.contains(.streamOpened(lively)) { received += try pair.serverRead(lively).bytes }
        }
        #expect(received == bytes)
        #expect(pair.sentByClient - before.client >= 5_000)
        #expect(pair.sentByServer - before.server <= 500)
        #expect(pair.server?.statistics.openStreams == 101)
        #expect(memory(pair) <= 101 * 1_024)
        for id in ids { #expect(try pair.serverRead(id).bytes.count == 50) }
    }

    @Test func `a client that says hello over and over and never finishes is let go in time`() throws {
        let pair = try Pair(
            client: { $0.handshakeTimeout = .seconds(60) }, server: { $0.handshakeTimeout = .seconds(10) })
        // It makes as if it did not hear the answers.
        pair.filter = { $0.toServer ? [$0] : [] }
        let began = pair.now
        #expect(pair.run { Pair.closeReason($0.serverEvents) != nil })
        #expect(Pair.closeReason(pair.serverEvents) == .handshakeTimeout)
        #expect(pair.now - began < 11_000_000_000)
        let traffic = try #require(pair.traffic[Pair.clientAddress])
        #expect(traffic.sent <= 3 * traffic.received)
    }
}
