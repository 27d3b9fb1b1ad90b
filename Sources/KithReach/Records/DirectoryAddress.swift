import KithWire

/// Where a directory is: the URL below which records are written and read, `https://directory.example.org/pkarr`.
public struct DirectoryAddress: Hashable, Sendable {
    /// The path when none is written.
    public static let defaultPath = "/pkarr"

    private let server: RelayAddress
    /// The path below which the keys are, without a slash at its end.
    public let path: String

    /// True when it speaks TLS, false for plain TCP (`http`).
    public var isSecure: Bool { server.isSecure }
    /// A name or an IP address, without brackets.
    public var host: String { server.host }
    /// The TCP port.
    public var port: UInt16 { server.port }
    /// The host and port as they stand in a request.
    public var authority: String { String(server.description.drop { $0 != "/" }.dropFirst(2)) }
}

extension DirectoryAddress: LosslessStringConvertible {
    /// The URL.
    public var description: String { "\(server)\(path)" }

    /// Reads a URL of scheme `https` or `http`; `nil` when it is none, or holds a query or a fragment.
    public init?(_ description: String) {
        guard let colon = description.firstRange(of: "://"), !description.contains("?"), !description.contains("#"),
            ["http", "https"].contains(description[..<colon.lowerBound].lowercased()),
            let server = RelayAddress(description)
        else { return nil }
        var path = description[colon.upperBound...].drop { $0 != "/" }
        while path.last == "/" { path = path.dropLast() }
        // What a path is made of, and nothing that would end the line it stands in (RFC 3986 §3.3).
        let isPlain = path.utf8.allSatisfy { byte in
            (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte)
                || "/-._~%!$&'()*+,;:@".utf8.contains(byte)
        }
        guard isPlain else { return nil }
        self.server = server
        self.path = path.isEmpty ? Self.defaultPath : String(path)
    }
}
