/// A public key of a suite's KEM, serialised as in RFC 9180 (RFC 9420 §5.1.1).
public typealias HPKEPublicKey = [UInt8]
/// A public key of a suite's signature scheme (RFC 9420 §5.1.1).
public typealias SignaturePublicKey = [UInt8]

/// A KEM key pair; the private half is cleared with the last reference.
public final class HPKEPrivateKey: Sendable {
    /// The public half.
    public let publicKey: HPKEPublicKey
    /// The private half, serialised as in RFC 9180.
    let secret: Secret
    /// The private half in whatever form the suite wants to have it, of a type only the suite knows.
    public let native: any Sendable

    /// Puts a pair together; for suites.
    public init(publicKey: HPKEPublicKey, secret: consuming Secret, native: any Sendable) {
        self.publicKey = publicKey
        self.secret = secret
        self.native = native
    }

    /// The private half's bytes, for storage; they are not cleared.
    public func reveal() -> [UInt8] { secret.reveal() }
}

/// A signature key pair; the private half is cleared with the last reference.
public final class SignaturePrivateKey: Sendable {
    /// The public half.
    public let publicKey: SignaturePublicKey
    let secret: Secret
    /// The private half in whatever form the suite wants to have it, of a type only the suite knows.
    public let native: any Sendable

    /// Puts a pair together; for suites.
    public init(publicKey: SignaturePublicKey, secret: consuming Secret, native: any Sendable) {
        self.publicKey = publicKey
        self.secret = secret
        self.native = native
    }

    /// The private half's bytes, for storage; they are not cleared.
    public func reveal() -> [UInt8] { secret.reveal() }
}

/// The output of one HPKE encryption for another party (RFC 9420 §7.6).
public struct HPKECiphertext: Hashable, TLSCodable {
    /// The KEM's output, `enc` in RFC 9180.
    public var kemOutput: [UInt8]
    /// The sealed plaintext with its tag.
    public var ciphertext: [UInt8]

    /// Takes both parts.
    public init(kemOutput: [UInt8], ciphertext: [UInt8]) {
        self.kemOutput = kemOutput
        self.ciphertext = ciphertext
    }

    package init(from reader: inout TLSReader) throws(MLSError) {
        kemOutput = try reader.opaque()
        ciphertext = try reader.opaque()
    }

    package func encode(into writer: inout TLSWriter) {
        writer.opaque(kemOutput)
        writer.opaque(ciphertext)
    }
}

/// An info of HPKE, as the suite needs it for any number of recipients.
public struct HPKEInfo: Hashable, Sendable {
    /// `info_hash` of RFC 9180 §5.1, or whatever else the suite makes of the info.
    public let hash: [UInt8]

    /// Takes what the suite made of an info.
    public init(hash: [UInt8]) { self.hash = hash }
}

/// A secret made for another party, and what that party needs to make it too.
public struct HPKEExport: ~Copyable {
    /// The KEM's output.
    public let kemOutput: [UInt8]
    /// The exported secret.
    public let secret: Secret

    /// Takes both parts; for suites.
    public init(kemOutput: [UInt8], secret: consuming Secret) {
        self.kemOutput = kemOutput
        self.secret = secret
    }
}
