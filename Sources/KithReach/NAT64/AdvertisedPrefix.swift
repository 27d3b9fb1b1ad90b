import KithWire

/// The option by which a router tells a NAT64's prefix: PREF64 of a router advertisement (RFC 8781 §4).
///
/// ```
///  type 38: 8 │ length 2: 8 │ lifetime, in 8 seconds: 13 │ prefix length code: 3 │ first 96 bits of the prefix
/// ```
package struct AdvertisedPrefix: Hashable, Sendable {
    /// The option's type.
    static let type: UInt8 = 38
    /// The lengths of a prefix, in bits, by their codes (RFC 8781 §4).
    static let lengths = [96, 64, 56, 48, 40, 32]

    /// The prefix.
    package let prefix: NAT64Prefix
    /// The time for which it holds, 0…65,528 s; 0 when it holds no more.
    package let lifetime: Duration

    /// Reads an option of a router advertisement; `nil` for another option, and for what RFC 8781 has receivers ignore.
    package init?(option: [UInt8]) {
        guard option.count == 16, option[0] == Self.type, option[1] == 2 else { return nil }
        let numbers = UInt16(option[2]) << 8 | UInt16(option[3])
        let code = Int(numbers & 7)
        guard Self.lengths.indices.contains(code),
            let address = NetworkAddress(ip: Array(option[4...]) + [0, 0, 0, 0], port: 0),
            let prefix = NAT64Prefix(address, length: Self.lengths[code])
        else { return nil }
        (self.prefix, lifetime) = (prefix, .seconds(Int(numbers & ~7)))
    }
}

/// An option of a router advertisement that Linux does not know itself: `RTM_NEWNDUSEROPT` of rtnetlink.
///
/// Numbers are in the machine's byte order, except the type and code of ICMPv6, which are bytes.
///
/// ```
///  nlmsghdr:     length 4 │ type 2 │ flags 2 │ sequence 4 │ port 4
///  nduseroptmsg: family 1 │ 0 1 │ options' length 2 │ interface 4 │ ICMPv6 type 1 │ code 1 │ 0 6
///  the option, and behind it attributes: the router's address is the first, of type 1
/// ```
package struct RouterOption: Hashable, Sendable {
    private static let messageType: UInt16 = 68
    private static let addressFamily: UInt8 = 10
    private static let advertisement: UInt8 = 134
    private static let headerLength = 32

    /// The number of the interface by which it came.
    package let interface: UInt32
    /// The router that sent it: 16 bytes of a link-local address.
    package let router: [UInt8]
    /// The option, of type, length and content.
    package let bytes: [UInt8]

    /// Reads what comes from the kernel at once: messages of other types, and those that are cut short, are left out.
    package static func all(in messages: [UInt8]) -> [RouterOption] {
        var options: [RouterOption] = []
        var rest = messages[...]
        while rest.count >= 16 {
            let length = Int(UInt32(exactly: number(rest, at: 0, 4)) ?? 0)
            guard length >= 16, length <= rest.count else { break }
            if let option = RouterOption(message: Array(rest.prefix(length))) { options.append(option) }
            rest = rest.dropFirst((length + 3) & ~3)
        }
        return options
    }

    private init?(message: [UInt8]) {
        guard message.count >= Self.headerLength, Self.number(message[...], at: 4, 2) == UInt64(Self.messageType),
            message[16] == Self.addressFamily, message[24] == Self.advertisement, message[25] == 0
        else { return nil }
        let length = Int(Self.number(message[...], at: 18, 2))
        // Attributes begin at a multiple of 4 bytes; options are multiples of 8.
        guard length >= 8, length % 8 == 0, Self.headerLength + length + 20 <= message.count else { return nil }
        let attribute = message[(Self.headerLength + length)...].prefix(20)
        guard Self.number(attribute, at: 0, 2) == 20, Self.number(attribute, at: 2, 2) == 1 else { return nil }
        interface = UInt32(Self.number(message[...], at: 20, 4))
        router = Array(attribute.dropFirst(4))
        bytes = Array(message[Self.headerLength..<Self.headerLength + length])
    }

    /// The number in `count` bytes, in the machine's order; `bytes` has them.
    private static func number(_ bytes: ArraySlice<UInt8>, at offset: Int, _ count: Int) -> UInt64 {
        let bytes = bytes.dropFirst(offset).prefix(count)
        #if _endian(big)
        return bytes.reduce(0) { $0 << 8 | UInt64($1) }
        #else
        return bytes.reversed().reduce(0) { $0 << 8 | UInt64($1) }
        #endif
    }
}

/// The prefixes that routers advertise for a NAT64, until their lifetimes end.
package struct AdvertisedPrefixes: Sendable {
    /// The most that are remembered; others are not, until one of them ends.
    package static let maxCount = 16

    private struct Entry {
        var interface: UInt32
        var router: [UInt8]
        var prefix: NAT64Prefix
        var end: ContinuousClock.Instant
    }

    private var entries: [Entry] = []

    /// Makes it of none.
    package init() {}

    /// The prefix to use: the one that has been known longest.
    ///
    /// It goes before one that the DNS has (RFC 8781 §5.1).
    package var prefix: NAT64Prefix? { entries.first?.prefix }
    /// The time at which the next one ends.
    package var nextDeadline: ContinuousClock.Instant? { entries.map(\.end).min() }

    /// Takes an option of a router advertisement in; of other types it takes no notice.
    package mutating func received(_ option: RouterOption, at now: ContinuousClock.Instant) {
        guard let advertised = AdvertisedPrefix(option: option.bytes) else { return }
        let index = entries.firstIndex {
            $0.interface == option.interface && $0.router == option.router && $0.prefix == advertised.prefix
        }
        let end = now + advertised.lifetime
        if advertised.lifetime == .zero {
            if let index { entries.remove(at: index) }
        } else if let index {
            entries[index].end = end
        } else if entries.count < Self.maxCount {
            entries.append(
                Entry(interface: option.interface, router: option.router, prefix: advertised.prefix, end: end))
        }
    }

    /// Forgets those that have ended.
    package mutating func timedOut(at now: ContinuousClock.Instant) { entries.removeAll { $0.end <= now } }

    /// Forgets those of interfaces that are not running any more.
    package mutating func keep(_ interfaces: Set<UInt32>) {
        entries.removeAll { !interfaces.contains($0.interface) }
    }
}
