/// The algorithms a group uses (RFC 9420 §5.1): everything the protocol asks of cryptography.
///
/// A new suite is a new conformance; nothing else in the engine names an algorithm.
public protocol CipherSuite: Sendable {
    /// The suite's registered number.
    var id: CipherSuiteID { get }
    /// `KDF.Nh`: the bytes of a secret, and of a hash.
    var secretLength: Int { get }
    /// `AEAD.Nk`: the bytes of a key.
    var keyLength: Int { get }
    /// `AEAD.Nn`: the bytes of a nonce.
    var nonceLength: Int { get }

    /// The suite's hash of `input`.
    func hash(_ input: [UInt8]) -> [UInt8]
    /// The hash of some parts, one after the other: a commit to thousands is large, and need not be copied for it.
    func hash(_ parts: [ArraySlice<UInt8>]) -> [UInt8]
    /// The suite's MAC of `input`: HMAC with its hash (§5.1).
    func mac(_ key: borrowing Secret, _ input: [UInt8]) -> [UInt8]
    /// The MAC of some parts, one after the other.
    func mac(_ key: borrowing Secret, _ parts: [ArraySlice<UInt8>]) -> [UInt8]
    /// `KDF.Extract`.
    func extract(salt: borrowing Secret, _ input: borrowing Secret) -> Secret
    /// `KDF.Expand`.
    func expand(_ secret: borrowing Secret, info: [UInt8], count: Int) -> Secret

    /// Encrypts `plaintext`; the tag is at the end.
    func seal(_ plaintext: [UInt8], key: borrowing Secret, nonce: [UInt8], authenticating: [UInt8]) -> [UInt8]
    /// Decrypts what ``seal(_:key:nonce:authenticating:)`` made.
    ///
    /// - Throws: ``MLSError/decryptionFailed``.
    func open(
        _ ciphertext: [UInt8], key: borrowing Secret, nonce: [UInt8], authenticating: [UInt8]
    ) throws(MLSError) -> [UInt8]

    /// A fresh HPKE key pair.
    func generateHPKEKey() -> HPKEPrivateKey
    /// `KEM.DeriveKeyPair` (RFC 9180 §4).
    func deriveHPKEKey(_ secret: borrowing Secret) throws(MLSError) -> HPKEPrivateKey
    /// The key pair whose private half was serialised.
    func importHPKEKey(_ privateKey: [UInt8]) throws(MLSError) -> HPKEPrivateKey
    /// Tells whether the bytes are a public key of the suite's KEM.
    func isValidHPKEKey(_ publicKey: HPKEPublicKey) -> Bool
    /// Prepares an info for all its recipients: a Welcome's is the whole group info, and hashing it once for each of
    /// thousands would be quadratic.
    func hpkeInfo(_ info: [UInt8]) -> HPKEInfo
    /// `SealBase` of RFC 9180 §6.1 with an empty AAD.
    func hpkeSeal(_ plaintext: [UInt8], to key: HPKEPublicKey, info: HPKEInfo) throws(MLSError) -> HPKECiphertext
    /// `OpenBase` of RFC 9180 §6.1 with an empty AAD.
    func hpkeOpen(_ ciphertext: HPKECiphertext, with key: HPKEPrivateKey, info: [UInt8]) throws(MLSError) -> Secret
    /// `SetupBaseS` and `Export` of RFC 9180 with an empty info (RFC 9420 §8.3).
    func hpkeExport(to key: HPKEPublicKey, context: [UInt8], count: Int) throws(MLSError) -> HPKEExport
    /// `SetupBaseR` and `Export` of RFC 9180 with an empty info (RFC 9420 §8.3).
    func hpkeExport(
        from output: [UInt8], with key: HPKEPrivateKey, context: [UInt8], count: Int
    ) throws(MLSError) -> Secret

    /// A fresh signature key pair.
    func generateSignatureKey() -> SignaturePrivateKey
    /// The key pair whose private half was serialised; leading zeros may be missing for ECDSA.
    func importSignatureKey(_ privateKey: [UInt8]) throws(MLSError) -> SignaturePrivateKey
    /// Tells whether the bytes are a public key of the suite's signature scheme.
    func isValidSignatureKey(_ publicKey: SignaturePublicKey) -> Bool
    /// A signature over `content`, in the encoding of RFC 8446.
    func sign(_ content: [UInt8], with key: SignaturePrivateKey) throws(MLSError) -> [UInt8]
    /// Tells whether `signature` is `key`'s over `content`.
    func isValid(_ signature: [UInt8], for content: [UInt8], by key: SignaturePublicKey) -> Bool
}

extension CipherSuite {
    /// Puts the parts together first.
    public func hash(_ parts: [ArraySlice<UInt8>]) -> [UInt8] { hash(Array(parts.joined())) }
    /// Puts the parts together first.
    public func mac(_ key: borrowing Secret, _ parts: [ArraySlice<UInt8>]) -> [UInt8] {
        mac(key, Array(parts.joined()))
    }
}
