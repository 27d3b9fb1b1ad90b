import Crypto

/// The KEM on a Diffie-Hellman group (RFC 9180 §4.1).
enum DHKEM<Group: DiffieHellmanGroup>: KEM {
    static var id: UInt16 { Group.kem }
    static var labels: LabeledKDF<Group.Hash> { LabeledKDF(suite: Array("KEM".utf8) + bigEndian(id)) }

    static func generate() -> Group.PrivateKey { Group.generate() }

    /// `DeriveKeyPair` (RFC 9180 §7.1.3).
    static func derive(_ secret: borrowing Secret) throws(MLSError) -> Group.PrivateKey {
        let labels = labels
        let prk = labels.extract(salt: .empty, "dkp_prk", secret)
        guard let mask = Group.candidateMask else {
            return try importKey(labels.expand(prk, "sk", [], Group.privateKeyLength).reveal())
        }
        for counter in UInt8.min...UInt8.max {
            var candidate = labels.expand(prk, "candidate", [counter], Group.privateKeyLength).reveal()
            defer { clear(&candidate) }
            candidate[0] &= mask
            // Zero and numbers that are not below the group's order are refused: the next candidate.
            if let key = try? Group.importKey(candidate) { return key }
        }
        throw .keyDerivationFailed
    }

    static func importKey(_ bytes: [UInt8]) throws(MLSError) -> Group.PrivateKey {
        do {
            // Numbers may lack leading zeros; X25519's keys are bytes and no numbers.
            let isNumber = Group.candidateMask != nil
            return try Group.importKey(isNumber ? padded(bytes, to: Group.privateKeyLength) : bytes)
        } catch { throw .invalidPrivateKey }
    }

    static func exportKey(_ key: Group.PrivateKey) -> Secret {
        var bytes = Group.exportKey(key)
        defer { clear(&bytes) }
        return Secret(copying: bytes)
    }

    static func publicKey(_ key: Group.PrivateKey) -> HPKEPublicKey { Group.serialise(Group.publicKey(key)) }

    static func isValid(_ key: HPKEPublicKey) -> Bool { Group.isValid(key) }

    static func encapsulate(to key: HPKEPublicKey) throws(MLSError) -> Encapsulation {
        let ephemeral = Group.generate()
        let output = publicKey(ephemeral)
        return Encapsulation(
            sharedSecret: try sharedSecret(ephemeral, key, context: output + key), output: output)
    }

    static func decapsulate(_ output: [UInt8], with key: Group.PrivateKey) throws(MLSError) -> Secret {
        try sharedSecret(key, output, context: output + publicKey(key))
    }

    private static func sharedSecret(
        _ mine: Group.PrivateKey, _ theirs: [UInt8], context: [UInt8]
    ) throws(MLSError) -> Secret {
        let agreed: Secret
        do { agreed = Secret(try Group.agree(mine, Group.parse(theirs))) } catch { throw .invalidPublicKey }
        let labels = labels
        let prk = labels.extract(salt: .empty, "eae_prk", agreed)
        return labels.expand(prk, "shared_secret", context, Group.Hash.Digest.byteCount)
    }
}
