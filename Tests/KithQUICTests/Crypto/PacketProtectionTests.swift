import KithQUIC
import KithWire
import KithTesting
import Testing

/// BoringSSL and swift-crypto, given the same keys, must make the same bytes and refuse the same packets.
@Suite("Packet protection") struct PacketProtectionTests {
    static let seed: UInt64 = 0x6b69_7468_2d71_7569

    /// One packet in the clear, with room for its tag.
    private struct Draft {
        var header: [UInt8]
        var numberLength: Int
        var number: UInt64
        var payload: [UInt8]

        init(using dice: inout SeededRandom) {
            numberLength = Int.random(in: 1...4, using: &dice)
            number = dice.next() >> UInt64.random(in: 2...63, using: &dice)
            let isLong = Bool.random(using: &dice)
            let first = (isLong ? 0xc0 : 0x40) | UInt8.random(in: 0...15, using: &dice) & 0x0c
            let middle = dice.bytes(Int.random(in: isLong ? 6...60 : 0...20, using: &dice))
            header = [first | UInt8(numberLength - 1)] + middle
            for index in (0..<numberLength).reversed() {
                header.append(UInt8(truncatingIfNeeded: number >> (8 * UInt64(index))))
            }
            payload = dice.bytes(Int.random(in: max(4 - numberLength, 0)...1452, using: &dice))
        }

        var space: [UInt8] { header + payload + [UInt8](repeating: 0, count: CipherSuite.tagLength) }

        func slot(at offset: Int) -> PacketSlot {
            PacketSlot(
                offset: offset, headerLength: header.count, packetNumberLength: numberLength,
                payloadLength: payload.count, packetNumber: number)
        }
    }

    private func protect(_ drafts: [Draft], _ keys: some PacketProtection) -> [UInt8] {
        var buffer: [UInt8] = []
        var slots: [PacketSlot] = []
        for draft in drafts {
            slots.append(draft.slot(at: buffer.count))
            buffer += draft.space
        }
        buffer.withUnsafeMutableBytes { buffer in
            guard let base = buffer.baseAddress else { return }
            slots.withUnsafeBufferPointer { keys.protect(base, $0) }
        }
        return buffer
    }

    /// Opens a packet; nil when any step refuses it.
    private func open(_ wire: [UInt8], like draft: Draft, _ keys: some PacketProtection) -> [UInt8]? {
        var wire = wire
        return wire.withUnsafeMutableBytes { packet in
            let numberOffset = draft.header.count - draft.numberLength
            guard
                let header = keys.unmask(packet, packetNumberOffset: numberOffset),
                let count = keys.open(
                    packet, headerLength: numberOffset + header.packetNumberLength, packetNumber: draft.number)
            else { return nil }
            return Array(packet[(numberOffset + header.packetNumberLength)...].prefix(count))
        }
    }

    @Test(arguments: CipherSuite.allCases) func `the same keys make the same bytes in both implementations`(
        suite: CipherSuite
    ) throws {
        var dice = SeededRandom(seed: Self.seed)
        for round in 0..<100 {
            let secret = SecretBytes(dice.bytes(suite.hashLength))
            let fast = PacketKeys(suite: suite, secret: secret)
            let reference = ReferencePacketKeys(suite: suite, secret: secret)
            let drafts = (0..<Int.random(in: 1...40, using: &dice)).map { _ in Draft(using: &dice) }
            let wire = protect(drafts, fast)
            #expect(wire == protect(drafts, reference), "seed \(Self.seed), round \(round)")
            var offset = 0
            for draft in drafts {
                let packet = Array(wire[offset..<offset + draft.space.count])
                offset += packet.count
                #expect(open(packet, like: draft, fast) == draft.payload)
                if Int.random(in: 0..<8, using: &dice) == 0 {
                    #expect(open(packet, like: draft, reference) == draft.payload)
                }
            }
        }
    }

    @Test(arguments: CipherSuite.allCases) func `a packet with one bit changed is refused by both`(
        suite: CipherSuite
    ) {
        var dice = SeededRandom(seed: Self.seed &+ 1)
        let secret = SecretBytes(dice.bytes(suite.hashLength))
        let fast = PacketKeys(suite: suite, secret: secret)
        let reference = ReferencePacketKeys(suite: suite, secret: secret)
        for round in 0..<1000 {
            let draft = Draft(using: &dice)
            var wire = protect([draft], fast)
            let bit = Int.random(in: 0..<wire.count * 8, using: &dice)
            wire[bit / 8] ^= 1 << UInt8(bit % 8)
            #expect(open(wire, like: draft, fast) == nil, "seed \(Self.seed &+ 1), round \(round), bit \(bit)")
            #expect(open(wire, like: draft, reference) == nil, "seed \(Self.seed &+ 1), round \(round), bit \(bit)")
        }
    }

    @Test(arguments: CipherSuite.allCases) func `a batch is the same as its packets one by one`(suite: CipherSuite) {
        var dice = SeededRandom(seed: Self.seed &+ 2)
        let keys = PacketKeys(suite: suite, secret: SecretBytes(dice.bytes(suite.hashLength)))
        let drafts = (0..<64).map { _ in Draft(using: &dice) }
        #expect(protect(drafts, keys) == drafts.flatMap { protect([$0], keys) })
    }

    @Test(arguments: CipherSuite.allCases) func `a key update changes the packet keys and keeps the header's`(
        suite: CipherSuite
    ) {
        var dice = SeededRandom(seed: Self.seed &+ 3)
        let secret = SecretBytes(dice.bytes(suite.hashLength))
        var fast = PacketKeys(suite: suite, secret: secret)
        var reference = ReferencePacketKeys(suite: suite, secret: secret)
        for _ in 0..<5 {
            let draft = Draft(using: &dice)
            let before = protect([draft], fast)
            fast = fast.updated()
            reference = reference.updated()
            let after = protect([draft], fast)
            #expect(after != before)
            #expect(after == protect([draft], reference))
            // The new keys read the old packet's header, and refuse its payload.
            var old = before
            let header = old.withUnsafeMutableBytes {
                fast.unmask($0, packetNumberOffset: draft.header.count - draft.numberLength)
            }
            #expect(header?.firstByte == draft.header[0])
            #expect(open(before, like: draft, fast) == nil)
        }
    }

    @Test func `a client's write keys are the server's read keys`() {
        let destination: [UInt8] = [1, 2, 3, 4, 5, 6, 7, 8]
        var dice = SeededRandom(seed: Self.seed &+ 4)
        let client = PacketKeys.initial(destination: destination, isClient: true)
        let server = PacketKeys.initial(destination: destination, isClient: false)
        let draft = Draft(using: &dice)
        #expect(open(protect([draft], client.write), like: draft, server.read) == draft.payload)
        #expect(open(protect([draft], server.write), like: draft, client.read) == draft.payload)
        #expect(open(protect([draft], client.write), like: draft, client.read) == nil)
    }

    @Test func `packets too short for a sample or a tag are refused, not read past`() {
        var dice = SeededRandom(seed: Self.seed &+ 5)
        let secret = SecretBytes(dice.bytes(32))
        for count in 0..<48 {
            var packet = dice.bytes(count)
            for offset in 0...count {
                packet.withUnsafeMutableBytes { packet in
                    for keys: any PacketProtection in [
                        PacketKeys(suite: .aes128GCM, secret: secret),
                        ReferencePacketKeys(suite: .aes128GCM, secret: secret),
                    ] {
                        let isLongEnough = offset > 0 && count - offset >= 20
                        #expect((keys.unmask(packet, packetNumberOffset: offset) != nil) == isLongEnough)
                        #expect(keys.open(packet, headerLength: offset, packetNumber: 0) == nil)
                    }
                }
            }
        }
    }

    @Test func `a refused packet keeps its last 16 bytes, where a stateless reset token would be`() {
        var dice = SeededRandom(seed: Self.seed &+ 6)
        let keys = PacketKeys(suite: .aes128GCM, secret: SecretBytes(dice.bytes(32)))
        var packet = dice.bytes(100)
        let token = Array(packet.suffix(16))
        #expect(packet.withUnsafeMutableBytes { keys.open($0, headerLength: 10, packetNumber: 1) } == nil)
        #expect(Array(packet.suffix(16)) == token)
    }

    @Test func `a stateless reset token depends on key and connection id alone`() {
        let key = [UInt8](repeating: 1, count: 32)
        let token = KeySchedule.statelessResetToken(key: key, connectionID: [1, 2, 3])
        #expect(token.count == 16)
        #expect(token == KeySchedule.statelessResetToken(key: key, connectionID: [1, 2, 3]))
        #expect(token != KeySchedule.statelessResetToken(key: key, connectionID: [1, 2, 4]))
        #expect(token != KeySchedule.statelessResetToken(key: [2] + key.dropFirst(), connectionID: [1, 2, 3]))
    }

    @Test func `secrets compare by content and show none of it`() {
        #expect(SecretBytes([1, 2, 3]) == SecretBytes([1, 2, 3]))
        #expect(SecretBytes([1, 2, 3]) != SecretBytes([1, 2, 4]))
        #expect(SecretBytes([1, 2, 3]) != SecretBytes([1, 2]))
        #expect(SecretBytes([]) == SecretBytes([]))
        #expect("\(SecretBytes([171, 171]))" == "2 secret bytes")
        var dumped = ""
        dump(Credential.rawPublicKey(seed: [UInt8](repeating: 171, count: 32)), to: &dumped)
        #expect(!dumped.contains("171"))
        #expect(isEqualInConstantTime([], []))
        #expect(isEqualInConstantTime([5], [5]))
        #expect(!isEqualInConstantTime([5], [6]))
        #expect(!isEqualInConstantTime([5], [5, 5]))
    }
}
