import Crypto

/// Hybrid public key encryption in base mode (RFC 9180), one message for each context.
///
/// Written on the primitives and not taken from the library: `DeriveKeyPair` is not there, and the library's key
/// schedule costs as much as the key agreement.
struct HPKE<Mechanism: KEM, Hash: SuiteHash, Cipher: AEAD>: Sendable {
    private let labels: LabeledKDF<Hash>
    /// `psk_id_hash` of base mode, the same for every message (RFC 9180 §5.1).
    private let pskIDHash: [UInt8]

    init() {
        labels = LabeledKDF(
            suite: Array("HPKE".utf8) + bigEndian(Mechanism.id) + bigEndian(Hash.hpkeID) + bigEndian(Cipher.id))
        pskIDHash = labels.extract(salt: .empty, "psk_id_hash", .empty).reveal()
    }

    /// The keys that both ends derive from the shared secret (RFC 9180 §5.1).
    private struct Context: ~Copyable {
        let secret: Secret
        let schedule: [UInt8]
    }

    func info(_ info: [UInt8]) -> HPKEInfo {
        HPKEInfo(hash: labels.extract(salt: .empty, "info_hash", Secret(copying: info)).reveal())
    }

    private func context(_ shared: borrowing Secret, info: HPKEInfo) -> Context {
        var schedule: [UInt8] = [0]
        schedule += pskIDHash
        schedule += info.hash
        return Context(secret: labels.extract(salt: shared, "secret", .empty), schedule: schedule)
    }

    func seal(_ plaintext: [UInt8], to key: HPKEPublicKey, info: HPKEInfo) throws(MLSError) -> HPKECiphertext {
        let encapsulation = try Mechanism.encapsulate(to: key)
        let context = context(encapsulation.sharedSecret, info: info)
        let key = labels.expand(context.secret, "key", context.schedule, Cipher.keyLength)
        let nonce = labels.expand(context.secret, "base_nonce", context.schedule, Cipher.nonceLength).reveal()
        do {
            return HPKECiphertext(
                kemOutput: encapsulation.output, ciphertext: try Cipher.seal(plaintext, key.key, nonce, []))
        } catch { throw .encryptionFailed }
    }

    func open(_ sealed: HPKECiphertext, with key: Mechanism.PrivateKey, info: [UInt8]) throws(MLSError) -> Secret {
        let shared = try Mechanism.decapsulate(sealed.kemOutput, with: key)
        let context = context(shared, info: self.info(info))
        let key = labels.expand(context.secret, "key", context.schedule, Cipher.keyLength)
        let nonce = labels.expand(context.secret, "base_nonce", context.schedule, Cipher.nonceLength).reveal()
        var plaintext = try Cipher.open(sealed.ciphertext, key.key, nonce, [])
        defer { clear(&plaintext) }
        return Secret(copying: plaintext)
    }

    /// `Context.Export` (RFC 9180 §5.3).
    private func export(_ shared: borrowing Secret, _ exporterContext: [UInt8], _ count: Int) -> Secret {
        let context = context(shared, info: info([]))
        let exporter = labels.expand(context.secret, "exp", context.schedule, Hash.Digest.byteCount)
        return labels.expand(exporter, "sec", exporterContext, count)
    }

    func export(to key: HPKEPublicKey, context: [UInt8], count: Int) throws(MLSError) -> HPKEExport {
        let encapsulation = try Mechanism.encapsulate(to: key)
        return HPKEExport(
            kemOutput: encapsulation.output, secret: export(encapsulation.sharedSecret, context, count))
    }

    func export(
        from output: [UInt8], with key: Mechanism.PrivateKey, context: [UInt8], count: Int
    ) throws(MLSError) -> Secret {
        export(try Mechanism.decapsulate(output, with: key), context, count)
    }
}

extension SuiteHash {
    /// HKDF's number with this hash (RFC 9180 §7.2).
    static var hpkeID: UInt16 {
        switch Digest.byteCount {
        case 32: 1
        case 48: 2
        default: 3
        }
    }
}
