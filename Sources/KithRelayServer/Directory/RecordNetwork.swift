import KithWire

/// The network that a record came from: the part of an address that one household or customer has at the most.
///
/// 24 bits of an IPv4 address, 56 of an IPv6 address.
struct RecordNetwork: Hashable, Sendable {
    /// The bits, with the kind of address in the lowest byte.
    let value: UInt64

    /// The network of records of which that is not known: they were kept before it was noted, or came by a proxy on the
    /// directory's own machine that does not say for whom it asks.
    static let unknown = RecordNetwork(value: 0)

    /// Makes one of the number that ``value`` was.
    init(value: UInt64) { self.value = value }

    /// The network of a client, or of whom it asks for when it is a proxy on this machine.
    ///
    /// `header` is the last `X-Forwarded-For` of its request, the last address of which is what the proxy saw.
    init(of peer: NetworkAddress, forwardedFor header: String?) {
        guard peer.isLoopback else {
            self.init(of: peer)
            return
        }
        let text = header?.split(separator: ",").last.map { $0.filter { $0 != " " } } ?? ""
        let client = NetworkAddress(text) ?? NetworkAddress("\(text):1") ?? NetworkAddress("[\(text)]:1")
        self = client.map { RecordNetwork(of: $0) } ?? .unknown
    }

    /// The network of an address.
    init(of address: NetworkAddress) {
        let (high, low) = address.halves
        value = address.isIPv6 ? high & ~0xFF | 6 : low & ~0xFF | 4
    }
}
