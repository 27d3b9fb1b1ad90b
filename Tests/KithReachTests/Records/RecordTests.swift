import KithIdentity
import KithReach
import KithTesting
import KithWire
import Testing

@Suite("Records") struct RecordTests {
    private let key: DeviceKey

    init() throws { key = try DeviceKey(seed: Array(0..<32)) }

    @Test func `keys are written in z-base-32`() throws {
        #expect(ZBase32.encode([0xF0, 0xBF, 0xC7]) == "6n9hq")
        #expect(ZBase32.encode([UInt8](repeating: 255, count: 32)) == String(repeating: "9", count: 51) + "o")
        #expect(key.id.zBase32 == "yqooxx9u3aemh8mo5wcqq16yufu6jitouq1o4za751dger1igghy")
        #expect(DeviceID(zBase32: key.id.zBase32.uppercased()) == key.id)
        // The filling bits of the last letter, a letter of another alphabet, another count.
        #expect(DeviceID(zBase32: String(key.id.zBase32.dropLast()) + "b") == nil)
        #expect(DeviceID(zBase32: "l" + key.id.zBase32.dropFirst()) == nil)
        #expect(DeviceID(zBase32: key.id.zBase32 + "y") == nil)
    }

    @Test func `a record signed by another implementation is read`() throws {
        let record = try SignedRecord(key.id, body: RecordVectors.body)
        #expect(record.time == 1_700_000_000_123_456)
        #expect(record.body == RecordVectors.body)
        let said = try DeviceRecord(record)
        #expect(said.relays.map(\.description) == ["https://relay.example.org"])
        #expect(said.addresses.map(\.description) == ["203.0.113.7:4433", "[2001:db8::1]:4433"])
        #expect(said.userData == "hello")
    }

    @Test func `Kith writes what another implementation wrote, byte for byte`() throws {
        let said = try DeviceRecord(SignedRecord(key.id, body: RecordVectors.body))
        let record = try said.signed(by: key, at: 1_700_000_000_123_456)
        // The signatures differ where the key signs with added randomness, and both are valid.
        #expect(record.message == Array(RecordVectors.body.dropFirst(72)))
        #expect(try SignedRecord(key.id, body: record.body) == record)
    }

    @Test func `one changed bit anywhere is noticed`() {
        for index in RecordVectors.body.indices {
            var body = RecordVectors.body
            body[index] ^= 1
            #expect(throws: WireError.self) { try SignedRecord(key.id, body: body) }
        }
        #expect(throws: WireError.self) { try SignedRecord(DeviceKey().id, body: RecordVectors.body) }
    }

    @Test func `a record has at most a thousand bytes of message`() throws {
        let longest = try SignedRecord(signing: [UInt8](repeating: 7, count: 1_000), at: 1, by: key)
        #expect(longest.body.count == SignedRecord.maxBodyLength)
        #expect(try SignedRecord(key.id, body: longest.body) == longest)
        #expect(throws: KithError(.invalid, "")) {
            try SignedRecord(signing: [UInt8](repeating: 7, count: 1_001), at: 1, by: key)
        }
        #expect(throws: WireError.tooLong(limit: 1_072, actual: 1_073)) {
            try SignedRecord(key.id, body: [UInt8](repeating: 7, count: 1_073))
        }
        #expect(throws: WireError.self) { try SignedRecord(key.id, body: Array(RecordVectors.body.prefix(71))) }
    }

    @Test func `a newer record replaces an older, and of two as old the larger`() throws {
        func record(_ message: [UInt8], _ time: UInt64) throws -> SignedRecord {
            try SignedRecord(signing: message, at: time, by: key)
        }
        let first = try record([2], 10)
        #expect(try record([1], 11).replaces(first))
        #expect(try !record([9], 9).replaces(first))
        #expect(try record([2, 0], 10).replaces(first))
        #expect(try !record([1, 9], 10).replaces(first))
        #expect(!first.replaces(first))
    }

    @Test func `times rise when the clock is set back`() {
        var clock = RecordClock(after: 1_000)
        #expect(clock.next(at: 5_000) == 5_000)
        #expect(clock.next(at: 10) == 5_001)
        #expect(clock.next(at: 5_001) == 5_002)
        clock.saw(7_000)
        clock.saw(6_000)
        #expect(clock.next(at: 0) == 7_001)
        clock.saw(.max)
        #expect(clock.next(at: 8_000) == nil)
        #expect(clock.last == .max)
    }

    @Test func `the key of a relay stands where only Kith reads`() throws {
        let keyed = try #require(RelayAddress("https://relay.example.org#\(key.id)"))
        let plain = try #require(RelayAddress("http://192.0.2.1:3340"))
        let said = DeviceRecord(relays: [keyed, plain])
        let record = try said.signed(by: key, at: 1)
        #expect(try DeviceRecord(record) == said)
        let strings = try DNSMessage(record.message).answers.map { answer -> String in
            guard case .text(let parts) = answer.content else { return "" }
            return
                "\(answer.name.labels.map { String(decoding: $0, as: UTF8.self) }[0]) \(String(decoding: parts[0], as: UTF8.self))"
        }
        #expect(
            strings == [
                "_iroh relay=https://relay.example.org", "_iroh relay=http://192.0.2.1:3340", "_kith relay=\(keyed)",
            ])
    }

    @Test func `what others put into a record is passed over where it cannot be read`() throws {
        var message = DNSMessage()
        let texts = [
            "relay", "relay=", "relay=ftp://x", "relay=https://a.example", "relay=https://a.example", "addr=1.2.3.4",
            "addr=127.0.0.1:1", "addr=[fe80::1%2]:1", "addr=192.0.2.1:0", "addr=192.0.2.1:7", "colour=blue", "",
        ]
        let name = try #require(DNSName("_iroh.\(key.id.zBase32)"))
        message.answers = texts.map { DNSRecord(name, timeToLive: 1, .text([Array($0.utf8)])) }
        message.answers.append(DNSRecord(name, timeToLive: 1, .text([[0xFF, 0x3D, 0xFE]])))
        message.answers.append(
            DNSRecord(try #require(DNSName("_iroh.other")), timeToLive: 1, .text([Array("addr=192.0.2.9:9".utf8)])))
        let said = try DeviceRecord(SignedRecord(signing: try message.encoded(), at: 1, by: key))
        #expect(said.relays.map(\.description) == ["https://a.example"])
        #expect(said.addresses.map(\.description) == ["192.0.2.1:7"])
        #expect(said.userData == nil)
    }

    @Test func `what a record cannot say is refused when it is written`() throws {
        func refuses(_ record: DeviceRecord) {
            #expect(throws: KithError(.invalid, "")) { try record.signed(by: key, at: 1) }
        }
        let relay = try #require(RelayAddress("https://a.example"))
        refuses(DeviceRecord(relays: [RelayAddress](repeating: relay, count: 5)))
        let long = try #require(
            RelayAddress(
                "https://" + [String](repeating: String(repeating: "a", count: 57), count: 4).joined(separator: ".")
                    + ".ab:12345"))
        refuses(DeviceRecord(relays: [RelayAddress](repeating: long, count: 4)))
        refuses(DeviceRecord(addresses: [NetworkAddress(ipv4: (127, 0, 0, 1), port: 1)]))
        refuses(DeviceRecord(addresses: [NetworkAddress(ipv4: (192, 0, 2, 1), port: 0)]))
        refuses(DeviceRecord(userData: "a=b"))
        refuses(DeviceRecord(userData: String(repeating: "a", count: 246)))
    }
}
