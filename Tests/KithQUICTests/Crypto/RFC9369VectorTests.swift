import Testing

import KithWire

@testable import KithQUIC

/// The worked examples of RFC 9369, Appendix A: QUIC version 2, through both implementations of packet protection.
@Suite("RFC 9369 Appendix A") struct RFC9369VectorTests {
    static let destination = RFC9001VectorTests.destination
    static let shortHeaderSecret = SecretBytes(
        fromHex("9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b"))

    @Test func `A.1 the Initial secrets and keys`() {
        func derive(_ secret: SecretBytes, _ label: String, _ count: Int) -> SecretBytes {
            KeySchedule.expandLabel(secret, label, count: count, suite: .aes128GCM)
        }
        let secrets = KeySchedule.initialSecrets(destination: Self.destination, .two)
        #expect(
            secrets.client
                == SecretBytes(fromHex("14ec9d6eb9fd7af83bf5a668bc17a7e283766aade7ecd0891f70f9ff7f4bf47b")))
        #expect(
            secrets.server
                == SecretBytes(fromHex("0263db1782731bf4588e7e4d93b7463907cb8cd8200b5da55a8bd488eafc37c1")))
        #expect(
            derive(secrets.client, "quicv2 key", 16) == SecretBytes(fromHex("8b1a0bc121284290a29e0971b5cd045d")))
        #expect(derive(secrets.client, "quicv2 iv", 12) == SecretBytes(fromHex("91f73e2351d8fa91660e909f")))
        #expect(
            derive(secrets.client, "quicv2 hp", 16) == SecretBytes(fromHex("45b95e15235d6f45a6b19cbcb0294ba9")))
        #expect(
            derive(secrets.server, "quicv2 key", 16) == SecretBytes(fromHex("82db637861d55e1d011f19ea71d5d2a7")))
        #expect(derive(secrets.server, "quicv2 iv", 12) == SecretBytes(fromHex("dd13c276499c0249d3310652")))
        #expect(
            derive(secrets.server, "quicv2 hp", 16) == SecretBytes(fromHex("edf6d05c83121201b436e16877593c3a")))
    }

    static let examples = [
        ProtectionExample(
            name: "A.3 server Initial", version: .two, suite: .aes128GCM,
            secret: KeySchedule.initialSecrets(destination: destination, .two).server,
            header: fromHex("d16b3343cf0008f067a5502a4262b50040750001"), numberLength: 2, number: 1,
            payload: fromHex(
                """
                02000000000600405a020000560303eefce7f7b37ba1d1632e96677825ddf739
                88cfc79825df566dc5430b9a045a1200130100002e00330024001d00209d3c94
                0d89690b84d08a60993c144eca684d1081287c834d5311bcf32bb9da1a002b00
                020304
                """),
            wire: fromHex(
                """
                dc6b3343cf0008f067a5502a4262b5004075d92faaf16f05d8a4398c47089698
                baeea26b91eb761d9b89237bbf87263017915358230035f7fd3945d88965cf17
                f9af6e16886c61bfc703106fbaf3cb4cfa52382dd16a393e42757507698075b2
                c984c707f0a0812d8cd5a6881eaf21ceda98f4bd23f6fe1a3e2c43edd9ce7ca8
                4bed8521e2e140
                """)),
        ProtectionExample(
            name: "A.5 ChaCha20-Poly1305 short header", version: .two, suite: .chacha20Poly1305,
            secret: shortHeaderSecret,
            header: fromHex("4200bff4"), numberLength: 3, number: 654_360_564, payload: [0x01],
            wire: fromHex("5558b1c60ae7b6b932bc27d786f4bc2bb20f2162ba")),
    ]

    @Test(arguments: examples) func `BoringSSL makes and opens the packet`(_ example: ProtectionExample) {
        example.check(PacketKeys.self)
    }

    @Test(arguments: examples) func `swift-crypto makes and opens the packet`(_ example: ProtectionExample) {
        example.check(ReferencePacketKeys.self)
    }

    @Test func `A.4 the Retry packet's tag`() {
        let retry = fromHex("cf6b3343cf0008f067a5502a4262b5746f6b656ec8646ce8bfe33952d955543665dcc7b6")
        #expect(retry.withUnsafeBytes { RetryIntegrity.isValid(original: Self.destination, retry: $0, .two) })
        #expect(!retry.withUnsafeBytes { RetryIntegrity.isValid(original: Self.destination, retry: $0, .one) })
    }

    @Test func `A.5 both implementations agree on the next key phase`() {
        let fast = PacketKeys(suite: .chacha20Poly1305, secret: Self.shortHeaderSecret, version: .two).updated()
        let reference = ReferencePacketKeys(
            suite: .chacha20Poly1305, secret: Self.shortHeaderSecret, version: .two
        ).updated()
        let first = PacketKeys(suite: .chacha20Poly1305, secret: Self.shortHeaderSecret, version: .one).updated()
        func seal(_ keys: some PacketProtection) -> [UInt8] {
            var packet = fromHex("4200bff401") + [UInt8](repeating: 0, count: CipherSuite.tagLength)
            packet.withUnsafeMutableBytes { packet in
                guard let base = packet.baseAddress else { return }
                keys.protect(base, headerLength: 4, packetNumberLength: 3, payloadLength: 1, packetNumber: 654_360_564)
            }
            return packet
        }
        #expect(seal(fast) == seal(reference))
        #expect(seal(fast) != seal(first))
    }

    @Test func `the types of long headers have other numbers than in version 1`() {
        // RFC 9369 §3.2.
        let kinds: [PacketHeader.Kind] = [.initial, .zeroRTT, .handshake, .retry]
        #expect(kinds.map { QUICVersion.one.typeBits($0) } == [0, 1, 2, 3])
        #expect(kinds.map { QUICVersion.two.typeBits($0) } == [1, 2, 3, 0])
        for version in QUICVersion.allCases {
            #expect(kinds.map { version.kind(typeBits: version.typeBits($0)) } == kinds)
        }
    }
}
