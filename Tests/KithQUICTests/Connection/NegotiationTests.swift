import Foundation
import KithWire
import Synchronization
import Testing

@testable import KithQUIC

@Suite struct NegotiationTests {
    /// What a server writes that wants the client's address proven first.
    private func retry(_ header: DatagramHeader, source: ConnectionID, token: [UInt8]) -> [UInt8] {
        var packet: [UInt8] = [0xF0, 0, 0, 0, 1]
        packet += [UInt8(header.source.count)] + header.source.bytes
        packet += [UInt8(source.count)] + source.bytes + token
        let tag = packet.withUnsafeBytes { RetryIntegrity.tag(original: header.destination.bytes, retry: $0) }
        return packet + tag
    }

    @Test func `a Retry is answered with its token, once, and the handshake must confirm it`() throws {
        let pair = try Pair(client: { $0.offersPostQuantumKeyShare = false })
        pair.flush()
        let first = try #require(pair.wire[0].bytes.withUnsafeBytes { DatagramHeader($0) })
        pair.wire = []
        let source = try #require(ConnectionID([UInt8](repeating: 7, count: 12)))
        let answer = retry(first, source: source, token: [1, 2, 3, 4])
        var forged = answer
        forged[forged.count - 1] ^= 1
        for bytes in [forged, answer, answer] {
            pair.deliver(Pair.Datagram(bytes: bytes, from: Pair.serverAddress, due: pair.now, toServer: false))
        }
        pair.flush()
        #expect(pair.wire.count == 1)
        let second = try #require(pair.wire.first)
        #expect(second.bytes.count == 1200)
        let header = try #require(second.bytes.withUnsafeBytes { DatagramHeader($0) })
        #expect(header.destination == source)
        #expect(header.source == first.source)
        let token = second.bytes.withUnsafeBytes { bytes in
            PacketHeader.read(bytes, localConnectionIDLength: 8).map { Array($0.token) }
        }
        #expect(token == [1, 2, 3, 4])
        // A server that knows nothing of the Retry cannot name the first id (RFC 9000 §7.3).
        #expect(pair.run { Pair.closeReason($0.clientEvents) != nil })
        guard case .transport(0x8, _, _, false) = Pair.closeReason(pair.clientEvents) else {
            Issue.record("closed for another reason: \(pair.clientEvents)")
            return
        }
    }

    @Test func `a path challenge is answered to where it came from`() throws {
        let pair = try Pair()
        #expect(pair.connect())
        pair.run(seconds: 1)
        let keys = try #require(pair.client.spaces[.application].writeKeys)
        let number = pair.client.recovery.nextPacketNumber(.application) + 10
        let destination = pair.client.peerIDs.current
        var packet = [UInt8](repeating: 0, count: 1200)
        packet.withUnsafeMutableBytes { buffer in
            var writer = PacketWriter(buffer)
            writer.shortHeader(destination: destination, keyPhase: false, number: number, numberLength: 4)
            let headerLength = writer.count
            writer.pathChallenge(0xABCD)
            writer.pad(to: 1184)
            keys.protect(
                writer.base, headerLength: headerLength, packetNumberLength: 4,
                payloadLength: writer.count - headerLength, packetNumber: number)
        }
        let elsewhere = NetworkAddress(ipv4: (198, 51, 100, 1), port: 5)
        packet.withUnsafeMutableBytes { pair.server?.receive($0, from: elsewhere, ecn: 0, at: pair.now) }
        var buffer = [UInt8](repeating: 0, count: 2000)
        let transmit = buffer.withUnsafeMutableBytes { pair.server?.nextTransmit(into: $0, at: pair.now) ?? nil }
        #expect(transmit?.remote == elsewhere)
        #expect(transmit?.length == 1200)
        // A probe alone moves nothing (RFC 9000 §9.1).
        let remote = pair.server?.remote
        #expect(remote == pair.clientFrom)
    }

    @Test func `qlog records are JSON texts from the start to the close`() throws {
        let sink = CollectedRecords()
        let pair = try Pair(client: { $0.qlog = { sink.append($0) } })
        #expect(pair.connect())
        let id = try pair.clientOpen(.unidirectional)
        _ = try patterned(3000).withUnsafeBytes { try pair.client.write($0, to: id) }
        pair.run(seconds: 1)
        pair.client.close(code: 3, at: pair.now)
        pair.flush()
        var names: Set<String> = []
        for record in sink.records {
            #expect(record.first == 0x1E)
            #expect(record.last == 0x0A)
            let object = try JSONSerialization.jsonObject(with: Data(record.dropFirst())) as? [String: Any]
            if let name = object?["name"] as? String { names.insert(name) }
        }
        #expect(
            names.isSuperset(of: [
                "quic:connection_started", "quic:packet_sent", "quic:packet_received",
                "quic:recovery_metrics_updated", "quic:connection_closed",
            ]))
    }
}

/// Takes records from any thread.
private final class CollectedRecords: Sendable {
    private let storage = Mutex<[[UInt8]]>([])
    var records: [[UInt8]] { storage.withLock { $0 } }
    func append(_ record: [UInt8]) { storage.withLock { $0.append(record) } }
}
