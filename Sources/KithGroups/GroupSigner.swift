public import KithMLS

/// A signature key that its owner keeps: in a chip, an agent or another process.
///
/// Only signatures come out of it.
///
/// ```swift
/// let client = try GroupClient(
///     name: "anna", signer: chip, storage: storage, delivery: delivery, options: options)
/// ```
///
/// The storage then holds the public half alone, and whoever copies it cannot speak as the client.
public protocol GroupSigner: Sendable {
    /// The public half, as the suite serialises it; always the same.
    var publicKey: SignaturePublicKey { get }

    /// A signature over `content` in the suite's scheme and the encoding of RFC 8446.
    ///
    /// Called on a thread of the client's, which waits for it: a commit takes one or two, a key package two.
    func sign(_ content: [UInt8]) throws -> [UInt8]
}

/// A suite whose signatures under one key are another's to make; what is stored of that key is its public half.
struct SignerSuite: CipherSuite {
    let base: any CipherSuite
    let signer: any GroupSigner

    /// The bytes before the public key where a private one would be stored.
    ///
    /// No suite takes it for a private key: it is longer than all.
    private static let mark = Array("a signer keeps the private half of the key: ".utf8)

    /// Stands for the private half.
    private struct Elsewhere: Sendable {}

    var signerKey: SignaturePrivateKey {
        SignaturePrivateKey(
            publicKey: signer.publicKey, secret: Secret(copying: Self.mark + signer.publicKey), native: Elsewhere())
    }

    // MARK: - Signatures

    func generateSignatureKey() -> SignaturePrivateKey { signerKey }

    func importSignatureKey(_ privateKey: [UInt8]) throws(MLSError) -> SignaturePrivateKey {
        guard privateKey.starts(with: Self.mark) else { return try base.importSignatureKey(privateKey) }
        guard privateKey.dropFirst(Self.mark.count).elementsEqual(signer.publicKey) else { throw .invalidPrivateKey }
        return signerKey
    }

    func sign(_ content: [UInt8], with key: SignaturePrivateKey) throws(MLSError) -> [UInt8] {
        guard key.native is Elsewhere else { return try base.sign(content, with: key) }
        let signature: [UInt8]
        do { signature = try signer.sign(content) } catch { throw .signingFailed }
        // A signer of another key would make messages nobody takes, and a group that cannot go on.
        guard base.isValid(signature, for: content, by: key.publicKey) else { throw .signingFailed }
        return signature
    }

    func isValidSignatureKey(_ publicKey: SignaturePublicKey) -> Bool { base.isValidSignatureKey(publicKey) }

    func isValid(_ signature: [UInt8], for content: [UInt8], by key: SignaturePublicKey) -> Bool {
        base.isValid(signature, for: content, by: key)
    }

    // MARK: - Everything else

    var id: CipherSuiteID { base.id }
    var secretLength: Int { base.secretLength }
    var keyLength: Int { base.keyLength }
    var nonceLength: Int { base.nonceLength }

    func hash(_ input: [UInt8]) -> [UInt8] { base.hash(input) }
    func hash(_ parts: [ArraySlice<UInt8>]) -> [UInt8] { base.hash(parts) }
    func mac(_ key: borrowing Secret, _ input: [UInt8]) -> [UInt8] { base.mac(key, input) }
    func mac(_ key: borrowing Secret, _ parts: [ArraySlice<UInt8>]) -> [UInt8] { base.mac(key, parts) }
    func extract(salt: borrowing Secret, _ input: borrowing Secret) -> Secret { base.extract(salt: salt, input) }
    func expand(_ secret: borrowing Secret, info: [UInt8], count: Int) -> Secret {
        base.expand(secret, info: info, count: count)
    }
    func seal(_ plaintext: [UInt8], key: borrowing Secret, nonce: [UInt8], authenticating: [UInt8]) -> [UInt8] {
        base.seal(plaintext, key: key, nonce: nonce, authenticating: authenticating)
    }
    func open(
        _ ciphertext: [UInt8], key: borrowing Secret, nonce: [UInt8], authenticating: [UInt8]
    ) throws(MLSError) -> [UInt8] {
        try base.open(ciphertext, key: key, nonce: nonce, authenticating: authenticating)
    }
    func generateHPKEKey() -> HPKEPrivateKey { base.generateHPKEKey() }
    func deriveHPKEKey(_ secret: borrowing Secret) throws(MLSError) -> HPKEPrivateKey { try base.deriveHPKEKey(secret) }
    func importHPKEKey(_ privateKey: [UInt8]) throws(MLSError) -> HPKEPrivateKey { try base.importHPKEKey(privateKey) }
    func isValidHPKEKey(_ publicKey: HPKEPublicKey) -> Bool { base.isValidHPKEKey(publicKey) }
    func hpkeInfo(_ info: [UInt8]) -> HPKEInfo { base.hpkeInfo(info) }
    func hpkeSeal(_ plaintext: [UInt8], to key: HPKEPublicKey, info: HPKEInfo) throws(MLSError) -> HPKECiphertext {
        try base.hpkeSeal(plaintext, to: key, info: info)
    }
    func hpkeOpen(_ ciphertext: HPKECiphertext, with key: HPKEPrivateKey, info: [UInt8]) throws(MLSError) -> Secret {
        try base.hpkeOpen(ciphertext, with: key, info: info)
    }
    func hpkeExport(to key: HPKEPublicKey, context: [UInt8], count: Int) throws(MLSError) -> HPKEExport {
        try base.hpkeExport(to: key, context: context, count: count)
    }
    func hpkeExport(
        from output: [UInt8], with key: HPKEPrivateKey, context: [UInt8], count: Int
    ) throws(MLSError) -> Secret {
        try base.hpkeExport(from: output, with: key, context: context, count: count)
    }
}
