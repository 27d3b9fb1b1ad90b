/// An IP address and a UDP port.
///
/// As text: `192.0.2.1:4433`, `[2001:db8::1]:4433`, `[fe80::1%2]:4433` (the zone as an interface number; RFC 5952).
/// Small and without references, because it is compared for every datagram.
public struct NetworkAddress: Hashable, Sendable {
    /// The first eight bytes of an IPv6 address, big-endian; 0 of an IPv4 address.
    @usableFromInline let high: UInt64
    /// The last eight bytes of an IPv6 address, or the four of an IPv4 address, big-endian.
    @usableFromInline let low: UInt64
    /// The interface of a link-local IPv6 address; 0 when none is named.
    public let zone: UInt32
    /// The UDP port.
    public var port: UInt16
    /// True for an IPv6 address.
    public let isIPv6: Bool

    @inlinable init(high: UInt64, low: UInt64, zone: UInt32, port: UInt16, isIPv6: Bool) {
        self.high = high
        self.low = low
        self.zone = zone
        self.port = port
        self.isIPv6 = isIPv6
    }

    /// Makes an IPv4 address of its four bytes, as one big-endian number.
    @inlinable public init(ipv4: UInt32, port: UInt16) {
        self.init(high: 0, low: UInt64(ipv4), zone: 0, port: port, isIPv6: false)
    }

    /// Makes an IPv4 address of its four bytes.
    public init(ipv4 bytes: (UInt8, UInt8, UInt8, UInt8), port: UInt16) {
        let value = UInt32(bytes.0) << 24 | UInt32(bytes.1) << 16 | UInt32(bytes.2) << 8 | UInt32(bytes.3)
        self.init(ipv4: value, port: port)
    }

    /// Makes an IPv6 address of its two halves, as big-endian numbers.
    ///
    /// An IPv4-mapped address (`::ffff:192.0.2.1`) becomes the IPv4 address it stands for.
    @inlinable public init(ipv6 high: UInt64, _ low: UInt64, port: UInt16, zone: UInt32 = 0) {
        if high == 0, low >> 32 == 0xFFFF {
            self.init(ipv4: UInt32(truncatingIfNeeded: low), port: port)
        } else {
            self.init(high: high, low: low, zone: zone, port: port, isIPv6: true)
        }
    }

    /// Makes an IPv6 address of its 16 bytes, or an IPv4 address of its four; `nil` for another count.
    public init?(ip bytes: [UInt8], port: UInt16, zone: UInt32 = 0) {
        func number(_ part: ArraySlice<UInt8>) -> UInt64 { part.reduce(0) { $0 << 8 | UInt64($1) } }
        switch bytes.count {
        case 4: self.init(ipv4: UInt32(number(bytes[...])), port: port)
        case 16: self.init(ipv6: number(bytes[..<8]), number(bytes[8...]), port: port, zone: zone)
        default: return nil
        }
    }

    /// The address without the port: 4 or 16 bytes.
    public var ip: [UInt8] {
        func bytes(_ value: UInt64, _ count: Int) -> [UInt8] {
            (0..<count).map { UInt8(truncatingIfNeeded: value >> (8 * (count - 1 - $0))) }
        }
        return isIPv6 ? bytes(high, 8) + bytes(low, 8) : bytes(low, 4)
    }

    /// The part that one household or machine has to itself: an IPv4 address, or 64 bits of an IPv6 address.
    ///
    /// 4 or 8 bytes. Within a /64 a host can have any number of addresses.
    public var networkPrefix: [UInt8] { isIPv6 ? Array(ip.prefix(8)) : ip }

    /// The two halves of an IPv6 address, or 0 and the IPv4 address.
    @inlinable public var halves: (high: UInt64, low: UInt64) { (high, low) }

    /// Returns whether both are of one host, whatever the port.
    @inlinable package func hasSameIP(as other: NetworkAddress) -> Bool {
        isIPv6 == other.isIPv6 && halves == other.halves
    }

    /// True for an address that stays on this machine: 127.0.0.0/8, ::1.
    public var isLoopback: Bool { isIPv6 ? high == 0 && low == 1 : low >> 24 == 127 }

    /// True for the address that stands for every other: 0.0.0.0, ::.
    public var isUnspecified: Bool { high == 0 && low == 0 }

    /// True for an address valid on one link only: 169.254.0.0/16, fe80::/10.
    public var isLinkLocal: Bool { isIPv6 ? high >> 54 == 0xFE80 >> 6 : low >> 16 == 0xA9FE }

    /// True for an address of a private network: RFC 1918, RFC 6598, fc00::/7.
    public var isPrivate: Bool {
        guard !isIPv6 else { return high >> 57 == 0xFC >> 1 }
        return low >> 24 == 10 || low >> 20 == 0xAC1 || low >> 16 == 0xC0A8 || low >> 22 == 0x6440 >> 6
    }

    /// True for the address of a group: 224.0.0.0/4, ff00::/8, or the broadcast address.
    public var isMulticast: Bool { isIPv6 ? high >> 56 == 0xFF : low >> 28 == 0xE || low == 0xFFFF_FFFF }
}

// MARK: - Text

extension NetworkAddress: LosslessStringConvertible {
    /// The text form.
    public var description: String {
        guard isIPv6 else {
            return "\(low >> 24 & 255).\(low >> 16 & 255).\(low >> 8 & 255).\(low & 255):\(port)"
        }
        let groups = (0..<8).map { index in
            UInt16(truncatingIfNeeded: (index < 4 ? high : low) >> (48 - 16 * UInt64(index % 4)))
        }
        // The longest run of two or more zero groups, the first of equals, is written as "::" (RFC 5952 §4.2).
        var best = 0..<0
        var start = 0
        for index in 0...8 where index == 8 || groups[index] != 0 {
            if index - start > max(best.count, 1) { best = start..<index }
            start = index + 1
        }
        func text(_ range: Range<Int>) -> String {
            range.map { String(groups[$0], radix: 16) }.joined(separator: ":")
        }
        let address =
            best.isEmpty ? text(0..<8) : "\(text(0..<best.lowerBound))::\(text(best.upperBound..<8))"
        return "[\(address)\(zone == 0 ? "" : "%\(zone)")]:\(port)"
    }

    /// Reads the text form; `nil` when it is not one.
    public init?(_ description: String) {
        guard description.utf8.count <= 64, let colon = description.lastIndex(of: ":"),
            let port = Self.decimal(description[description.index(after: colon)...], limit: 65_535)
        else { return nil }
        let host = description[..<colon]
        if host.first == "[", host.last == "]" {
            let parts = host.dropFirst().dropLast().split(
                separator: "%", maxSplits: 1, omittingEmptySubsequences: false)
            guard let first = parts.first, let halves = Self.ipv6(first) else { return nil }
            var zone: UInt32 = 0
            if parts.count == 2 {
                guard let number = Self.decimal(parts[1], limit: Int(UInt32.max)), number > 0 else { return nil }
                zone = UInt32(number)
            }
            self.init(ipv6: halves.0, halves.1, port: UInt16(port), zone: zone)
        } else {
            guard let address = Self.ipv4(host) else { return nil }
            self.init(ipv4: address, port: UInt16(port))
        }
    }

    private static func decimal(_ text: Substring, limit: Int) -> Int? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (48...57).contains($0) }), text == "0" || text.first != "0",
            let value = Int(text), value <= limit
        else { return nil }
        return value
    }

    private static func ipv4(_ text: Substring) -> UInt32? {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 4 else { return nil }
        var address: UInt32 = 0
        for part in parts {
            guard let byte = decimal(part, limit: 255) else { return nil }
            address = address << 8 | UInt32(byte)
        }
        return address
    }

    private static func ipv6(_ text: Substring) -> (UInt64, UInt64)? {
        var sides: [[UInt16]] = [[]]
        var rest = text
        if rest.hasPrefix("::") {
            sides.append([])
            rest = rest.dropFirst(2)
        }
        while !rest.isEmpty {
            let end = rest.firstIndex(of: ":") ?? rest.endIndex
            let group = rest[..<end]
            if end == rest.endIndex, group.contains(".") {
                guard let address = ipv4(group) else { return nil }
                sides[sides.count - 1] += [UInt16(address >> 16), UInt16(address & 0xFFFF)]
                break
            }
            guard (1...4).contains(group.count), group.utf8.allSatisfy({ $0 != 43 && $0 != 45 }),
                let value = UInt16(group, radix: 16)
            else { return nil }
            sides[sides.count - 1].append(value)
            guard end != rest.endIndex else { break }
            rest = rest[rest.index(after: end)...]
            if rest.first == ":" {
                guard sides.count == 1 else { return nil }
                sides.append([])
                rest = rest.dropFirst()
            } else if rest.isEmpty {
                return nil
            }
        }
        let count = sides.reduce(0) { $0 + $1.count }
        guard sides.count == 2 ? count <= 7 : count == 8 else { return nil }
        let groups = sides.count == 2 ? sides[0] + Array(repeating: 0, count: 8 - count) + sides[1] : sides[0]
        func number(_ part: ArraySlice<UInt16>) -> UInt64 { part.reduce(0) { $0 << 16 | UInt64($1) } }
        return (number(groups[..<4]), number(groups[4...]))
    }
}

extension NetworkAddress: Codable {
    /// Reads the text form.
    public init(from decoder: any Decoder) throws {
        let text = try decoder.singleValueContainer().decode(String.self)
        guard let address = NetworkAddress(text) else {
            throw KithError(.invalid, "An address looks like 192.0.2.1:4433 or [2001:db8::1]:4433.")
        }
        self = address
    }

    /// Writes the text form.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}

// MARK: - Bytes

extension ByteWriter {
    /// Writes an address: a family byte (4 or 6), the 4 or 16 bytes, the port (2 bytes).
    ///
    /// A zone does not travel.
    public mutating func address(_ address: NetworkAddress) {
        integer(address.isIPv6 ? 6 as UInt8 : 4)
        bytes(address.ip)
        integer(address.port)
    }
}

extension ByteReader {
    /// Reads an address as ``ByteWriter/address(_:)`` writes it.
    @_lifetime(self: copy self)
    public mutating func address() throws(WireError) -> NetworkAddress {
        let family: UInt8 = try integer()
        guard family == 4 || family == 6 else { throw .invalid("an address is of family 4 or 6") }
        let ip = try bytes(family == 4 ? 4 : 16)
        let port: UInt16 = try integer()
        guard let address = NetworkAddress(ip: ip, port: port) else { throw .invalid("an address of another length") }
        return address
    }
}
