import KithWire
import Testing

@testable import KithQUIC

/// Version negotiation and QUIC version 2 (RFC 9368, RFC 9369).
@Suite struct VersionTests {
    private func exchange(_ pair: Pair) throws {
        let id = try pair.clientOpen(.bidirectional)
        _ = try patterned(20_000).withUnsafeBytes { try pair.client.write($0, to: id) }
        try pair.client.finish(id)
        #expect(pair.run(seconds: 10) { $0.clientEvents.contains(.streamFinished(id)) })
        #expect(try pair.serverRead(id).bytes == patterned(20_000))
    }

    private func versions(_ pair: Pair) -> [QUICVersion?] { [pair.client.version, pair.server?.version] }

    @Test func `version 2 carries a connection from its first packet`() throws {
        let pair = try Pair(client: { $0.versions = [.two] })
        pair.filter = { datagram in
            let header = datagram.bytes.withUnsafeBytes { DatagramHeader($0) }
            if let header, header.form != .short { #expect(header.version == QUICVersion.two.rawValue) }
            return [datagram]
        }
        #expect(pair.connect())
        #expect(versions(pair) == [.two, .two])
        try exchange(pair)
    }

    @Test func `a server that prefers version 2 moves a client of version 1 to it, without a round trip more`() throws {
        let plain = try Pair()
        #expect(plain.connect())
        #expect(versions(plain) == [.one, .one])
        let pair = try Pair(server: {
            $0.versions = [.two, .one]
            $0.prefersOwnVersion = true
        })
        var answered: Set<UInt32> = []
        pair.filter = { datagram in
            let header = datagram.bytes.withUnsafeBytes { DatagramHeader($0) }
            if let header, header.form == .handshake || (header.form == .initial && !datagram.toServer) {
                answered.insert(header.version)
            }
            return [datagram]
        }
        #expect(pair.connect())
        #expect(versions(pair) == [.two, .two])
        #expect(answered == [QUICVersion.two.rawValue])
        #expect(pair.now == plain.now)
        try exchange(pair)
    }

    @Test(arguments: 0..<20) func `the move survives losses`(_ seed: UInt64) throws {
        let pair = try Pair(server: {
            $0.versions = [.two, .one]
            $0.prefersOwnVersion = true
        })
        var generator = SeededGenerator(state: seed)
        pair.filter = { Int.random(in: 0..<4, using: &generator) == 0 ? [] : [$0] }
        #expect(pair.run(seconds: 60) { $0.client.isConnected }, "seed \(seed)")
        #expect(versions(pair)[0] == .two)
    }

    @Test func `the server stays with the client's choice unless told otherwise`() throws {
        let pair = try Pair(client: { $0.versions = [.two, .one] })
        #expect(pair.connect())
        #expect(versions(pair) == [.two, .two])
    }

    @Test func `a client that does not offer version 2 is not moved`() throws {
        let pair = try Pair(
            client: { $0.versions = [.one] },
            server: {
                $0.versions = [.two, .one]
                $0.prefersOwnVersion = true
            })
        #expect(pair.connect())
        #expect(versions(pair) == [.one, .one])
    }

    @Test func `a version the server does not speak is dialed away from`() throws {
        let pair = try Pair(client: { $0.versions = [.two, .one] }, server: { $0.versions = [.one] })
        #expect(pair.connect())
        #expect(versions(pair) == [.one, .one])
        // Each datagram of the first flight gets one.
        #expect(pair.statelessAnswers == [.versionNegotiation, .versionNegotiation])
        #expect(pair.clientEvents.filter { if case .connectionIDRetired = $0 { true } else { false } }.count >= 1)
        try exchange(pair)
    }

    @Test func `without a common version the attempt ends`() throws {
        let pair = try Pair(client: { $0.versions = [.two] }, server: { $0.versions = [.one] })
        #expect(pair.run(seconds: 5) { Pair.closeReason($0.clientEvents) == .versionMismatch })
    }

    @Test func `somebody who forges a Version Negotiation to lower the version is found out`() throws {
        // Both ends speak both, the client prefers 2; the attacker claims that the server speaks 1 only.
        let pair = try Pair(client: { $0.versions = [.two, .one] })
        pair.flush()
        let first = try #require(pair.wire.first?.bytes.withUnsafeBytes { DatagramHeader($0) })
        var forged = [UInt8](repeating: 0, count: 64)
        let length = forged.withUnsafeMutableBytes {
            StatelessPackets.versionNegotiation(for: first, versions: [.one], into: $0, random: 3)
        }
        pair.wire = []
        pair.deliver(
            Pair.Datagram(
                bytes: Array(forged.prefix(length)), from: Pair.serverAddress, due: pair.now, toServer: false))
        #expect(versions(pair)[0] == .one)
        #expect(pair.run(seconds: 5) { Pair.closeReason($0.clientEvents) != nil })
        guard case .transport(0x11, _, _, false) = Pair.closeReason(pair.clientEvents) else {
            Issue.record("closed for another reason: \(pair.clientEvents)")
            return
        }
    }

    @Test func `an echo of the version dialed changes nothing, and neither does a second packet`() throws {
        let pair = try Pair(client: { $0.versions = [.two, .one] })
        pair.flush()
        let first = try #require(pair.wire.first?.bytes.withUnsafeBytes { DatagramHeader($0) })
        var echo = [UInt8](repeating: 0, count: 64)
        let length = echo.withUnsafeMutableBytes {
            StatelessPackets.versionNegotiation(for: first, versions: [.one, .two], into: $0, random: 3)
        }
        pair.deliver(
            Pair.Datagram(bytes: Array(echo.prefix(length)), from: Pair.serverAddress, due: pair.now, toServer: false))
        #expect(versions(pair)[0] == .two)
        #expect(pair.connect())
        #expect(versions(pair) == [.two, .two])
    }

    @Test func `what each end says about versions is checked`() throws {
        let configuration = try TestIdentity(1).configuration(trusting: TestIdentity(2))
        let negotiation = VersionNegotiation(.one)
        func choice(_ chosen: UInt32, _ available: [UInt32]) throws -> QUICVersion {
            var information = VersionInformation(chosen: .one, available: available)
            information.chosen = chosen
            return try negotiation.choice(information, configuration)
        }
        #expect(try negotiation.choice(nil, configuration) == .one)
        #expect(try choice(1, [1, 0x6b33_43cf]) == .one)
        #expect(throws: TransportError(.versionNegotiation, "the client chose another version than it speaks")) {
            try choice(0x6b33_43cf, [1, 0x6b33_43cf])
        }
        #expect(throws: TransportError.self) { try choice(1, [0x6b33_43cf]) }
        for value in [[], [0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1, 0, 0, 0, 0], [0, 0, 0, 1, 2]] as [[UInt8]] {
            #expect(value.withUnsafeBytes { VersionInformation($0) } == nil, "\(value)")
        }
        let sound = VersionInformation(chosen: .two, available: [1, 0x6b33_43cf])
        #expect(sound.encoded.withUnsafeBytes { VersionInformation($0) } == sound)
    }
}
