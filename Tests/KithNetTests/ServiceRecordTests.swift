import KithIdentity
import KithTesting
import KithWire
import Testing

@testable import KithNet

/// The TXT record that carries an announcement, and the messages to Avahi that carry the record.
@Suite struct ServiceRecordTests {
    private let key = DeviceKey()

    private func record(_ bytes: [UInt8]) -> ServiceRecord? {
        ServiceRecord(interface: 2, addresses: [NetworkAddress(ipv4: (10, 0, 0, 1), port: 4_433)], announcement: bytes)
    }

    /// The strings as data of a record.
    private func data(_ strings: [[UInt8]]) -> [UInt8] { strings.flatMap { [UInt8($0.count)] + $0 } }

    @Test func `the largest announcement fits, and comes back`() throws {
        let many = (0..<10).map { NetworkAddress(ipv6: 0x2001_0db8 << 32, UInt64($0), port: 65_535) }
        let bytes = try LocalAnnouncement(id: key.id, number: .max, lifetime: 3_600, addresses: many).signed(by: key)
        let record = try #require(self.record(bytes))
        #expect(record.text.allSatisfy { $0.count <= 255 })
        #expect(data(record.text).count <= ServiceRecord.maxBytes)
        #expect(ServiceRecord.announcement(in: data(record.text)) == bytes)
        // In another order, with what a later version adds; of what is there twice the first counts.
        let other = record.text.reversed() + [Array("x=1".utf8), Array("a0=AAAA".utf8), []]
        #expect(ServiceRecord.announcement(in: data(other)) == bytes)
    }

    @Test(arguments: [
        "", "\u{03}a0", "\u{04}a1=A", "\u{05}a0=AA\u{05}a2=AA", "\u{06}a0=A=A", "\u{06}a0=A A", "\u{07}a0=ABC",
        "\u{04}a0=A", "\u{09}txtvers=1",
    ]) func `what is not an announcement is none`(text: String) {
        #expect(ServiceRecord.announcement(in: Array(text.utf8)) == nil)
    }

    @Test func `a record that is too long is not read, and an announcement that is too long is not offered`() {
        let long = [UInt8](repeating: 65, count: 252)
        let strings = (0..<4).map { Array("a\($0)=".utf8) + long.dropLast(4) }
        #expect(ServiceRecord.announcement(in: data(strings)) != nil)
        #expect(ServiceRecord.announcement(in: data(strings + [long, long])) == nil)
        #expect(record([UInt8](repeating: 0, count: 800)) == nil)
    }

    @Test func `a service is called by its device's key, and by nothing else`() {
        let name = ServiceRecord.name(of: key.id)
        #expect(name.utf8.count == 55 && ServiceRecord.device(named: name) == key.id)
        #expect(ServiceRecord.device(named: ServiceRecord.name(of: key.id, attempt: 7)) == key.id)
        for other in [
            "", "-", "laptop", name + "-", name + "-a", name + "-2-3", name + "-1234", name + ".x", "\(name) ",
            String(name.dropLast()), name + "\\", key.id.description,
        ] { #expect(ServiceRecord.device(named: other) == nil, "\(other)") }
    }

    @Test func `a message to the bus comes back as it was, and one that is cut or changed traps nobody`() throws {
        var message = DBusMessage()
        (message.serial, message.replySerial) = (7, 6)
        (message.path, message.interface, message.member) = ("/a", "a.b", "c")
        (message.destination, message.sender) = ("d.e", ":1.2")
        message.values = [
            .byte(1), .uint16(2), .int32(-3), .uint32(4), .string("fünf"), .path("/six"), .bytes([7]),
            .lists([[], [8], [9, 10]]),
        ]
        let bytes = message.bytes
        #expect(try DBusMessage(bytes) == message)
        #expect(try DBusMessage.length(of: bytes) == bytes.count)
        for end in 0..<bytes.count {
            #expect(throws: KithError.self) { try DBusMessage(Array(bytes[..<end])) }
        }
        var random = SeededRandom(seed: 1)
        for _ in 0..<20_000 {
            var other = bytes
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                other[Int.random(in: 0..<other.count, using: &random)] = .random(in: 0...255, using: &random)
            }
            // It is read or refused.
            if let read = try? DBusMessage(other) { #expect(read.values.count <= other.count) }
        }
        #expect(throws: KithError(.invalid, "")) {
            try DBusMessage.length(of: [108, 1, 0, 1, 255, 255, 255, 255, 1, 0, 0, 0, 255, 255, 255, 255])
        }
    }

    #if os(Linux)
    @Test func `the address of a bus is read`() {
        #expect(AvahiResponder.busPath(nil) == "/run/dbus/system_bus_socket")
        #expect(AvahiResponder.busPath("tcp:host=a;unix:guid=1,path=/x") == "/x")
        #expect(AvahiResponder.busPath("tcp:host=a") == nil)
    }
    #endif
}
