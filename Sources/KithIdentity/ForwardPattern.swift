public import KithWire

/// The limit of a forwarding grant: hosts and ports, or one Unix socket.
///
/// | as text | stands for |
/// | --- | --- |
/// | `db.example.org:5432` | that name |
/// | `*.example.org:443` | every name that ends so, not `example.org` itself |
/// | `10.0.0.0/8:*`, `[2001:db8::/32]:443` | the addresses of a network, by whatever name |
/// | `192.0.2.1:8000-8099` | one address, and a range of ports |
/// | `localhost:80` | the device itself: 127.0.0.0/8 and ::1 |
/// | `*:*` | any name and address out there, see ``isOrdinary(_:)`` |
/// | `unix:/run/app.sock` | a Unix socket |
@nonexhaustive
public enum ForwardPattern: Hashable, Sendable {
    /// Hosts and ports; the ports as they are numbered, 1…65,535.
    case hosts(Hosts, ports: ClosedRange<UInt16>)
    /// The Unix socket at an absolute path.
    case socket(path: String)

    /// The hosts a pattern stands for.
    @nonexhaustive
    public enum Hosts: Hashable, Sendable {
        /// Every ordinary one.
        case any
        /// The device itself.
        case localhost
        /// One name, normalised.
        case name(String)
        /// The names beneath one, which is normalised.
        case beneath(String)
        /// A network: its first address, with port 0, and how many bits of it count.
        case network(NetworkAddress, bits: Int)
    }

    /// Every port.
    public static let everyPort: ClosedRange<UInt16> = 1...65_535

    /// Tells whether an address is that of an ordinary host out there, to which `*` and names may lead.
    ///
    /// Not the device itself (loopback, "this host" 0.0.0.0/8), not one link only (169.254.0.0/16 and fe80::/10, where
    /// clouds keep their machines' credentials), not the other addresses of such metadata services, no group and no
    /// broadcast, also when embedded in an IPv6 address (RFC 6052, RFC 3056). Those must be granted by address: a name
    /// is in the hands of whoever runs its zone.
    public static func isOrdinary(_ address: NetworkAddress) -> Bool {
        let (high, low) = address.halves
        guard address.isIPv6 else {
            let metadata: Set<UInt64> = [0x6464_64C8, 0xA83F_8110, 0xC000_00C0]  // Alibaba, Azure, Oracle
            return !address.isLoopback && low >> 24 != 0 && !address.isLinkLocal && !address.isMulticast
                && low >> 28 != 0xF && !metadata.contains(low)
        }
        // ::/96 is obsolete; fd00:ec2::/32 is Amazon's metadata.
        if high == 0, low >> 32 == 0 || address.isLoopback { return false }
        if address.isLinkLocal || address.isMulticast || high >> 32 == 0xFD00_0EC2 { return false }
        if high == 0x0064_FF9B_0000_0000, low >> 32 == 0 {
            return isOrdinary(NetworkAddress(ipv4: UInt32(truncatingIfNeeded: low), port: 0))
        }
        if high >> 48 == 0x2002 {
            return isOrdinary(NetworkAddress(ipv4: UInt32(truncatingIfNeeded: high >> 16), port: 0))
        }
        return true
    }

    /// Tells whether the pattern allows a connection to `address`, asked for as `name` or by itself.
    ///
    /// `isOwn` says that the address is one of this device's own.
    package func allows(_ address: NetworkAddress, name: String?, isOwn: Bool) -> Bool {
        guard case .hosts(let hosts, let ports) = self, ports.contains(address.port) else { return false }
        let isOrdinary = Self.isOrdinary(address) && !isOwn
        switch hosts {
        case .any: return isOrdinary
        case .localhost: return address.isLoopback
        case .name, .beneath: return isOrdinary && name.map { hosts.matches($0) } ?? false
        case .network: return hosts.contains(address)
        }
    }

    /// Tells whether the pattern might allow a connection to `name`; its addresses decide.
    package func mightAllow(name: String, port: UInt16) -> Bool {
        guard case .hosts(let hosts, let ports) = self, ports.contains(port) else { return false }
        switch hosts {
        case .any, .network: return true
        case .localhost: return HostName.isLocalhost(name)
        case .name, .beneath: return hosts.matches(name)
        }
    }

    /// Tells whether this pattern allows all that `other` does.
    package func covers(_ other: ForwardPattern) -> Bool {
        switch (self, other) {
        case (.socket(let path), .socket(let wanted)): path == wanted
        case (.hosts(let hosts, let ports), .hosts(let wanted, let wantedPorts)):
            ports.contains(wantedPorts.lowerBound) && ports.contains(wantedPorts.upperBound) && hosts.covers(wanted)
        default: false
        }
    }
}

extension ForwardPattern.Hosts {
    /// Tells whether a normalised name matches.
    func matches(_ name: String) -> Bool {
        switch self {
        case .name(let own): name == own
        case .beneath(let own): name.hasSuffix("." + own)
        case .any: true
        case .localhost: HostName.isLocalhost(name)
        case .network: false
        }
    }

    /// Tells whether an address lies in the network.
    func contains(_ address: NetworkAddress) -> Bool {
        guard case .network(let network, let bits) = self, network.isIPv6 == address.isIPv6 else { return false }
        return Self.masked(address, bits: bits) == Self.masked(network, bits: bits)
    }

    func covers(_ other: Self) -> Bool {
        switch (self, other) {
        case (.any, .any), (.any, .name), (.any, .beneath), (.localhost, .localhost): true
        case (.localhost, .network(let network, let bits)): network.isLoopback && bits >= (network.isIPv6 ? 128 : 8)
        case (.name, .name(let name)), (.beneath, .name(let name)): matches(name)
        case (.beneath(let own), .beneath(let name)): name == own || name.hasSuffix("." + own)
        case (.network(_, let bits), .network(let network, let more)): more >= bits && contains(network)
        default: false
        }
    }

    /// The halves of an address with everything after its first `bits` bits zero.
    static func masked(_ address: NetworkAddress, bits: Int) -> [UInt64] {
        func mask(_ count: Int) -> UInt64 { count <= 0 ? 0 : count >= 64 ? .max : ~(.max >> UInt64(count)) }
        let (high, low) = address.halves
        return address.isIPv6
            ? [high & mask(bits), low & mask(bits - 64)] : [0, low & (mask(bits) >> 32)]
    }
}

// MARK: - Text

extension ForwardPattern: CustomStringConvertible {
    /// The text form.
    public var description: String {
        switch self {
        case .socket(let path): return "unix:\(path)"
        case .hosts(let hosts, let ports):
            let port =
                ports == Self.everyPort
                ? "*" : ports.count == 1 ? "\(ports.lowerBound)" : "\(ports.lowerBound)-\(ports.upperBound)"
            return "\(hosts):\(port)"
        }
    }

    /// Reads the text form.
    ///
    /// - Throws: `.invalid`, saying what is wrong and what would be right.
    public init(parsing text: some StringProtocol) throws(KithError) {
        let text = String(text)
        if text.hasPrefix("unix:") {
            let path = String(text.dropFirst(5))
            guard Grant.isNormalised(path), path != "/", path.utf8.count <= 107 else {
                throw KithError(
                    .invalid, "“\(path.prefix(128))” is not a socket's path: absolute, plain, at most 107 bytes.")
            }
            self = .socket(path: path)
            return
        }
        guard text.utf8.count <= 512, let colon = text.lastIndex(of: ":"), !text.hasSuffix("]") else {
            throw KithError(
                .invalid, "“\(text.prefix(128))” names no port. Write HOST:PORT, HOST:8000-8099 or HOST:* for all.")
        }
        self = .hosts(
            try Hosts(parsing: text[..<colon]), ports: try Self.ports(text[text.index(after: colon)...]))
    }

    private static func ports(_ text: Substring) throws(KithError) -> ClosedRange<UInt16> {
        if text == "*" { return everyPort }
        let ends = text.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        func number(_ text: Substring) -> UInt16? {
            guard (1...5).contains(text.utf8.count), text.utf8.allSatisfy({ (48...57).contains($0) }),
                text.first != "0"
            else { return nil }
            return UInt16(text)
        }
        guard let first = number(ends[0]), let last = ends.count == 2 ? number(ends[1]) : first, first <= last else {
            throw KithError(
                .invalid, "“\(text.prefix(64))” is not a port: 1 to 65535, a range like 8000-8099, or * for all.")
        }
        return first...last
    }
}

extension ForwardPattern.Hosts: CustomStringConvertible {
    /// The text form.
    public var description: String {
        switch self {
        case .any: return "*"
        case .localhost: return "localhost"
        case .name(let name): return name
        case .beneath(let name): return "*.\(name)"
        case .network(let address, let bits):
            let text = address.description.dropLast(2)  // ":0"
            guard address.isIPv6 else { return bits == 32 ? String(text) : "\(text)/\(bits)" }
            return bits == 128 ? String(text) : "\(text.dropLast())/\(bits)]"
        }
    }

    init(parsing text: Substring) throws(KithError) {
        if text == "*" {
            self = .any
        } else if text.hasPrefix("*.") {
            guard let name = HostName.normalised(text.dropFirst(2)) else { throw Self.wrong(text) }
            self = .beneath(name)
        } else if let network = try Self.network(text) {
            self = network
        } else if let name = HostName.normalised(text) {
            self = name == "localhost" ? .localhost : .name(name)
        } else {
            throw Self.wrong(text)
        }
    }

    /// An address or a network; `nil` when the text is meant as neither.
    private static func network(_ text: Substring) throws(KithError) -> Self? {
        var inner = text
        let isBracketed = text.hasPrefix("[") && text.hasSuffix("]")
        if isBracketed { inner = text.dropFirst().dropLast() }
        let parts = inner.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        let host = isBracketed ? "[\(parts[0])]" : String(parts[0])
        guard let address = NetworkAddress("\(host):0") else {
            guard isBracketed || parts.count == 2 || text.contains(":") else { return nil }
            throw KithError(
                .invalid,
                "“\(text.prefix(128))” is not an address. Write 192.0.2.1, 10.0.0.0/8, [2001:db8::1] or [2001:db8::/32]."
            )
        }
        guard address.isIPv6 == isBracketed, address.zone == 0 else {
            throw KithError(
                .invalid, "“\(text.prefix(128))”: an address inside an IPv6 one, or with a zone, cannot be granted.")
        }
        guard parts.count == 2 else { return .network(address, bits: isBracketed ? 128 : 32) }
        guard parts[1].utf8.count <= 3, parts[1].utf8.allSatisfy({ (48...57).contains($0) }),
            parts[1] == "0" || parts[1].first != "0", let bits = Int(parts[1]), bits <= (isBracketed ? 128 : 32)
        else {
            throw KithError(.invalid, "“/\(parts[1].prefix(16))” does not say how many bits of \(host) count.")
        }
        guard masked(address, bits: bits) == masked(address, bits: 128) else {
            throw KithError(
                .invalid, "\(host)/\(bits) has bits set after the first \(bits): write the network's first address.")
        }
        return .network(address, bits: bits)
    }

    private static func wrong(_ text: Substring) -> KithError {
        KithError(
            .invalid,
            "“\(text.prefix(128))” is not a host: a name in ASCII (xn--… for others), *.NAME, an address, a network, or *."
        )
    }
}

// MARK: - What grants allow

extension Sequence<Grant> {
    /// Tells whether a connection to `address` is allowed, asked for as `name` or by itself.
    ///
    /// `isOwn` says that it is one of this device's own addresses.
    package func allowForwarding(to address: NetworkAddress, name: String?, isOwn: Bool) -> Bool {
        contains { grant in
            switch grant {
            case .forward: true
            case .forwardTo(let pattern): pattern.allows(address, name: name, isOwn: isOwn)
            default: false
            }
        }
    }

    /// Tells whether a connection to `name` might be allowed, so that it is worth looking up.
    package func mightAllowForwarding(toName name: String, port: UInt16) -> Bool {
        contains { grant in
            switch grant {
            case .forward: true
            case .forwardTo(let pattern): pattern.mightAllow(name: name, port: port)
            default: false
            }
        }
    }

    /// Tells whether a connection to the Unix socket at `path` is allowed.
    package func allowForwarding(toSocket path: String) -> Bool {
        contains { $0 == .forward || $0 == .forwardTo(.socket(path: path)) }
    }

    /// Tells whether listening at `address` is allowed; port 0 (the system chooses) needs every port.
    ///
    /// The plain `forward` is for loopback only.
    package func allowListening(at address: NetworkAddress) -> Bool {
        contains { grant in
            switch grant {
            case .forward: return address.isLoopback
            case .forwardListen(.hosts(let hosts, let ports)):
                guard address.port == 0 ? ports == ForwardPattern.everyPort : ports.contains(address.port) else {
                    return false
                }
                return hosts == .any || hosts.contains(address) || (hosts == .localhost && address.isLoopback)
            default: return false
            }
        }
    }

    /// Tells whether listening at a new Unix socket is allowed; only a grant that names it allows that.
    package func allowListening(atSocket path: String) -> Bool {
        contains { $0 == .forwardListen(.socket(path: path)) }
    }
}
