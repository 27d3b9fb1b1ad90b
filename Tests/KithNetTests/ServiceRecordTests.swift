import KithIdentity
import KithTesting
import KithWire
import Testing

@testable import KithNet

/// The TXT record that carries an announcement, and the messages to Avahi that carry the record.
@Suite struct ServiceRecordTests {
    private let key = DeviceKey()

    private func record(_ bytes: [UInt8]) -> ServiceRecord? {
        ServiceRecord(
            of: key.id, hour: 500_000, interface: 2, addresses: [NetworkAddress(ipv4: (10, 0, 0, 1), port: 4_433)],
            announcement: bytes)
    }

    /// The strings as data of a record.
    private func data(_ strings: [[UInt8]]) -> [UInt8] { strings.flatMap { [UInt8($0.count)] + $0 } }

    private func known(_ hour: UInt64, _ devices: DeviceID...) -> KnownServices {
        var known = KnownServices()
        _ = known.update(hour: hour, devices: devices)
        return known
    }

    @Test func `the largest announcement fits, and comes back to those who know the device`() throws {
        let many = (0..<10).map { NetworkAddress(ipv6: 0x2001_0db8 << 32, UInt64($0), port: 65_535) }
        let bytes = try LocalAnnouncement(id: key.id, number: .max, lifetime: 3_600, addresses: many).signed(by: key)
        let record = try #require(self.record(bytes))
        #expect(record.attempts.count == 8)
        for attempt in record.attempts {
            #expect(attempt.text.allSatisfy { $0.count <= 255 })
            #expect(data(attempt.text).count <= ServiceRecord.maxBytes)
            #expect(ServiceRecord.strings(in: data(attempt.text)) == attempt.text)
            let name = attempt.name.service
            #expect(known(500_000, key.id).open(attempt.text, named: name) == bytes)
            // In another order, with what a later version adds; of what is there twice the first counts.
            let other = attempt.text.reversed() + [Array("x=1".utf8), Array("a0=AAAA".utf8), []]
            #expect(known(500_000, key.id).open(other, named: name) == bytes)
            // Neither the key nor an address is to be seen.
            let sealed = try #require(ServiceRecord.sealed(in: attempt.text))
            #expect(!sealed.indices.contains { sealed[$0...].starts(with: key.id.bytes.prefix(4)) })
            // By another name it says nothing.
            let next = ServiceName(of: key.id, hour: 500_001).service
            #expect(known(500_000, key.id).open(attempt.text, named: next) == nil)
            #expect(known(500_000, DeviceKey().id).open(attempt.text, named: name) == nil)
        }
    }

    @Test func `a device is known by the names of three hours, as long as it is paired`() {
        let names = (0..<5).map { ServiceName(of: key.id, hour: 499_998 + $0, attempt: 7).service }
        var known = known(500_000, key.id)
        func update(_ hour: UInt64, _ devices: [DeviceID]) -> Bool { known.update(hour: hour, devices: devices) }
        #expect(names.map { known.device(named: $0) } == [nil, key.id, key.id, key.id, nil])
        #expect(!update(500_000, [key.id]))
        #expect(update(500_001, [key.id]))
        #expect(names.map { known.device(named: $0) } == [nil, nil, key.id, key.id, key.id])
        let other = DeviceKey().id
        #expect(update(500_001, [other]))
        #expect(names.allSatisfy { known.device(named: $0) == nil })
        #expect(known.device(named: ServiceName(of: other, hour: 500_001).service) == other)
        #expect(update(500_001, []))
        #expect(known.device(named: ServiceName(of: other, hour: 500_001).service) == nil)
        // The first hour has none before it.
        #expect(update(0, [other]))
        #expect(known.device(named: ServiceName(of: other, hour: 0).service) == other)
    }

    @Test(arguments: [
        "", "\u{03}a0", "\u{04}a1=A", "\u{05}a0=AA\u{05}a2=AA", "\u{06}a0=A=A", "\u{06}a0=A A", "\u{07}a0=ABC",
        "\u{04}a0=A", "\u{09}txtvers=1",
    ]) func `what is not an announcement is none`(text: String) {
        #expect(ServiceRecord.strings(in: Array(text.utf8)).flatMap { ServiceRecord.sealed(in: $0) } == nil)
    }

    @Test func `a record that is too long is not read, and an announcement that is too long is not offered`() {
        let long = [UInt8](repeating: 65, count: 252)
        let strings = (0..<4).map { Array("a\($0)=".utf8) + long.dropLast(4) }
        #expect(ServiceRecord.sealed(in: strings) != nil)
        #expect(ServiceRecord.sealed(in: strings + [long, long]) == nil)
        #expect(ServiceRecord.strings(in: data(strings + [long, long])) == nil)
        #expect(record([UInt8](repeating: 0, count: 800)) == nil)
    }

    #if os(Linux)
    @Test func `of what is sent, one copy on each interface is one's own`() {
        let now = ContinuousClock.now
        var sent = SentDatagrams()
        func take(_ bytes: [UInt8], isIPv6: Bool = false, on interface: UInt32, after time: Duration = .zero) -> Bool {
            sent.take(bytes, isIPv6: isIPv6, interface: interface, at: now + time)
        }
        sent.note([1], isIPv6: false, at: now)
        #expect(!take([2], on: 1))
        #expect(!take([1], isIPv6: true, on: 1))
        #expect(take([1], on: 1))
        #expect(!take([1], on: 1))
        #expect(take([1], on: 2))
        sent.note([1], isIPv6: false, at: now)
        #expect(!take([1], on: 1, after: .seconds(3)))
    }
    #endif

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
