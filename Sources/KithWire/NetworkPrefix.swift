/// A network: the bits that the addresses in it have in common.
public struct NetworkPrefix: Hashable, Sendable {
    /// The bits, as of the first address in it; port 0, no zone.
    public let base: NetworkAddress
    /// The number of those bits.
    public let length: Int

    /// Makes the network that an address is in; a length beyond that of an address is cut.
    public init(of address: NetworkAddress, length: Int) {
        let limit = address.isIPv6 ? 128 : 32
        self.length = min(max(length, 0), limit)
        let (high, low) = address.halves
        if address.isIPv6 {
            base = NetworkAddress(
                high: high & Self.mask(self.length), low: low & Self.mask(self.length - 64), zone: 0, port: 0,
                isIPv6: true)
        } else {
            base = NetworkAddress(ipv4: UInt32(truncatingIfNeeded: low & Self.mask(self.length) >> 32), port: 0)
        }
    }

    /// The ones of a mask, from the left; none for a negative count, 64 at the most.
    private static func mask(_ count: Int) -> UInt64 {
        count <= 0 ? 0 : count >= 64 ? .max : ~(UInt64.max >> UInt64(count))
    }

    /// Returns whether an address is in it.
    public func contains(_ address: NetworkAddress) -> Bool {
        address.isIPv6 == base.isIPv6 && NetworkPrefix(of: address, length: length).base == base
    }
}
