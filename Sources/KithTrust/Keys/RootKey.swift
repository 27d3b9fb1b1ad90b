package import Crypto
import Foundation
public import KithWire

/// A person's root key: it signs the certificates of their devices, and their profiles' keys are derived from it.
///
/// P-256. Whoever has it is the person. It lies in memory that is kept from the swap where the system lets it, and is
/// overwritten with zeros at the end.
public struct RootKey: Sendable {
    /// The private key's 32 bytes, big-endian.
    package let secret: SecretBytes
    /// The 65 bytes of the public key's uncompressed form (SEC 1 §2.3.3).
    public let publicKey: [UInt8]

    /// Makes a new key.
    public init() { self.init(P256.Signing.PrivateKey()) }

    /// Takes an existing private key: 32 bytes, big-endian, from 1 to the group's order less 1.
    ///
    /// - Throws: `KithError` `.invalid` for other bytes.
    public init(scalar: [UInt8]) throws(KithError) {
        guard scalar.count == 32, let key = try? P256.Signing.PrivateKey(rawRepresentation: scalar) else {
            throw KithError(.invalid, "These bytes are no P-256 private key.")
        }
        self.init(key)
    }

    private init(_ key: P256.Signing.PrivateKey) {
        publicKey = Array(key.publicKey.x963Representation)
        secret = SecretBytes.copying(key.rawRepresentation)
    }

    /// Its identity, that of the person.
    public var id: KeyID { KeyID(publicKey: publicKey) }

    /// A copy of the private key's bytes, which is the caller's to clear.
    package var scalar: [UInt8] { unsafe secret.withUnsafeBytes { unsafe Array($0) } }

    /// The key in the form that signs; it clears its memory itself, and is not to be kept.
    package var signingKey: P256.Signing.PrivateKey {
        let key = unsafe secret.withUnsafeBytes { unsafe try? P256.Signing.PrivateKey(rawRepresentation: $0) }
        guard let key else { preconditionFailure("a private key that was checked is none any more") }
        return key
    }

    /// The key that others encrypt to for this person, whatever the profile; the same every time.
    public func agreementKey() throws(KithError) -> AgreementKey {
        try KeyDerivation.agreementKey(from: secret, for: .rootAgreement)
    }

    /// The key of a profile, one of the person's roles, such as `work`; the same every time.
    ///
    /// Nobody can tell from their public keys that two profiles are one person's.
    public func profileKey(_ label: KeyLabel) throws(KithError) -> AgreementKey {
        try KeyDerivation.agreementKey(from: secret, for: .profile(label))
    }
}

extension RootKey: CustomStringConvertible, CustomDebugStringConvertible {
    /// The text form.
    public var description: String { "the root key \(id)" }
    /// The text form; no secret is in it.
    public var debugDescription: String { description }
}

extension SecretBytes {
    /// Copies `bytes`, and clears them.
    static func copying(_ bytes: Data) -> SecretBytes {
        var bytes = bytes
        defer { bytes.resetBytes(in: bytes.startIndex..<bytes.endIndex) }
        return unsafe lasting(count: bytes.count) { unsafe $0.copyBytes(from: bytes) }
    }
}
