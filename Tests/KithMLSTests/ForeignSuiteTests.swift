import KithMLS
import Testing

/// Suite 1 under a number of its own, as somebody outside the engine would bring one.
private struct ForeignSuite: CipherSuite {
    let inner = CipherSuites.all[0]
    let id = CipherSuiteID(rawValue: 0xF0F0)
    var secretLength: Int { inner.secretLength }
    var keyLength: Int { inner.keyLength }
    var nonceLength: Int { inner.nonceLength }

    func hash(_ input: [UInt8]) -> [UInt8] { inner.hash(input) }
    func mac(_ key: borrowing Secret, _ input: [UInt8]) -> [UInt8] { inner.mac(key, input) }
    func extract(salt: borrowing Secret, _ input: borrowing Secret) -> Secret { inner.extract(salt: salt, input) }
    func expand(_ secret: borrowing Secret, info: [UInt8], count: Int) -> Secret {
        inner.expand(secret, info: info, count: count)
    }
    func seal(_ plaintext: [UInt8], key: borrowing Secret, nonce: [UInt8], authenticating: [UInt8]) -> [UInt8] {
        inner.seal(plaintext, key: key, nonce: nonce, authenticating: authenticating)
    }
    func open(
        _ ciphertext: [UInt8], key: borrowing Secret, nonce: [UInt8], authenticating: [UInt8]
    ) throws(MLSError) -> [UInt8] {
        try inner.open(ciphertext, key: key, nonce: nonce, authenticating: authenticating)
    }
    func generateHPKEKey() -> HPKEPrivateKey { inner.generateHPKEKey() }
    func deriveHPKEKey(_ secret: borrowing Secret) throws(MLSError) -> HPKEPrivateKey {
        let key = try inner.deriveHPKEKey(secret)
        return HPKEPrivateKey(publicKey: key.publicKey, secret: Secret(copying: key.reveal()), native: key.native)
    }
    func importHPKEKey(_ privateKey: [UInt8]) throws(MLSError) -> HPKEPrivateKey { try inner.importHPKEKey(privateKey) }
    func isValidHPKEKey(_ publicKey: HPKEPublicKey) -> Bool { inner.isValidHPKEKey(publicKey) }
    func hpkeInfo(_ info: [UInt8]) -> HPKEInfo { inner.hpkeInfo(info) }
    func hpkeSeal(_ plaintext: [UInt8], to key: HPKEPublicKey, info: HPKEInfo) throws(MLSError) -> HPKECiphertext {
        try inner.hpkeSeal(plaintext, to: key, info: info)
    }
    func hpkeOpen(_ ciphertext: HPKECiphertext, with key: HPKEPrivateKey, info: [UInt8]) throws(MLSError) -> Secret {
        try inner.hpkeOpen(ciphertext, with: key, info: info)
    }
    func hpkeExport(to key: HPKEPublicKey, context: [UInt8], count: Int) throws(MLSError) -> HPKEExport {
        try inner.hpkeExport(to: key, context: context, count: count)
    }
    func hpkeExport(
        from output: [UInt8], with key: HPKEPrivateKey, context: [UInt8], count: Int
    ) throws(MLSError) -> Secret {
        try inner.hpkeExport(from: output, with: key, context: context, count: count)
    }
    func generateSignatureKey() -> SignaturePrivateKey { inner.generateSignatureKey() }
    func importSignatureKey(_ privateKey: [UInt8]) throws(MLSError) -> SignaturePrivateKey {
        try inner.importSignatureKey(privateKey)
    }
    func isValidSignatureKey(_ publicKey: SignaturePublicKey) -> Bool { inner.isValidSignatureKey(publicKey) }
    func sign(_ content: [UInt8], with key: SignaturePrivateKey) throws(MLSError) -> [UInt8] {
        try inner.sign(content, with: key)
    }
    func isValid(_ signature: [UInt8], for content: [UInt8], by key: SignaturePublicKey) -> Bool {
        inner.isValid(signature, for: content, by: key)
    }
}

@Suite struct ForeignSuiteTests {
    @Test func `a suite from outside the engine carries a group, for those who have it`() throws {
        let suite = ForeignSuite()
        var capabilities = Capabilities()
        capabilities.cipherSuites.append(suite.id)
        var settings = configuration()
        let anna = Member("anna", suite, capabilities: capabilities)
        let ben = Member("ben", suite, capabilities: capabilities)
        try anna.create()
        let bundle = try ben.keyPackage()
        let output = try anna.commit(CommitOptions([.add(bundle.keyPackage)]))
        guard case .welcome(let welcome)? = output.welcome else { throw MLSError.unexpectedWireFormat }
        #expect(throws: MLSError.unsupportedCipherSuite) {
            _ = try Group(joining: welcome, with: bundle, configuration: settings)
        }
        settings.suites.append(suite)
        #expect(welcome.recipient(of: [bundle], suite) != nil)
        ben.take(try Group(joining: welcome, with: bundle, configuration: settings))
        try agree([anna, ben])
    }
}
