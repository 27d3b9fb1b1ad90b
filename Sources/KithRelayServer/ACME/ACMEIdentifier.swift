import KithIdentity
import KithWire

/// A name or an IP address that a certificate is for (RFC 8555 §9.7.7, RFC 8738).
package struct ACMEIdentifier: Hashable, Sendable {
    /// The kinds of identifiers, by their names in ACME.
    enum Kind: String, Sendable, Codable {
        case dns
        case ip
    }

    let kind: Kind
    /// The name in lower case, or the address in its short form, without brackets.
    package let value: String
    /// The 4 or 16 bytes of an address; empty for a name.
    let address: [UInt8]

    /// Reads a name or an address; `nil` for one that no certificate is for: a wildcard cannot be proven over HTTP.
    package init?(_ text: String) {
        if let address = NetworkAddress(text.contains(":") ? "[\(text)]:1" : "\(text):1") {
            guard address.zone == 0, !address.isMulticast, !address.isUnspecified else { return nil }
            let form = address.description.dropLast(2)
            kind = .ip
            value = address.isIPv6 ? String(form.dropFirst().dropLast()) : String(form)
            self.address = address.ip
        } else {
            guard let name = HostName.normalised(text), !name.contains("_") else { return nil }
            (kind, value, address) = (.dns, name, [])
        }
    }

    /// True for an IP address.
    package var isAddress: Bool { kind == .ip }
}
