@testable import KithQUIC
import KithWire
import Testing

/// A paired device gone bad: what it sends is authentic, and made to cost us memory, work or a fair share of the path.
@Suite struct HostileTests {
    private func connected() throws -> Pair {
        let pair = try Pair()
        #expect(pair.connect())
        pair.run(seconds: 1)
        return pair
    }

    private func skipped(_ pair: Pair) -> UInt64? {
        pair.server?.recovery.skipped[PacketSpace.application.rawValue]
    }

    @Test func `acknowledging a packet number that was left out ends the connection`() throws {
        let pair = try connected()
        let id = try pair.serverOpen(.unidirectional)
        let piece = [UInt8](repeating: 7, count: 100_000)
        while skipped(pair) == nil {
            _ = try piece.withUnsafeBytes { try pair.server?.write($0, to: id) }
            #expect(pair.step(until: pair.now + 1_000_000_000))
        }
        let number = try #require(skipped(pair))
        try pair.forge { writer in
            // ACK: the largest, no delay, one range of one number (RFC 9000 §19.3).
            for value: UInt64 in [2, number, 0, 0, 0] { writer.varint(value) }
        }
        guard case .transport(0xA, _, _, false) = Pair.closeReason(pair.serverEvents) else {
            Issue.record("not closed with PROTOCOL_VIOLATION: \(pair.serverEvents)")
            return
        }
    }

    @Test func `an honest peer never acknowledges a number that was left out`() throws {
        let pair = try connected()
        let id = try pair.serverOpen(.unidirectional)
        let bytes = patterned(4 << 20)
        var sent = 0
        var received: [UInt8] = []
        while received.count < bytes.count {
            if sent < bytes.count {
                sent += try bytes[sent...].withUnsafeBytes { try pair.server?.write($0, to: id) ?? 0 }
            }
            guard pair.step(until: pair.now + 10_000_000_000) else { break }
            if pair.clientEvents.contains(.streamOpened(id)) { received += try pair.clientRead(id).bytes }
        }
        #expect(received == bytes)
        #expect(skipped(pair) != nil)
        #expect(Pair.closeReason(pair.serverEvents) == nil)
    }

    @Test func `a flood of path challenges gets few answers`() throws {
        let pair = try connected()
        let before = pair.sentByServer
        for round in 0..<50 {
            try pair.forge(gap: 100 + UInt64(round)) { writer in
                for value in 0..<60 { writer.pathChallenge(UInt64(round * 100 + value)) }
            }
        }
        // Three thousand questions; a packet each would be three thousand packets.
        #expect(pair.sentByServer - before <= 50 * 20)
        #expect(Pair.closeReason(pair.serverEvents) == nil)
    }

    @Test func `packets with holes between them leave a bounded record`() throws {
        let pair = try connected()
        for round in 0..<2_000 { try pair.forge(gap: 100 + 2 * UInt64(round)) { $0.ping() } }
        let ranges = pair.server?.spaces[.application].received.rangeCount ?? .max
        #expect(ranges <= ReceivedPackets.maximumRanges)
        #expect(Pair.closeReason(pair.serverEvents) == nil)
    }

    @Test func `single bytes far apart on a stream are refused before they fill memory`() throws {
        let pair = try connected()
        var gap: UInt64 = 100
        var offset: UInt64 = 1
        for _ in 0..<400 where Pair.closeReason(pair.serverEvents) == nil {
            try pair.forge(gap: gap) { writer in
                for _ in 0..<60 {
                    // STREAM with offset and length: one byte, every second one missing.
                    for value: UInt64 in [0x0E, 2, offset, 1] { writer.varint(value) }
                    writer.varint(7)
                    offset += 2
                }
            }
            gap += 1
        }
        guard case .transport = Pair.closeReason(pair.serverEvents) else {
            Issue.record("24,000 fragments were taken")
            return
        }
        #expect(offset <= 2 * 60 + 2 * UInt64(ReceiveBuffer.maximumRuns + 60))
    }

    @Test func `streams opened and reset over and over leave nothing behind`() throws {
        let pair = try connected()
        var gap: UInt64 = 100
        // The client's streams 2, 6, 10 … are unidirectional.
        for first in 0..<20 {
            try pair.forge(gap: gap) { writer in
                for step in 0..<20 {
                    // RESET_STREAM: id, code, final size (RFC 9000 §19.4).
                    for value: UInt64 in [0x04, UInt64(4 * (20 * first + step) + 2), 9, 0] { writer.varint(value) }
                }
            }
            gap += 1
        }
        // Each is over at once, and its place is free again: what remains is what was there before.
        #expect(Pair.closeReason(pair.serverEvents) == nil)
        #expect(pair.server?.statistics.openStreams == 0)
    }

    @Test func `a peer that never acknowledges stops being sent to`() throws {
        let pair = try connected()
        let id = try pair.serverOpen(.unidirectional)
        pair.filter = { $0.toServer ? [] : [$0] }
        let piece = [UInt8](repeating: 7, count: 1 << 20)
        for _ in 0..<200 {
            _ = try piece.withUnsafeBytes { try pair.server?.write($0, to: id) }
            guard pair.step(until: pair.now + 1_000_000_000) else { break }
        }
        let inFlight = pair.server?.statistics.bytesInFlight ?? .max
        let window = pair.server?.statistics.congestionWindow ?? 0
        #expect(inFlight <= window + 65_536)
        let held = pair.server?.recovery.bookkeeping ?? .max
        #expect(held <= 4_096)
    }

    @Test func `a peer that goes on and acknowledges nothing is found out, however little is in flight`() {
        var packets = SentPackets()
        var packet = SentPacket()
        packet.state = .outstanding
        packets.append(packet)
        packet.state = .quiet
        let late = Timestamp.zero.advanced(by: .seconds(60))
        packet.time = late
        for _ in 0..<65_534 { packets.append(packet) }
        #expect(!packets.isIgnored(at: late))
        packets.append(packet)
        #expect(packets.isIgnored(at: late) && !packets.isIgnored(at: Timestamp.zero.advanced(by: .seconds(9))))
        _ = packets.take(0)
        packets.advance()
        #expect(!packets.isIgnored(at: late))
    }

    @Test func `packets before the keys to read them are kept up to a limit, and none is missed in the end`() throws {
        let pair = try Pair()
        // The client's Finished does not get through: it speaks, and the server cannot yet read.
        pair.filter = { [unowned pair] datagram in
            guard datagram.toServer, pair.client.isConnected else { return [datagram] }
            return datagram.bytes.withUnsafeBytes { DatagramHeader($0)?.form } == .short ? [datagram] : []
        }
        #expect(pair.run { $0.client.isConnected })
        let id = try pair.clientOpen(.unidirectional)
        for byte in UInt8(0)..<100 {
            #expect(try [byte].withUnsafeBytes { try pair.client.write($0, to: id) } == 1)
            pair.flush()
        }
        #expect(pair.run { $0.wire.allSatisfy { !$0.toServer } })
        #expect(pair.server?.heldPackets.count == HeldPacket.limit)
        pair.filter = { [$0] }
        #expect(pair.run { $0.serverEvents.contains(.streamOpened(id)) })
        var received: [UInt8] = []
        while received.count < 100, pair.step(until: pair.now + 10_000_000_000) {
            received += try pair.serverRead(id).bytes
        }
        #expect(received == [UInt8](0..<100))
        #expect(pair.server?.heldPackets.isEmpty == true)
    }
}
