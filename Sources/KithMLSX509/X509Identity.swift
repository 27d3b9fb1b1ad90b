import X509

/// The identity a certificate gives its owner: the presented identifiers (RFC 9420 §5.3, RFC 6125).
public struct X509Identity: Hashable, Sendable {
    /// The subject's distinguished name, as RFC 4514 writes it; empty when the names below say it all.
    public let subject: String
    /// The alternative names, each with its kind in front: `dns:`, `mail:`, `uri:`.
    public let names: Set<String>

    init(_ certificate: Certificate) {
        subject = certificate.subject.description
        var names: Set<String> = []
        // A list of names that cannot be read names nobody.
        for name in (try? certificate.extensions.subjectAlternativeNames) ?? SubjectAlternativeNames([]) {
            switch name {
            case .dnsName(let name): names.insert("dns:" + name.lowercased())
            case .rfc822Name(let name): names.insert("mail:" + name)
            case .uniformResourceIdentifier(let name): names.insert("uri:" + name)
            default: names.insert("other:\(name)")
            }
        }
        self.names = names
    }
}

/// The reason a chain of certificates is not trusted.
@nonexhaustive
public enum X509Refusal: Error, Hashable, Sendable {
    /// The chain has no certificate.
    case empty
    /// The chain has more certificates than anybody needs.
    case chainTooLong
    /// An entry is no X.509 certificate.
    case undecodable
    /// The first certificate is for another key than the leaf's signature key (RFC 9420 §5.3).
    case keyMismatch
    /// The first certificate is not for signing.
    case notForSigning
    /// A certificate's time has not begun.
    case notYetValid
    /// A certificate's time is over.
    case expired
    /// A critical extension, or one on names, that is not processed here (RFC 5280 §4.2).
    case unsupportedExtension
    /// A certificate was not issued by the next one's subject.
    case brokenChain
    /// A certificate's signature is not its issuer's.
    case badSignature
    /// A certificate was issued by one that is not an authority (RFC 5280 §4.2.1.9, §4.2.1.3).
    case issuerNotAuthority
    /// More authorities stand below one than it allows (RFC 5280 §4.2.1.9).
    case pathTooLong
    /// The chain leads to no trusted root.
    case untrusted
}
