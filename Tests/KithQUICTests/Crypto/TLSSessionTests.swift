import KithQUIC
import KithWire
import KithTesting
import Testing

@Suite("TLS 1.3 for QUIC") struct TLSSessionTests {
    let alice: Identity
    let bob: Identity

    init() throws {
        alice = try Identity(1)
        bob = try Identity(2)
    }

    func client(
        _ credentials: [Credential], alpn: [String] = ["kith/1"],
        verify: @escaping @Sendable (PeerCredential) -> Bool = { _ in true }
    ) -> TLSConfiguration {
        TLSConfiguration(
            role: .client, credentials: credentials, alpn: alpn, transportParameters: [1, 2, 3], verify: verify)
    }

    func server(
        _ credentials: [Credential], alpn: [String] = ["kith/1"],
        verify: @escaping @Sendable (PeerCredential) -> Bool = { _ in true }
    ) -> TLSConfiguration {
        TLSConfiguration(
            role: .server, credentials: credentials, alpn: alpn, transportParameters: [4, 5], verify: verify)
    }

    func expectSuccess(_ handshake: LoopbackHandshake, sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(handshake.clientAlert == nil, sourceLocation: sourceLocation)
        #expect(handshake.serverAlert == nil, sourceLocation: sourceLocation)
        #expect(handshake.client.isComplete, sourceLocation: sourceLocation)
        #expect(handshake.server.isComplete, sourceLocation: sourceLocation)
    }

    // MARK: - Behaviour

    @Test func `two raw public keys meet and know each other`() throws {
        let (a, b) = (alice.publicKey, bob.publicKey)
        var handshake = try LoopbackHandshake(
            client([alice.rawPublicKey]) { $0 == .rawPublicKey(b) },
            server([bob.rawPublicKey]) { $0 == .rawPublicKey(a) })
        handshake.run()
        expectSuccess(handshake)
        #expect(handshake.client.peerCredential == .rawPublicKey(b))
        #expect(handshake.server.peerCredential == .rawPublicKey(a))
        #expect(handshake.client.peerTransportParameters == [4, 5])
        #expect(handshake.server.peerTransportParameters == [1, 2, 3])
        #expect(handshake.client.negotiatedALPN == "kith/1")
        #expect(handshake.server.negotiatedALPN == "kith/1")
        #expect(!handshake.client.isResumed)
        #expect(handshake.client.keyExchangeGroup == 0x001d)
    }

    @Test func `both ends derive the same secrets, one's read the other's write`() throws {
        var handshake = try LoopbackHandshake(client([alice.rawPublicKey]), server([bob.rawPublicKey]))
        handshake.run()
        expectSuccess(handshake)
        #expect(handshake.clientSecrets.count == 4)
        #expect(handshake.serverSecrets.count == 4)
        for secret in handshake.clientSecrets {
            let mirrored = TrafficSecret(
                level: secret.level, direction: secret.direction == .read ? .write : .read, suite: secret.suite,
                bytes: secret.bytes)
            #expect(handshake.serverSecrets.contains(mirrored))
        }
        #expect(Set(handshake.clientSecrets.map(\.level)) == [.handshake, .oneRTT])
    }

    @Test func `both ends export the same keying material, and only for the same label and context`() throws {
        var handshake = try LoopbackHandshake(client([alice.rawPublicKey]), server([bob.rawPublicKey]))
        #expect(handshake.client.exportKeyingMaterial(label: "kith", context: [], count: 32) == nil)
        handshake.run()
        let mine = try #require(handshake.client.exportKeyingMaterial(label: "kith", context: [1], count: 32))
        #expect(mine.count == 32)
        #expect(handshake.server.exportKeyingMaterial(label: "kith", context: [1], count: 32) == mine)
        #expect(handshake.server.exportKeyingMaterial(label: "kith", context: [2], count: 32) != mine)
        #expect(handshake.server.exportKeyingMaterial(label: "htik", context: [1], count: 32) != mine)
    }

    @Test func `a server with both credentials shows the kind the client asks for`() throws {
        let both = [bob.rawPublicKey, try bob.x509()]
        var wantsCertificate = client([alice.rawPublicKey])
        wantsCertificate.acceptedPeerKinds = [.x509]
        var first = try LoopbackHandshake(wantsCertificate, server(both))
        first.run()
        expectSuccess(first)
        #expect(first.client.peerCredential == .x509([try bob.certificate()]))

        var wantsKey = client([try alice.x509()])
        wantsKey.acceptedPeerKinds = [.rawPublicKey]
        var second = try LoopbackHandshake(wantsKey, server(both))
        second.run()
        expectSuccess(second)
        #expect(second.client.peerCredential == .rawPublicKey(bob.publicKey))
        #expect(second.server.peerCredential == .x509([try alice.certificate()]))
    }

    @Test func `certificates authenticate both ends`() throws {
        var handshake = try LoopbackHandshake(client([try alice.x509()]), server([try bob.x509()]))
        handshake.run()
        expectSuccess(handshake)
        #expect(handshake.client.peerCredential == .x509([try bob.certificate()]))
        #expect(handshake.server.peerCredential == .x509([try alice.certificate()]))
    }

    @Test func `the server takes its first protocol that the client offers`() throws {
        var handshake = try LoopbackHandshake(
            client([alice.rawPublicKey], alpn: ["c", "b", "a"]), server([bob.rawPublicKey], alpn: ["x", "a", "b"]))
        handshake.run()
        expectSuccess(handshake)
        #expect(handshake.client.negotiatedALPN == "a")
    }

    @Test func `the post-quantum group is chosen when asked for, and its first message exceeds a datagram`() throws {
        var configuration = client([alice.rawPublicKey])
        configuration.keyExchange = .postQuantum
        var handshake = try LoopbackHandshake(configuration, server([bob.rawPublicKey]))
        handshake.run()
        expectSuccess(handshake)
        #expect(handshake.client.keyExchangeGroup == 0x11ec)
        #expect(handshake.clientHelloLength > 1200)

        var classical = try LoopbackHandshake(client([alice.rawPublicKey]), server([bob.rawPublicKey]))
        classical.run()
        #expect(classical.clientHelloLength < 600)
    }

    @Test func `a server that knows no post-quantum group takes the X25519 share beside it`() throws {
        var offering = client([alice.rawPublicKey])
        offering.keyExchange = .postQuantum
        var knowing = server([bob.rawPublicKey])
        knowing.keyExchange = .classicalOnly
        var handshake = try LoopbackHandshake(offering, knowing)
        handshake.run()
        expectSuccess(handshake)
        #expect(handshake.client.keyExchangeGroup == 0x001D)
        #expect(handshake.server.keyExchangeGroup == 0x001D)
        // And a client that bets on X25519 is asked for nothing else.
        var other = try LoopbackHandshake(client([alice.rawPublicKey]), server([bob.rawPublicKey]))
        other.run()
        #expect(other.client.keyExchangeGroup == 0x001D)
    }

    @Test func `a ClientHello holds reserved values, and its extensions in no fixed order`() throws {
        var orders: Set<[UInt16]> = []
        for _ in 0..<20 {
            let session = try TLSSession(client([alice.rawPublicKey]))
            try session.advance()
            let hello = try #require(session.nextOutput()?.bytes)
            // Type, length, version, random, session id; then the cipher suites (RFC 8446 §4.1.2).
            var offset = 4 + 2 + 32
            offset += 1 + Int(hello[offset])
            func word(_ at: Int) -> UInt16 { UInt16(hello[at]) << 8 | UInt16(hello[at + 1]) }
            func isReserved(_ value: UInt16) -> Bool { value & 0x0F0F == 0x0A0A && value >> 8 == value & 0xFF }
            let suites = stride(from: offset + 2, to: offset + 2 + Int(word(offset)), by: 2).map(word)
            #expect(suites.contains(where: isReserved))
            offset += 2 + Int(word(offset))
            offset += 1 + Int(hello[offset])
            offset += 2
            var extensions: [UInt16] = []
            while offset < hello.count {
                extensions.append(word(offset))
                offset += 4 + Int(word(offset + 2))
            }
            #expect(extensions.contains(where: isReserved))
            orders.insert(extensions.filter { !isReserved($0) })
        }
        #expect(orders.count > 1)
    }

    @Test func `the client's server name arrives`() throws {
        var configuration = client([alice.rawPublicKey])
        configuration.serverName = "laptop.example"
        var handshake = try LoopbackHandshake(configuration, server([bob.rawPublicKey]))
        handshake.run()
        expectSuccess(handshake)
        #expect(handshake.server.serverName == "laptop.example")
    }

    @Test func `a ticket resumes the session, and the peer is still known and asked about`() throws {
        let ticketKey = SecretBytes([UInt8](repeating: 7, count: 48))
        let (a, b) = (alice.publicKey, bob.publicKey)
        var answering = server([bob.rawPublicKey]) { $0 == .rawPublicKey(a) }
        answering.ticketKey = ticketKey
        var first = try LoopbackHandshake(client([alice.rawPublicKey]), answering)
        first.run()
        expectSuccess(first)
        let ticket = try #require(first.client.nextTicket())

        var returning = client([alice.rawPublicKey]) { $0 == .rawPublicKey(b) }
        returning.ticket = ticket
        var second = try LoopbackHandshake(returning, answering)
        second.run()
        expectSuccess(second)
        #expect(second.client.isResumed)
        #expect(second.server.isResumed)
        #expect(second.client.peerCredential == .rawPublicKey(b))

        var forgetting = server([bob.rawPublicKey]) { _ in false }
        forgetting.ticketKey = ticketKey
        returning.ticket = ticket
        var third = try LoopbackHandshake(returning, forgetting)
        third.run()
        #expect(third.serverAlert?.code == TLSAlert.accessDenied)
        #expect(!third.server.isComplete)
    }

    @Test func `a client that takes nothing but raw keys gets a full handshake each time, and no tickets`() throws {
        let ticketKey = SecretBytes([UInt8](repeating: 7, count: 48))
        var asking = client([alice.rawPublicKey])
        var answering = server([bob.rawPublicKey])
        answering.ticketKey = ticketKey
        var first = try LoopbackHandshake(asking, answering)
        first.run()
        let ticket = try #require(first.client.nextTicket())
        // The ticket of the same device when it took both kinds.
        asking.acceptedPeerKinds = [.rawPublicKey]
        asking.ticket = ticket
        var second = try LoopbackHandshake(asking, answering)
        second.run()
        expectSuccess(second)
        #expect(!second.client.isResumed && !second.server.isResumed)
        #expect(second.client.nextTicket() == nil)
    }

    @Test func `a server without a ticket key sends no tickets`() throws {
        var handshake = try LoopbackHandshake(client([alice.rawPublicKey]), server([bob.rawPublicKey]))
        handshake.run()
        expectSuccess(handshake)
        #expect(handshake.client.nextTicket() == nil)
    }

    @Test func `key log lines are kept only on demand`() throws {
        var logging = client([alice.rawPublicKey])
        logging.wantsKeyLog = true
        var handshake = try LoopbackHandshake(logging, server([bob.rawPublicKey]))
        handshake.run()
        expectSuccess(handshake)
        var lines: [String] = []
        while let line = handshake.client.nextKeyLogLine() { lines.append(line) }
        #expect(lines.contains { $0.hasPrefix("CLIENT_TRAFFIC_SECRET_0 ") })
        #expect(handshake.server.nextKeyLogLine() == nil)
    }

    // MARK: - Edges

    @Test func `a handshake fed byte by byte completes`() throws {
        var configuration = client([try alice.x509()])
        configuration.keyExchange = .postQuantum
        var handshake = try LoopbackHandshake(configuration, server([bob.rawPublicKey, try bob.x509()]))
        handshake.fragment = 1
        handshake.run()
        expectSuccess(handshake)
    }

    @Test func `a client without a credential is let in only where none is required and verify agrees`() throws {
        var strict = try LoopbackHandshake(client([]), server([bob.rawPublicKey]))
        strict.run()
        #expect(strict.serverAlert?.code == TLSAlert.certificateRequired)

        var lenient = server([bob.rawPublicKey]) { $0 == .none }
        lenient.requirePeerCredential = false
        var open = try LoopbackHandshake(client([]), lenient)
        open.run()
        expectSuccess(open)
        #expect(open.server.peerCredential == .none)

        var closed = server([bob.rawPublicKey]) { $0 != .none }
        closed.requirePeerCredential = false
        var refused = try LoopbackHandshake(client([]), closed)
        refused.run()
        #expect(refused.serverAlert?.code == TLSAlert.accessDenied)
        #expect(!refused.server.isComplete)
    }

    @Test func `a malformed credential is refused when the session is made`() throws {
        let certificate = try alice.certificate()
        for credential: Credential in [
            .rawPublicKey(seed: [1, 2, 3]), .x509(chain: [], seed: alice.seed),
            .x509(chain: [[1, 2, 3]], seed: alice.seed), .x509(chain: [certificate], seed: bob.seed),
        ] {
            #expect(throws: TLSAlert.self) { try TLSSession(self.client([credential])) }
        }
        #expect(throws: TLSAlert.self) { try TLSSession(self.client([], alpn: [])) }
        #expect(throws: TLSAlert.self) { try TLSSession(self.client([], alpn: [""])) }
    }

    // MARK: - Attacks

    @Test func `a client refuses a server with the wrong key by alert 49`() throws {
        let expected = alice.publicKey
        var handshake = try LoopbackHandshake(
            client([alice.rawPublicKey]) { $0 == .rawPublicKey(expected) }, server([bob.rawPublicKey]))
        handshake.run()
        #expect(handshake.clientAlert?.code == TLSAlert.accessDenied)
        #expect(handshake.clientAlert?.transportErrorCode == 0x131)
        #expect(!handshake.client.isComplete)
        #expect(!handshake.server.isComplete)
    }

    @Test func `a server refuses a client with the wrong key by alert 49`() throws {
        var handshake = try LoopbackHandshake(
            client([alice.rawPublicKey]), server([bob.rawPublicKey]) { _ in false })
        handshake.run()
        #expect(handshake.serverAlert?.code == TLSAlert.accessDenied)
        #expect(!handshake.server.isComplete)
    }

    @Test func `no protocol in common is alert 120`() throws {
        var handshake = try LoopbackHandshake(
            client([alice.rawPublicKey], alpn: ["h3"]), server([bob.rawPublicKey]))
        handshake.run()
        #expect(handshake.serverAlert?.code == TLSAlert.noApplicationProtocol)
    }

    @Test func `a client that accepts only keys refuses a server with only a certificate`() throws {
        var configuration = client([alice.rawPublicKey])
        configuration.acceptedPeerKinds = [.rawPublicKey]
        var handshake = try LoopbackHandshake(configuration, server([try bob.x509()]))
        handshake.run()
        #expect(handshake.serverAlert != nil)
        #expect(!handshake.client.isComplete)
    }

    @Test func `bytes at a level that is not due are refused`() throws {
        let session = try TLSSession(server([bob.rawPublicKey]))
        #expect(throws: TLSAlert.self) { try session.provide(.handshake, [1, 2, 3]) }
        #expect(session.readLevel == .initial)
    }

    @Test(arguments: [UInt64(1), 2, 3]) func `a damaged handshake ends in an alert, never in a connection`(
        seed: UInt64
    ) throws {
        var dice = SeededRandom(seed: seed)
        for _ in 0..<50 {
            let client = try TLSSession(client([alice.rawPublicKey]))
            let server = try TLSSession(server([bob.rawPublicKey]))
            try client.advance()
            var hello = try #require(client.nextOutput()).bytes
            let place = Int.random(in: 0..<hello.count, using: &dice)
            hello[place] ^= UInt8.random(in: 1...255, using: &dice)
            do throws(TLSAlert) {
                try server.provide(.initial, hello)
                try server.advance()
                while let output = server.nextOutput() {
                    try client.provide(output.level, output.bytes)
                    try client.advance()
                }
            } catch {
                #expect(error.code != 0)
            }
            #expect(!client.isComplete, "seed \(seed), byte \(place)")
            #expect(!server.isComplete)
        }
    }
}
