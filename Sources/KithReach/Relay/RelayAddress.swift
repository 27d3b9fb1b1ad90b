public import KithIdentity
import KithWire

/// Where a relay is: what tickets, records and settings say of it.
///
/// As text a URL: `https://relay.example.org`, `http://192.0.2.1:3340`, `https://relay.example.org#KEY`. After the `#`
/// stands the relay's own key, in the text form of a `DeviceID`: who knows it needs no certificate authority, and reaches
/// the relay by QUIC. With `+ca` after the key, what answers on TCP proves itself by a certificate of an authority, and
/// the key is for QUIC alone. A path and a query are not part of it. It holds no `=`, at which readers of records cut a
/// value.
public struct RelayAddress: Hashable, Sendable {
    /// The most bytes of its text.
    public static let maxLength = 255

    /// True when the relay speaks TLS, false for plain TCP (`http`).
    public let isSecure: Bool
    /// A name or an IP address, without brackets.
    public let host: String
    /// The TCP port.
    public let port: UInt16
    /// The relay's own key, when it is known.
    public let key: DeviceID?
    /// Indicates whether on TCP an authority's certificate proves the relay, not its key.
    public let isCertified: Bool

    /// The port of a scheme when none is written: 443, or 80.
    public static func defaultPort(isSecure: Bool) -> UInt16 { isSecure ? 443 : 80 }

    /// Makes an address of its parts; `nil` when the host is neither a name nor an IP address, or the port is 0.
    public init?(
        host: String, port: UInt16? = nil, isSecure: Bool = true, key: DeviceID? = nil, isCertified: Bool = false
    ) {
        let port = port ?? Self.defaultPort(isSecure: isSecure)
        guard port != 0 else { return nil }
        if let address = NetworkAddress(host.contains(":") ? "[\(host)]:1" : "\(host):1") {
            guard address.zone == 0, !address.isMulticast, !address.isUnspecified else { return nil }
            let text = address.description.dropLast(2)
            self.host = address.isIPv6 ? String(text.dropFirst().dropLast()) : String(text)
        } else {
            guard let name = HostName.normalised(host) else { return nil }
            self.host = name
        }
        (self.isSecure, self.port, self.key) = (isSecure, port, key)
        // Without a key, or without TLS, there is nothing to tell apart.
        self.isCertified = isCertified && isSecure && key != nil
        guard description.utf8.count <= Self.maxLength else { return nil }
    }
}

// MARK: - Text

extension RelayAddress: LosslessStringConvertible {
    /// The URL, without the port that its scheme has anyway.
    public var description: String {
        let name = host.contains(":") ? "[\(host)]" : host
        let suffix = port == Self.defaultPort(isSecure: isSecure) ? "" : ":\(port)"
        let fragment = key.map { "#\($0)\(isCertified ? Self.certifiedMark : "")" } ?? ""
        return "\(isSecure ? "https" : "http")://\(name)\(suffix)\(fragment)"
    }

    private static let certifiedMark = "+ca"

    /// Reads a URL of scheme `https`, `wss`, `http` or `ws`; `nil` when it is none, or names no host.
    ///
    /// A path is passed over: relays are asked for paths of their own.
    public init?(_ description: String) {
        guard description.utf8.count <= Self.maxLength, !description.utf8.contains(UInt8(ascii: "=")) else {
            return nil
        }
        guard let colon = description.firstRange(of: "://") else { return nil }
        let isSecure: Bool
        switch description[..<colon.lowerBound].lowercased() {
        case "https", "wss": isSecure = true
        case "http", "ws": isSecure = false
        default: return nil
        }
        var rest = description[colon.upperBound...]
        var (key, isCertified) = (DeviceID?.none, false)
        if let hash = rest.firstIndex(of: "#") {
            var text = rest[rest.index(after: hash)...]
            isCertified = text.hasSuffix(Self.certifiedMark)
            if isCertified { text = text.dropLast(Self.certifiedMark.count) }
            guard let id = DeviceID(String(text)) else { return nil }
            key = id
            rest = rest[..<hash]
        }
        if let end = rest.firstIndex(where: { $0 == "/" || $0 == "?" }) { rest = rest[..<end] }
        guard let place = Self.place(rest) else { return nil }
        self.init(
            host: String(place.host), port: place.port, isSecure: isSecure, key: key, isCertified: isCertified)
    }

    /// Reads `HOST`, `HOST:PORT` or the same with an IPv6 address in brackets; a port that is none is 0.
    static func place(_ text: Substring) -> (host: Substring, port: UInt16?)? {
        var rest = text
        var port: UInt16?
        var host = rest
        if let bracket = rest.lastIndex(of: "]") {
            guard rest.first == "[" else { return nil }
            host = rest[rest.index(after: rest.startIndex)..<bracket]
            guard host.contains(":") else { return nil }
            rest = rest[rest.index(after: bracket)...]
            guard rest.isEmpty || rest.first == ":" else { return nil }
            if !rest.isEmpty { port = UInt16(rest.dropFirst()) ?? 0 }
        } else if let separator = rest.lastIndex(of: ":") {
            host = rest[..<separator]
            guard !host.contains(":") else { return nil }
            port = UInt16(rest[rest.index(after: separator)...]) ?? 0
        }
        return (host, port)
    }
}

extension RelayAddress {
    /// The host and the port, as HTTP names them: an IPv6 address in brackets.
    package var authority: String { "\(host.contains(":") ? "[\(host)]" : host):\(port)" }

    /// The address that those see who know certificates only.
    package var withoutKey: RelayAddress { RelayAddress(host: host, port: port, isSecure: isSecure) ?? self }
    /// The key that proves the relay on TCP, where no authority does.
    package var pinnedKey: DeviceID? { isCertified ? nil : key }

    /// Indicates whether both are one relay, as far as they say: at the same place, and not of two keys.
    package func isSameRelay(as other: RelayAddress) -> Bool {
        (isSecure, host, port) == (other.isSecure, other.host, other.port)
            && (key == nil || other.key == nil || key == other.key)
    }
}

extension Sequence<RelayAddress> {
    /// The relays in the same order, each once: what is named with its key and without has the key.
    package var distinct: [RelayAddress] {
        reduce(into: []) { relays, relay in
            guard let index = relays.firstIndex(where: { $0.isSameRelay(as: relay) }) else {
                return relays.append(relay)
            }
            if relays[index].key == nil { relays[index] = relay }
        }
    }
}
