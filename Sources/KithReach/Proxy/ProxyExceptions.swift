import KithIdentity
import KithWire

/// The hosts that are reached without a proxy: what `NO_PROXY` says, read as curl does.
///
/// Separated by commas or spaces: `*` for all, an IP address, a network as `10.0.0.0/8`, or a name. A name stands for
/// itself and for all names that end in it, with a dot or `*.` before it or without. What is none of these is passed
/// over, so that it keeps nobody from the proxy.
public struct ProxyExceptions: Hashable, Sendable {
    private struct Network: Hashable {
        var address: NetworkAddress
        var bits: Int

        func contains(_ other: NetworkAddress) -> Bool {
            guard address.isIPv6 == other.isIPv6 else { return false }
            let (mine, theirs) = (address.halves, other.halves)
            guard address.isIPv6 else { return bits == 0 || (mine.low ^ theirs.low) >> UInt64(32 - bits) == 0 }
            if bits > 64 { return mine.high == theirs.high && (mine.low ^ theirs.low) >> UInt64(128 - bits) == 0 }
            return bits == 0 || (mine.high ^ theirs.high) >> UInt64(64 - bits) == 0
        }
    }

    private var isEverything = false
    private var names: [String] = []
    private var networks: [Network] = []

    /// No host.
    public init() {}

    /// Reads a list.
    public init(_ text: String) {
        for entry in text.split(whereSeparator: { $0 == "," || $0.isWhitespace }) {
            if entry == "*" {
                isEverything = true
            } else if let network = Self.network(entry) {
                networks.append(network)
            } else if let name = HostName.normalised(Self.withoutWildcard(entry)) {
                names.append(name)
            }
        }
    }

    private static func withoutWildcard(_ entry: Substring) -> Substring {
        if entry.hasPrefix("*.") { return entry.dropFirst(2) }
        return entry.hasPrefix(".") ? entry.dropFirst() : entry
    }

    private static func network(_ entry: Substring) -> Network? {
        let parts = entry.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let text = parts.first, let address = address(text) else { return nil }
        let width = address.isIPv6 ? 128 : 32
        guard parts.count == 2 else { return Network(address: address, bits: width) }
        guard let bits = Int(parts[1]), (0...width).contains(bits) else { return nil }
        return Network(address: address, bits: bits)
    }

    private static func address(_ host: some StringProtocol) -> NetworkAddress? {
        NetworkAddress(host.contains(":") && !host.hasPrefix("[") ? "[\(host)]:1" : "\(host):1")
    }

    /// Tells whether a host, as ``RelayAddress/host`` has it, is reached without a proxy.
    public func contains(_ host: String) -> Bool {
        if isEverything { return true }
        if let address = Self.address(host) { return networks.contains { $0.contains(address) } }
        return names.contains { host == $0 || host.hasSuffix(".\($0)") }
    }
}
