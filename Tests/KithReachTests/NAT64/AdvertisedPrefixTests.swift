import KithWire
import Testing

@testable import KithReach

@Suite struct AdvertisedPrefixTests {
    private let now = ContinuousClock.now

    private func prefix(_ text: String, _ length: Int) throws -> NAT64Prefix {
        try #require(NetworkAddress("[\(text)]:0").flatMap { NAT64Prefix($0, length: length) })
    }

    /// An option of 64:ff9b::/96, with those 16 bits of lifetime and code.
    private func option(_ numbers: UInt16 = 600) -> [UInt8] {
        [38, 2, UInt8(numbers >> 8), UInt8(numbers & 0xFF), 0, 0x64, 0xFF, 0x9B, 0, 0, 0, 0, 0, 0, 0, 0]
    }

    /// What Linux 6.18 sent for an advertisement by fe80::40cb:32ff:fe5b:d9b1 on interface 2, of 1,800 seconds.
    private let recorded: [UInt8] = [
        0x44, 0, 0, 0, 0x44, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0x0A, 0, 0x10, 0, 2, 0, 0, 0, 0x86, 0, 0, 0, 0, 0, 0, 0,
        0x26, 2, 7, 8, 0, 0x64, 0xFF, 0x9B, 0, 0, 0, 0, 0, 0, 0, 0,
        0x14, 0, 1, 0, 0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0x40, 0xCB, 0x32, 0xFF, 0xFE, 0x5B, 0xD9, 0xB1,
    ]

    /// RFC 8781 §4: the lifetime is in 8 seconds, and each length has a code.
    private static let lengths: [(UInt16, Int)] = [(0, 96), (1, 64), (2, 56), (3, 48), (4, 40), (5, 32)]

    @Test(arguments: lengths) func `an option has a prefix of each length, and its lifetime`(
        code: UInt16, length: Int
    ) throws {
        // 2001:db8:122:344:: and, behind each length, bits that are not the prefix's.
        let bytes: [UInt8] =
            [38, 2, 0, 0] + [0x20, 1, 0x0D, 0xB8, 1, 0x22, 3, 0x44, 0, 0x55, 0x66, 0x77]
        var option = bytes
        // In units of 8 s, three bits up: the number of seconds itself.
        (option[2], option[3]) = (UInt8((1_800 | code) >> 8), UInt8((1_800 | code) & 0xFF))
        let advertised = try #require(AdvertisedPrefix(option: option))
        let address = try #require(NetworkAddress(ip: Array(bytes[4...]) + [0, 0, 0, 0], port: 0))
        #expect(advertised.prefix == NAT64Prefix(address, length: length))
        #expect(advertised.prefix.length == length)
        #expect(advertised.lifetime == .seconds(1_800))
    }

    @Test func `the lifetime ends at 65,528 seconds, and may be none`() throws {
        #expect(AdvertisedPrefix(option: option(0xFFF8))?.lifetime == .seconds(65_528))
        #expect(AdvertisedPrefix(option: option(0))?.lifetime == .zero)
        #expect(AdvertisedPrefix(option: option(0))?.prefix == (try prefix("64:ff9b::", 96)))
    }

    @Test func `codes without a meaning, other options and other lengths are ignored`() {
        for code in [6, 7] as [UInt16] { #expect(AdvertisedPrefix(option: option(64 | code)) == nil) }
        var other = option()
        other[0] = 25
        #expect(AdvertisedPrefix(option: other) == nil)
        var short = option()
        short[1] = 1
        #expect(AdvertisedPrefix(option: short) == nil)
        for count in 0..<16 { #expect(AdvertisedPrefix(option: Array(option().prefix(count))) == nil) }
        #expect(AdvertisedPrefix(option: option() + [0]) == nil)
    }

    #if os(Linux) && _endian(little)
    @Test func `the kernel's message is read`() throws {
        let found = RouterOption.all(in: recorded + recorded)
        let read = try #require(found.first)
        #expect(found.count == 2)
        #expect(read.interface == 2)
        #expect(NetworkAddress(ip: read.router, port: 0) == NetworkAddress("[fe80::40cb:32ff:fe5b:d9b1]:0"))
        let advertised = AdvertisedPrefix(option: read.bytes)
        #expect(try advertised?.prefix == prefix("64:ff9b::", 96))
        #expect(advertised?.lifetime == .seconds(1_800))
    }

    @Test func `messages that are cut short, or of others, are none`() {
        for count in recorded.indices { #expect(RouterOption.all(in: Array(recorded.prefix(count))).isEmpty) }
        // The length of all, the type, the family, the options' length, the ICMP type, the attribute.
        for (index, value) in [(0, 0xFF), (0, 15), (4, 0x45), (16, 2), (18, 0x11), (19, 0xFF), (24, 135), (48, 0x13)] {
            var bytes = recorded
            bytes[index] = UInt8(value)
            #expect(RouterOption.all(in: bytes).isEmpty, "byte \(index)")
        }
    }

    private func news(_ numbers: UInt16, interface: UInt8 = 2, router: UInt8 = 0xB1, last: UInt8 = 0) throws
        -> RouterOption
    {
        var bytes = recorded
        bytes[20] = interface
        bytes.replaceSubrange(32..<48, with: option(numbers))
        (bytes[47], bytes[67]) = (last, router)
        return try #require(RouterOption.all(in: bytes).first)
    }

    @Test func `a prefix holds for its lifetime, which each advertisement begins anew`() throws {
        var prefixes = AdvertisedPrefixes()
        prefixes.received(try news(600), at: now)
        #expect(prefixes.prefix == (try prefix("64:ff9b::", 96)))
        #expect(prefixes.nextDeadline == now + .seconds(600))
        prefixes.received(try news(1_800), at: now + .seconds(10))
        prefixes.timedOut(at: now + .seconds(1_809))
        #expect(prefixes.prefix != nil)
        prefixes.timedOut(at: now + .seconds(1_810))
        #expect(prefixes.prefix == nil)
        #expect(prefixes.nextDeadline == nil)
    }

    @Test func `a lifetime of none ends it, of that router alone`() throws {
        var prefixes = AdvertisedPrefixes()
        prefixes.received(try news(0), at: now)
        #expect(prefixes.prefix == nil)
        prefixes.received(try news(600), at: now)
        prefixes.received(try news(600, router: 0xB2, last: 7), at: now)
        prefixes.received(try news(0, router: 0xB3), at: now)
        #expect(prefixes.prefix == (try prefix("64:ff9b::", 96)))
        prefixes.received(try news(0), at: now)
        #expect(prefixes.prefix == (try prefix("64:ff9b:0:0:0:7::", 96)))
    }

    @Test func `it ends with its interface, and no more than a few are remembered`() throws {
        var prefixes = AdvertisedPrefixes()
        for number in 0..<100 { prefixes.received(try news(600, router: UInt8(number), last: 7), at: now) }
        prefixes.received(try news(600, interface: 3), at: now)
        prefixes.keep([3])
        #expect(prefixes.prefix == nil)
        for number in 0..<15 { prefixes.received(try news(600, router: UInt8(number), last: 7), at: now) }
        prefixes.received(try news(600, interface: 3), at: now)
        prefixes.keep([3])
        #expect(prefixes.prefix == (try prefix("64:ff9b::", 96)))
    }
    #endif
}
