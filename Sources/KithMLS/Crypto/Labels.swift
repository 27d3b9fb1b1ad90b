// The labelled forms of RFC 9420 §5.1.2, §5.1.3, §5.2, §8 and §9.1.
extension CipherSuite {
    /// `ExpandWithLabel(Secret, Label, Context, Length)` (§8).
    package func expand(
        _ secret: borrowing Secret, label: String, context: [UInt8] = [], count: Int
    ) -> Secret {
        var info = TLSWriter(capacity: 24 + label.utf8.count + context.count)
        info.integer(UInt16(count))
        info.label(label)
        info.opaque(context)
        return expand(secret, info: info.bytes, count: count)
    }

    /// `DeriveSecret(Secret, Label)` (§8).
    package func derive(_ secret: borrowing Secret, _ label: String) -> Secret {
        expand(secret, label: label, count: secretLength)
    }

    /// `DeriveTreeSecret(Secret, Label, Generation, Length)` (§9.1).
    package func derive(_ secret: borrowing Secret, _ label: String, generation: UInt32, count: Int) -> Secret {
        expand(secret, label: label, context: generation.encoded, count: count)
    }

    /// `RefHash(label, value)` (§5.2).
    package func referenceHash(_ label: String, _ value: [UInt8]) -> [UInt8] {
        var input = TLSWriter(capacity: value.count + 48)
        input.opaque(Array(label.utf8))
        input.opaque(value)
        return hash(input.bytes)
    }

    /// `SignWithLabel(SignatureKey, Label, Content)` (§5.1.2).
    package func sign(_ content: [UInt8], label: String, with key: SignaturePrivateKey) throws(MLSError) -> [UInt8] {
        try sign(labelled(label, content), with: key)
    }

    /// `VerifyWithLabel(VerificationKey, Label, Content, SignatureValue)` (§5.1.2).
    package func isValid(
        _ signature: [UInt8], for content: [UInt8], label: String, by key: SignaturePublicKey
    ) -> Bool {
        isValid(signature, for: labelled(label, content), by: key)
    }

    /// `EncryptWithLabel(PublicKey, Label, Context, Plaintext)` (§5.1.3).
    package func encrypt(
        _ plaintext: [UInt8], to key: HPKEPublicKey, label: String, context: [UInt8]
    ) throws(MLSError) -> HPKECiphertext {
        try hpkeSeal(plaintext, to: key, info: encryptContext(label, context))
    }

    /// `EncryptContext` for any number of recipients (§5.1.3).
    func encryptContext(_ label: String, _ context: [UInt8]) -> HPKEInfo { hpkeInfo(labelled(label, context)) }

    /// `DecryptWithLabel(PrivateKey, Label, Context, KEMOutput, Ciphertext)` (§5.1.3).
    package func decrypt(
        _ ciphertext: HPKECiphertext, with key: HPKEPrivateKey, label: String, context: [UInt8]
    ) throws(MLSError) -> Secret {
        try hpkeOpen(ciphertext, with: key, info: labelled(label, context))
    }

    /// `SignContent` and `EncryptContext`, which have one form.
    private func labelled(_ label: String, _ content: [UInt8]) -> [UInt8] {
        var writer = TLSWriter(capacity: 24 + label.utf8.count + content.count)
        writer.label(label)
        writer.opaque(content)
        return writer.bytes
    }
}

extension TLSWriter {
    /// Writes `"MLS 1.0 " + Label` as a vector.
    mutating func label(_ label: String) {
        length(8 + label.utf8.count)
        fixed(Array("MLS 1.0 ".utf8))
        fixed(Array(label.utf8))
    }
}
