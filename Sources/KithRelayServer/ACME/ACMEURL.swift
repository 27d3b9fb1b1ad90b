import KithReach

/// A URL of an authority: `https` only, and nothing in it that would end the line it stands in.
package struct ACMEURL: Hashable, Sendable, LosslessStringConvertible {
    /// The most bytes of one.
    static let maxLength = 2_048

    /// The text, as the authority wrote it: it is signed with each request.
    package let description: String
    /// The host and the port.
    let server: RelayAddress
    /// The name or address of the host.
    package var host: String { server.host }
    /// The path and the query.
    let target: String

    /// Let's Encrypt's directory.
    package static var letsEncrypt: ACMEURL {
        guard let url = ACMEURL("https://acme-v02.api.letsencrypt.org/directory") else { preconditionFailure("a URL") }
        return url
    }

    /// Reads a URL; `nil` when it is none of HTTPS.
    package init?(_ description: String) { self.init(description, scheme: "https://") }

    /// Reads a URL of another scheme, for tests.
    init?(_ description: String, scheme: String) {
        guard description.utf8.count <= Self.maxLength, description.hasPrefix(scheme) else { return nil }
        let rest = description.dropFirst(scheme.count)
        let authority = rest.prefix { $0 != "/" && $0 != "?" }
        guard let server = RelayAddress(scheme + authority), server.key == nil else { return nil }
        let target = rest.dropFirst(authority.count)
        // What a path and a query are made of (RFC 3986 §3.3, §3.4).
        let isPlain = target.utf8.allSatisfy { byte in
            (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte)
                || "/-._~%!$&'()*+,;:@?=".utf8.contains(byte)
        }
        guard isPlain else { return nil }
        self.description = description
        self.server = server
        self.target = target.hasPrefix("/") ? String(target) : "/\(target)"
    }

    /// The host and the port as they stand in a request.
    var authority: String { String(server.description.drop { $0 != "/" }.dropFirst(2)) }
}
