public import KithWire

/// The prefix under which a NAT64 has the addresses of IPv4 in IPv6 (RFC 6052).
///
/// In a network with IPv6 alone, a device reaches an IPv4 address at ``address(of:)``. ``init(of:)`` finds the prefix in
/// the addresses that the network's resolver has for ``wellKnownName`` (RFC 7050).
///
/// ```
///  length  32: prefix 32 │ IPv4 32        │ 0 8 │ 0
///  length  40: prefix 40 │ IPv4, first 24 │ 0 8 │ the other 8 │ 0       48, 56 and 64 likewise
///  length  96: prefix 96, with 0 at bits 64 to 71 │ IPv4 32
/// ```
public struct NAT64Prefix: Hashable, Sendable {
    /// The name that has IPv4 addresses only: an IPv6 address of it is a NAT64's.
    public static let wellKnownName = "ipv4only.arpa"
    /// The lengths that a prefix may have, in bits.
    public static let lengths = [32, 40, 48, 56, 64, 96]
    /// The IPv4 addresses of ``wellKnownName``.
    static let wellKnown: [UInt32] = [0xC000_00AA, 0xC000_00AB]
    /// The most addresses that are looked at.
    static let maxAddresses = 64

    /// The prefix as an address with zeros behind it; its port is 0.
    public let address: NetworkAddress
    /// Its length in bits: one of ``lengths``.
    public let length: Int

    /// Makes a prefix of the first bits of an IPv6 address; `nil` for other lengths, and for IPv4.
    public init?(_ address: NetworkAddress, length: Int) {
        guard address.isIPv6, Self.lengths.contains(length) else { return nil }
        var bytes = address.ip
        for index in length / 8..<16 { bytes[index] = 0 }
        // Bits 64 to 71 are zero in every such address.
        guard bytes[8] == 0, let prefix = NetworkAddress(ip: bytes, port: 0), prefix.isIPv6 else { return nil }
        (self.address, self.length) = (prefix, length)
    }

    /// Finds the prefix in the addresses that ``wellKnownName`` has; `nil` when there is no NAT64.
    ///
    /// An address that could be read in two ways counts in that in which another one of them fits (RFC 7050 §3).
    public init?(of addresses: [NetworkAddress]) {
        let addresses = addresses.prefix(Self.maxAddresses).filter(\.isIPv6)
        for address in addresses {
            let found = Self.lengths.compactMap { NAT64Prefix(address, length: $0) }.filter { prefix in
                prefix.ipv4(in: address).map { Self.wellKnown.contains($0) } ?? false
            }
            let confirmed = found.filter { prefix in
                Self.wellKnown.allSatisfy { known in
                    let whole = prefix.address(of: NetworkAddress(ipv4: known, port: 0))
                    return addresses.contains { $0.ip == whole?.ip }
                }
            }
            if let prefix = found.count == 1 ? found.first : confirmed.count == 1 ? confirmed.first : nil {
                self = prefix
                return
            }
        }
        return nil
    }

    /// The bytes of an address in which IPv4 stands.
    private var places: [Int] { length == 96 ? Array(12...15) : Array((length / 8...12).filter { $0 != 8 }.prefix(4)) }

    /// The IPv6 address by which an IPv4 address and port are reached; `nil` for one of IPv6.
    public func address(of ipv4: NetworkAddress) -> NetworkAddress? {
        guard !ipv4.isIPv6 else { return nil }
        var bytes = address.ip
        for (place, byte) in zip(places, ipv4.ip) { bytes[place] = byte }
        return NetworkAddress(ip: bytes, port: ipv4.port)
    }

    /// The prefix that stands for the whole internet of IPv4 (RFC 6052 §2.1).
    public static let wellKnownPrefix = NAT64Prefix(NetworkAddress(ipv6: 0x64_FF9B << 32, 0, port: 0), length: 96)

    /// The address by which an address is reached where there is no IPv4; itself for one of IPv6, or of no other network.
    ///
    /// The prefix of the whole internet stands for no private address (RFC 6052 §3.1).
    public func way(to address: NetworkAddress) -> NetworkAddress {
        guard !address.isLoopback, !address.isLinkLocal, !address.isMulticast, !address.isUnspecified,
            !(address.isPrivate && self == Self.wellKnownPrefix)
        else { return address }
        return self.address(of: address) ?? address
    }

    private func ipv4(in address: NetworkAddress) -> UInt32? {
        let bytes = address.ip
        guard bytes.count == 16 else { return nil }
        let value = places.reduce(0) { $0 << 8 | UInt32(bytes[$1]) }
        // What stands behind it is zero, except that some write something there: it is not looked at (RFC 6052 §2.2).
        return value
    }
}
