import KithIdentity
import KithTesting
import KithWire
import Testing

@Suite struct LocalAnnouncementTests {
    private static let addresses = [
        NetworkAddress(ipv4: (192, 0, 2, 7), port: 4_433), NetworkAddress(ipv6: 0x2001_0DB8 << 32, 7, port: 65_535),
    ]

    @Test func `it survives, and names nothing but the key, the addresses and the time`() throws {
        let key = DeviceKey()
        let announcement = LocalAnnouncement(id: key.id, number: .max, lifetime: 90, addresses: Self.addresses)
        let received = try ReceivedAnnouncement(announcement.signed(by: key))
        #expect(received.claim == announcement)
        #expect(received.isGenuine)
        #expect(try ReceivedAnnouncement.device(named: announcement.signed(by: key)) == key.id)
        #expect(ReceivedAnnouncement.device(named: []) == nil)
        #expect(!received.claim.isGoodbye)
        #expect(try announcement.signed(by: key).count < 300)
    }

    @Test func `it holds at most ten addresses, an hour and a kilobyte`() throws {
        let key = DeviceKey()
        let many = (0..<40).map { NetworkAddress(ipv6: 0x2001_0DB8 << 32, $0, port: 1) }
        let announcement = LocalAnnouncement(id: key.id, number: 1, lifetime: .max, addresses: many)
        #expect(announcement.addresses == Array(many.prefix(10)) && announcement.lifetime == 3_600)
        let bytes = try announcement.signed(by: key)
        #expect(bytes.count <= LocalAnnouncement.maxBytes)
        #expect(throws: KithError(.invalid, "")) {
            try ReceivedAnnouncement(bytes + [UInt8](repeating: 0, count: LocalAnnouncement.maxBytes))
        }
    }

    @Test func `not a bit of it can be changed`() throws {
        let key = DeviceKey()
        let bytes = try LocalAnnouncement(id: key.id, number: 7, lifetime: 90, addresses: Self.addresses).signed(
            by: key)
        for index in bytes.indices {
            for bit in 0..<8 {
                var changed = bytes
                changed[index] ^= 1 << bit
                // Most of what is changed cannot be read; what can is not genuine.
                if let received = try? ReceivedAnnouncement(changed) { #expect(!received.isGenuine) }
            }
        }
    }

    @Test func `what was signed for another purpose is no announcement`() throws {
        let key = DeviceKey()
        let bytes = try LocalAnnouncement(id: key.id, number: 7, lifetime: 90, addresses: []).signed(by: key)
        // The statement is a byte string in the envelope: signed as it is, without the purpose before it.
        struct Envelope: Codable {
            var v: UInt64
            var id: ByteString
            var sig: ByteString
            var body: ByteString
        }
        var envelope = try CBORDecoder().decode(Envelope.self, from: bytes)
        envelope.sig = ByteString(try key.signature(for: key.id.bytes + envelope.body.bytes))
        #expect(try !ReceivedAnnouncement(CBOREncoder().encode(envelope)).isGenuine)
        envelope.v = 2
        let later = try CBOREncoder().encode(envelope)
        #expect(throws: KithError(.unsupported, "")) { try ReceivedAnnouncement(later) }
    }
}
