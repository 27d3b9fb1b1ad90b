import KithIdentity
public import KithWire

/// Connections and datagrams carried between devices, and on to others.
public enum Forward {
    /// The kind of traffic that is carried.
    @nonexhaustive
    public enum Transport: String, Hashable, Sendable, Codable, CaseIterable {
        /// Connections: TCP, or those of a Unix socket.
        case tcp
        /// Datagrams.
        case udp
    }

    /// The destination of a connection, or where one is listened for.
    ///
    /// As text: `192.0.2.1:80`, `[2001:db8::1]:80`, `example.org:80`, `*:80` (every address of the device, for
    /// listening), `unix:/run/app.sock`.
    @nonexhaustive
    public enum Endpoint: Hashable, Sendable {
        /// An address; with port 0, for listening, whichever the system chooses.
        case address(NetworkAddress)
        /// A name, normalised (`HostName`), which the device there looks up.
        case name(String, port: UInt16)
        /// Every address.
        case every(port: UInt16)
        /// The Unix socket at an absolute path.
        case socket(path: String)

        /// The longest path of a socket, in bytes: that of the smallest system.
        public static let longestPath = 103
    }
}

extension Forward.Endpoint {
    /// Makes a place of a host, a name or an address without brackets, and a port; `nil` when it is neither.
    public init?(host: some StringProtocol, port: UInt16) {
        let text = host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        if host == "*" {
            self = .every(port: port)
        } else if let address = NetworkAddress(text) {
            self = .address(address)
        } else if let name = HostName.normalised(host) {
            self = .name(name, port: port)
        } else {
            return nil
        }
    }

    /// Makes a place of a socket's path; `nil` when it is not absolute and plain, or too long.
    public init?(path: String) {
        guard Grant.isNormalised(path), path != "/", path.utf8.count <= Self.longestPath else { return nil }
        self = .socket(path: path)
    }

    /// The port; `nil` of a Unix socket.
    public var port: UInt16? {
        switch self {
        case .address(let address): address.port
        case .name(_, let port), .every(let port): port
        case .socket: nil
        }
    }
}

extension Forward.Endpoint: LosslessStringConvertible {
    /// The text form.
    public var description: String {
        switch self {
        case .address(let address): "\(address)"
        case .name(let name, let port): "\(name):\(port)"
        case .every(let port): "*:\(port)"
        case .socket(let path): "unix:\(path)"
        }
    }

    /// Reads the text form; `nil` when it is not one.
    public init?(_ description: String) {
        guard description.utf8.count <= 512 else { return nil }
        if description.hasPrefix("unix:") {
            self.init(path: String(description.dropFirst(5)))
            return
        }
        guard let colon = description.lastIndex(of: ":") else { return nil }
        let digits = description[description.index(after: colon)...]
        var host = description[..<colon]
        guard (1...5).contains(digits.utf8.count), digits.utf8.allSatisfy({ (48...57).contains($0) }),
            digits == "0" || digits.first != "0", let port = UInt16(digits)
        else { return nil }
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
            guard host.contains(":") else { return nil }
        } else if host.contains(":") {
            return nil
        }
        self.init(host: host, port: port)
    }
}

extension Forward.Endpoint: Codable {
    /// Reads the text form.
    public init(from decoder: any Decoder) throws {
        let text = try decoder.singleValueContainer().decode(String.self)
        guard let endpoint = Self(text) else {
            throw KithError(
                .invalid,
                "“\(text.prefix(128))” is not an endpoint: write HOST:PORT, with an IPv6 address in brackets, or unix:/PATH."
            )
        }
        self = endpoint
    }

    /// Writes the text form.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
