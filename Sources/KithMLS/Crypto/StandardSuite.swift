import Crypto

/// A suite put together from its parts.
struct StandardSuite<Mechanism: KEM, Cipher: AEAD, Hash: SuiteHash, Scheme: SignatureScheme> {
    let id: CipherSuiteID
    private let hpke = HPKE<Mechanism, Hash, Cipher>()

    init(_ id: CipherSuiteID) { self.id = id }
}

extension StandardSuite: CipherSuite {
    var secretLength: Int { Hash.Digest.byteCount }
    var keyLength: Int { Cipher.keyLength }
    var nonceLength: Int { Cipher.nonceLength }

    func hash(_ input: [UInt8]) -> [UInt8] { KDF<Hash>.hash(input) }
    func hash(_ parts: [ArraySlice<UInt8>]) -> [UInt8] { KDF<Hash>.hash(parts) }
    func mac(_ key: borrowing Secret, _ input: [UInt8]) -> [UInt8] { KDF<Hash>.mac(key, input) }
    func mac(_ key: borrowing Secret, _ parts: [ArraySlice<UInt8>]) -> [UInt8] { KDF<Hash>.mac(key, parts) }
    func extract(salt: borrowing Secret, _ input: borrowing Secret) -> Secret { KDF<Hash>.extract(salt: salt, input) }
    func expand(_ secret: borrowing Secret, info: [UInt8], count: Int) -> Secret {
        KDF<Hash>.expand(secret, info: info, count: count)
    }

    func seal(_ plaintext: [UInt8], key: borrowing Secret, nonce: [UInt8], authenticating: [UInt8]) -> [UInt8] {
        do {
            return try Cipher.seal(plaintext, key.key, nonce, authenticating)
        } catch { preconditionFailure("sealing fails only for a key or nonce of the wrong length, which are ours") }
    }

    func open(
        _ ciphertext: [UInt8], key: borrowing Secret, nonce: [UInt8], authenticating: [UInt8]
    ) throws(MLSError) -> [UInt8] {
        try Cipher.open(ciphertext, key.key, nonce, authenticating)
    }
}

// HPKE keys.
extension StandardSuite {
    private func wrap(_ key: Mechanism.PrivateKey) -> HPKEPrivateKey {
        HPKEPrivateKey(publicKey: Mechanism.publicKey(key), secret: Mechanism.exportKey(key), native: key)
    }

    private func native(_ key: HPKEPrivateKey) throws(MLSError) -> Mechanism.PrivateKey {
        guard let native = key.native as? Mechanism.PrivateKey else { throw .invalidPrivateKey }
        return native
    }

    func generateHPKEKey() -> HPKEPrivateKey { wrap(Mechanism.generate()) }
    func deriveHPKEKey(_ secret: borrowing Secret) throws(MLSError) -> HPKEPrivateKey {
        wrap(try Mechanism.derive(secret))
    }
    func importHPKEKey(_ privateKey: [UInt8]) throws(MLSError) -> HPKEPrivateKey {
        wrap(try Mechanism.importKey(privateKey))
    }
    func isValidHPKEKey(_ publicKey: HPKEPublicKey) -> Bool { Mechanism.isValid(publicKey) }

    func hpkeInfo(_ info: [UInt8]) -> HPKEInfo { hpke.info(info) }
    func hpkeSeal(_ plaintext: [UInt8], to key: HPKEPublicKey, info: HPKEInfo) throws(MLSError) -> HPKECiphertext {
        try hpke.seal(plaintext, to: key, info: info)
    }
    func hpkeOpen(_ ciphertext: HPKECiphertext, with key: HPKEPrivateKey, info: [UInt8]) throws(MLSError) -> Secret {
        try hpke.open(ciphertext, with: native(key), info: info)
    }
    func hpkeExport(to key: HPKEPublicKey, context: [UInt8], count: Int) throws(MLSError) -> HPKEExport {
        try hpke.export(to: key, context: context, count: count)
    }
    func hpkeExport(
        from output: [UInt8], with key: HPKEPrivateKey, context: [UInt8], count: Int
    ) throws(MLSError) -> Secret {
        try hpke.export(from: output, with: native(key), context: context, count: count)
    }
}

// Signatures.
extension StandardSuite {
    private func wrap(_ key: Scheme.PrivateKey) -> SignaturePrivateKey {
        var bytes = Scheme.exportKey(key)
        defer { clear(&bytes) }
        return SignaturePrivateKey(publicKey: Scheme.publicKey(key), secret: Secret(copying: bytes), native: key)
    }

    func generateSignatureKey() -> SignaturePrivateKey { wrap(Scheme.generate()) }
    func importSignatureKey(_ privateKey: [UInt8]) throws(MLSError) -> SignaturePrivateKey {
        do { return wrap(try Scheme.importKey(privateKey)) } catch { throw .invalidPrivateKey }
    }
    func isValidSignatureKey(_ publicKey: SignaturePublicKey) -> Bool { Scheme.isValid(publicKey) }

    func sign(_ content: [UInt8], with key: SignaturePrivateKey) throws(MLSError) -> [UInt8] {
        guard let native = key.native as? Scheme.PrivateKey else { throw .invalidPrivateKey }
        do { return try Scheme.sign(content, native) } catch { throw .signingFailed }
    }

    func isValid(_ signature: [UInt8], for content: [UInt8], by key: SignaturePublicKey) -> Bool {
        // A key or signature that cannot be parsed is one that does not verify.
        (try? Scheme.verify(signature, content, key)) ?? false
    }
}
