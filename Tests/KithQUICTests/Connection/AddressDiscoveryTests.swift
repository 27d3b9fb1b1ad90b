import Foundation
import KithWire
import Synchronization
import Testing

@testable import KithQUIC

/// Reports of addresses (draft-ietf-quic-address-discovery).
@Suite struct AddressDiscoveryTests {
    static let elsewhere = NetworkAddress(ipv4: (203, 0, 113, 9), port: 6666)

    static let byRelay = NetworkAddress(ipv6: 0xFD00_0000_0000_0000, 1, port: 1)

    private func connected(
        _ client: AddressDiscoveryRole?, _ server: AddressDiscoveryRole?,
        then change: @escaping (inout QUICConfiguration) -> Void = { _ in }
    ) throws -> Pair {
        let pair = try Pair(
            client: {
                $0.addressDiscovery = client
                change(&$0)
            },
            server: {
                $0.addressDiscovery = server
                change(&$0)
            })
        pair.clientLocals = [1: Self.elsewhere, .relay(1): Self.byRelay]
        #expect(pair.connect())
        pair.run(seconds: 1)
        return pair
    }

    private static func reports(_ events: [QUICConnection.Event]) -> [NetworkAddress] {
        events.compactMap { if case .observedAddress(let address, _) = $0 { address } else { nil } }
    }

    @Test func `both ends are told where the other sees them`() throws {
        let pair = try connected(.both, .both)
        #expect(Self.reports(pair.clientEvents) == [Pair.clientAddress])
        #expect(Self.reports(pair.serverEvents) == [Pair.serverAddress])
    }

    @Test func `who does not ask is not told, and who does not report says nothing`() throws {
        let roles: [AddressDiscoveryRole?] = [nil, .reports, .asks, .both]
        for client in roles {
            for server in roles {
                let pair = try connected(client, server)
                let isClientTold = client?.isAsking ?? false && server?.isReporting ?? false
                let isServerTold = server?.isAsking ?? false && client?.isReporting ?? false
                #expect(Self.reports(pair.clientEvents).count == (isClientTold ? 1 : 0))
                #expect(Self.reports(pair.serverEvents).count == (isServerTold ? 1 : 0))
            }
        }
    }

    @Test func `a report that is lost is sent again`() throws {
        let pair = try Pair(client: { $0.addressDiscovery = .asks }, server: { $0.addressDiscovery = .reports })
        // Whatever the server sends after the handshake is lost at first.
        var isConnected = false
        pair.filter = { datagram in datagram.toServer || !isConnected ? [datagram] : [] }
        #expect(pair.run(seconds: 2) { $0.client.isConnected })
        isConnected = true
        pair.run(seconds: 1)
        #expect(Self.reports(pair.clientEvents).isEmpty)
        isConnected = false
        #expect(pair.run(seconds: 5) { Self.reports($0.clientEvents) == [Pair.clientAddress] })
    }

    @Test func `a NAT that gives another port is reported with the challenge of the new path`() throws {
        let pair = try connected(.asks, .reports, then: { $0.keepAlive = .milliseconds(100) })
        pair.clientFrom.port = 9_999
        #expect(pair.run(seconds: 3) { Self.reports($0.clientEvents).last?.port == 9_999 })
        #expect(Self.reports(pair.clientEvents) == [Pair.clientAddress, pair.clientFrom])
    }

    @Test func `another path has a report of its own`() throws {
        let pair = try connected(.both, .both)
        let moves = pair.client.migrate(to: PathAddress(remote: Pair.serverAddress, local: 1), at: pair.now)
        #expect(moves)
        #expect(pair.run(seconds: 3) { Self.reports($0.clientEvents).contains(Self.elsewhere) })
    }

    @Test func `nothing is reported of a relay's made-up address`() throws {
        let pair = try connected(.both, .both)
        let path = PathAddress(remote: Pair.serverAddress, local: .relay(1))
        let probes = pair.client.probePath(path, at: pair.now)
        #expect(probes)
        #expect(pair.run(seconds: 3) { $0.clientEvents.contains(.pathValidated(path)) })
        pair.run(seconds: 1)
        // The server's end of it is a socket here, and reports; the client knows better than to believe that.
        #expect(Self.reports(pair.clientEvents) == [Pair.clientAddress])
        #expect(Self.reports(pair.serverEvents) == [Pair.serverAddress])
    }

    @Test func `the highest sequence number counts, in whatever order they come`() throws {
        let pair = try connected(.both, .both)
        pair.serverEvents = []
        let old = NetworkAddress(ipv4: (198, 51, 100, 1), port: 1)
        let new = NetworkAddress(ipv4: (198, 51, 100, 2), port: 2)
        try pair.forge { writer in
            writer.observedAddress(sequence: 90, new)
            writer.observedAddress(sequence: 89, old)
            writer.observedAddress(sequence: 90, old)
        }
        #expect(Self.reports(pair.serverEvents) == [new])
        try pair.forge(gap: 101) { $0.observedAddress(sequence: 1 << 62 - 1, old) }
        #expect(Self.reports(pair.serverEvents) == [new, old])
        #expect(Pair.closeReason(pair.serverEvents) == nil)
    }

    @Test func `thousands of reports are one piece of news`() throws {
        let pair = try connected(.both, .both)
        pair.serverEvents = []
        try pair.forge { writer in
            var sequence: UInt64 = 100
            while writer.room > 64 {
                writer.observedAddress(sequence: sequence, NetworkAddress(ipv4: UInt32(sequence), port: 1))
                sequence += 1
            }
        }
        #expect(Self.reports(pair.serverEvents).count == 1)
    }

    @Test(arguments: [nil, .reports] as [AddressDiscoveryRole?])
    func `a report that was not asked for is a PROTOCOL_VIOLATION`(server: AddressDiscoveryRole?) throws {
        let pair = try connected(.both, server)
        try pair.forge { $0.observedAddress(sequence: 1, Self.elsewhere) }
        guard case .transport(0xA, _, _, false) = Pair.closeReason(pair.serverEvents) else {
            Issue.record("closed with \(String(describing: Pair.closeReason(pair.serverEvents)))")
            return
        }
    }

    @Test func `a report of an end that has not offered any is a PROTOCOL_VIOLATION`() throws {
        let pair = try connected(.asks, .both)
        try pair.forge { $0.observedAddress(sequence: 1, Self.elsewhere) }
        guard case .transport(0xA, _, _, false) = Pair.closeReason(pair.serverEvents) else {
            Issue.record("closed with \(String(describing: Pair.closeReason(pair.serverEvents)))")
            return
        }
    }

    @Test func `a report is not allowed in 0-RTT packets nor in the handshake`() {
        let frame = Frame.observedAddress(sequence: 0, Self.elsewhere)
        #expect(!frame.isAllowedEarly && !frame.isAllowedInHandshake)
    }

    @Test func `the log has what was reported`() throws {
        let records = Mutex<[String]>([])
        let pair = try Pair(
            client: {
                $0.addressDiscovery = .both
                $0.qlog = { record in records.withLock { $0.append(String(decoding: record, as: UTF8.self)) } }
            }, server: { $0.addressDiscovery = .both })
        #expect(pair.connect())
        pair.run(seconds: 1)
        let lines = records.withLock { $0 }
        for side in ["sent", "received"] {
            let line = try #require(lines.first { $0.contains("kith:observed_address_\(side)") })
            let object = try JSONSerialization.jsonObject(with: Data(line.utf8.dropFirst())) as? [String: Any]
            let data = try #require(object?["data"] as? [String: Any])
            let address = side == "sent" ? Pair.serverAddress : Pair.clientAddress
            #expect(data["address"] as? String == address.description)
        }
    }
}
