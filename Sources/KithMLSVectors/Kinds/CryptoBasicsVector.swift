import KithMLS

struct CryptoBasicsVector: Vector {
    struct RefHash: Codable, Sendable {
        let label: String
        let value: Hex
        let out: Hex
    }
    struct Expand: Codable, Sendable {
        let secret: Hex
        let label: String
        let context: Hex
        let length: Int
        let out: Hex
    }
    struct Derive: Codable, Sendable {
        let secret: Hex
        let label: String
        let out: Hex
    }
    struct DeriveTree: Codable, Sendable {
        let secret: Hex
        let label: String
        let generation: UInt32
        let length: Int
        let out: Hex
    }
    struct Sign: Codable, Sendable {
        let priv: Hex
        let pub: Hex
        let content: Hex
        let label: String
        let signature: Hex
    }
    struct Encrypt: Codable, Sendable {
        let priv: Hex
        let pub: Hex
        let label: String
        let context: Hex
        let plaintext: Hex
        let kemOutput: Hex
        let ciphertext: Hex
    }

    let cipherSuite: UInt16
    let refHash: RefHash
    let expandWithLabel: Expand
    let deriveSecret: Derive
    let deriveTreeSecret: DeriveTree
    let signWithLabel: Sign
    let encryptWithLabel: Encrypt
    var suite: UInt16? { cipherSuite }

    func verify(_ suite: any CipherSuite) throws {
        try check(suite.referenceHash(refHash.label, refHash.value.bytes) == refHash.out.bytes, "ref_hash")
        try check(
            suite.expand(
                Secret(copying: expandWithLabel.secret.bytes), label: expandWithLabel.label,
                context: expandWithLabel.context.bytes, count: expandWithLabel.length
            ).reveal() == expandWithLabel.out.bytes, "expand_with_label")
        try check(
            suite.derive(Secret(copying: deriveSecret.secret.bytes), deriveSecret.label).reveal()
                == deriveSecret.out.bytes, "derive_secret")
        try check(
            suite.derive(
                Secret(copying: deriveTreeSecret.secret.bytes), deriveTreeSecret.label,
                generation: deriveTreeSecret.generation, count: deriveTreeSecret.length
            ).reveal() == deriveTreeSecret.out.bytes, "derive_tree_secret")
        try verifySignature(suite)
        try verifyEncryption(suite)
    }

    private func verifySignature(_ suite: any CipherSuite) throws {
        let sign = signWithLabel
        let key = try suite.importSignatureKey(sign.priv.bytes)
        try check(key.publicKey == sign.pub.bytes, "signature public key")
        try check(
            suite.isValid(sign.signature.bytes, for: sign.content.bytes, label: sign.label, by: sign.pub.bytes),
            "signature")
        let own = try suite.sign(sign.content.bytes, label: sign.label, with: key)
        try check(suite.isValid(own, for: sign.content.bytes, label: sign.label, by: sign.pub.bytes), "own signature")
        try check(
            !suite.isValid(own, for: sign.content.bytes + [0], label: sign.label, by: sign.pub.bytes),
            "signature over other content")
    }

    private func verifyEncryption(_ suite: any CipherSuite) throws {
        let encrypt = encryptWithLabel
        let key = try suite.importHPKEKey(encrypt.priv.bytes)
        try check(key.publicKey == encrypt.pub.bytes, "HPKE public key")
        let sealed = HPKECiphertext(kemOutput: encrypt.kemOutput.bytes, ciphertext: encrypt.ciphertext.bytes)
        for sealed in [
            sealed,
            try suite.encrypt(
                encrypt.plaintext.bytes, to: encrypt.pub.bytes, label: encrypt.label, context: encrypt.context.bytes),
        ] {
            let opened = try suite.decrypt(sealed, with: key, label: encrypt.label, context: encrypt.context.bytes)
            try check(opened.reveal() == encrypt.plaintext.bytes, "encrypt_with_label")
        }
    }
}

extension CryptoBasicsVector {
    static func make(_ suite: any CipherSuite, _ draw: inout Draw) throws -> CryptoBasicsVector {
        CryptoBasicsVector(
            cipherSuite: suite.id.rawValue, refHash: RefHash.make(suite, &draw),
            expandWithLabel: Expand.make(suite, &draw), deriveSecret: Derive.make(suite, &draw),
            deriveTreeSecret: DeriveTree.make(suite, &draw), signWithLabel: try Sign.make(suite, &draw),
            encryptWithLabel: try Encrypt.make(suite, &draw))
    }
}

extension CryptoBasicsVector.RefHash {
    fileprivate static func make(_ suite: any CipherSuite, _ draw: inout Draw) -> Self {
        let label = draw.label()
        let value = draw.hex(draw.number(0...64))
        return Self(label: label, value: value, out: Hex(suite.referenceHash(label, value.bytes)))
    }
}

extension CryptoBasicsVector.Expand {
    fileprivate static func make(_ suite: any CipherSuite, _ draw: inout Draw) -> Self {
        let secret = draw.hex(suite.secretLength)
        let label = draw.label()
        let context = draw.hex(draw.number(0...64))
        let length = draw.number(1...100)
        let out = suite.expand(Secret(copying: secret.bytes), label: label, context: context.bytes, count: length)
        return Self(secret: secret, label: label, context: context, length: length, out: Hex(out.reveal()))
    }
}

extension CryptoBasicsVector.Derive {
    fileprivate static func make(_ suite: any CipherSuite, _ draw: inout Draw) -> Self {
        let secret = draw.hex(suite.secretLength)
        let label = draw.label()
        let out = suite.derive(Secret(copying: secret.bytes), label)
        return Self(secret: secret, label: label, out: Hex(out.reveal()))
    }
}

extension CryptoBasicsVector.DeriveTree {
    fileprivate static func make(_ suite: any CipherSuite, _ draw: inout Draw) -> Self {
        let secret = draw.hex(suite.secretLength)
        let label = draw.label()
        let generation = draw.number(0...UInt32.max)
        let out = suite.derive(
            Secret(copying: secret.bytes), label, generation: generation, count: suite.secretLength)
        return Self(
            secret: secret, label: label, generation: generation, length: suite.secretLength, out: Hex(out.reveal()))
    }
}

extension CryptoBasicsVector.Sign {
    fileprivate static func make(_ suite: any CipherSuite, _ draw: inout Draw) throws -> Self {
        let key = suite.generateSignatureKey()
        let content = draw.hex(draw.number(0...64))
        let label = draw.label()
        return Self(
            priv: Hex(key.reveal()), pub: Hex(key.publicKey), content: content, label: label,
            signature: Hex(try suite.sign(content.bytes, label: label, with: key)))
    }
}

extension CryptoBasicsVector.Encrypt {
    fileprivate static func make(_ suite: any CipherSuite, _ draw: inout Draw) throws -> Self {
        let key = suite.generateHPKEKey()
        let label = draw.label()
        let context = draw.hex(draw.number(0...64))
        let plaintext = draw.hex(draw.number(0...64))
        let sealed = try suite.encrypt(plaintext.bytes, to: key.publicKey, label: label, context: context.bytes)
        return Self(
            priv: Hex(key.reveal()), pub: Hex(key.publicKey), label: label, context: context, plaintext: plaintext,
            kemOutput: Hex(sealed.kemOutput), ciphertext: Hex(sealed.ciphertext))
    }
}
