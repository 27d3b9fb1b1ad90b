public import KithWire

/// A credential by which one end of a connection proves its identity.
@nonexhaustive
public enum Credential: Sendable {
    /// An Ed25519 key shown without a certificate (RFC 7250), from its 32-byte seed.
    case rawPublicKey(seed: SecretBytes)

    /// A certificate chain in DER, leaf first, and the 32-byte Ed25519 seed of the leaf's key.
    case x509(chain: [[UInt8]], seed: SecretBytes)

    /// A certificate chain in DER, leaf first, and the leaf's private key in DER: PKCS #8, SEC 1 or PKCS #1, not
    /// encrypted; Ed25519, ECDSA on P-256 or P-384, or RSA.
    case certificate(chain: [[UInt8]], privateKey: SecretBytes)

    /// The same from a seed in an array, of which this keeps a copy that is cleared.
    public static func rawPublicKey(seed: [UInt8]) -> Credential { .rawPublicKey(seed: SecretBytes(seed)) }

    /// The same from a seed in an array, of which this keeps a copy that is cleared.
    public static func x509(chain: [[UInt8]], seed: [UInt8]) -> Credential {
        .x509(chain: chain, seed: SecretBytes(seed))
    }
}

extension Credential: CustomStringConvertible {
    /// Names the kind; the seed stays out of it.
    public var description: String {
        switch self {
        case .rawPublicKey: "raw public key"
        case .x509(let chain, _), .certificate(let chain, _): "certificate chain of \(chain.count)"
        }
    }
}

extension Credential: CustomDebugStringConvertible {
    /// The same as ``description``: a debugger's log is a log too.
    public var debugDescription: String { description }
}

extension Credential: CustomReflectable {
    /// Shows no children, so that `dump` cannot print a seed.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// The credential by which the other end of a connection has proved its identity.
///
/// The handshake proves possession of the private key. Whether the key is a *known* one is for
/// the `verify` closure of the configuration to say.
@nonexhaustive
public enum PeerCredential: Hashable, Sendable {
    /// It showed nothing, or has not yet.
    case none

    /// An Ed25519 public key, 32 bytes.
    case rawPublicKey([UInt8])

    /// A certificate chain in DER, leaf first. No signature above the leaf has been checked.
    case x509([[UInt8]])
}

/// The form a peer's credential may take (TLS Certificate Types registry, RFC 7250 §3).
package enum CredentialKind: Hashable, Sendable {
    /// An Ed25519 key without a certificate.
    case rawPublicKey

    /// A chain of X.509 certificates.
    case x509
}
