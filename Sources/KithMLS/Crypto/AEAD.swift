import Crypto

/// An AEAD of RFC 9180 §7.3.
protocol AEAD: Sendable {
    /// The algorithm's number.
    static var id: UInt16 { get }
    static var keyLength: Int { get }
    static func seal(_ plaintext: [UInt8], _ key: SymmetricKey, _ nonce: [UInt8], _ aad: [UInt8]) throws -> [UInt8]
    /// Decrypts what is as long as the tag at least.
    static func decrypt(_ ciphertext: [UInt8], _ key: SymmetricKey, _ nonce: [UInt8], _ aad: [UInt8]) throws -> [UInt8]
}

extension AEAD {
    static var nonceLength: Int { 12 }
    static var tagLength: Int { 16 }

    static func open(
        _ ciphertext: [UInt8], _ key: SymmetricKey, _ nonce: [UInt8], _ aad: [UInt8]
    ) throws(MLSError) -> [UInt8] {
        guard ciphertext.count >= tagLength else { throw .decryptionFailed }
        do { return try decrypt(ciphertext, key, nonce, aad) } catch { throw .decryptionFailed }
    }
}

/// AES-GCM with either key length.
protocol AESGCM: AEAD {}

extension AESGCM {
    static func seal(_ plaintext: [UInt8], _ key: SymmetricKey, _ nonce: [UInt8], _ aad: [UInt8]) throws -> [UInt8] {
        let box = try AES.GCM.seal(plaintext, using: key, nonce: AES.GCM.Nonce(data: nonce), authenticating: aad)
        var output: [UInt8] = []
        output.reserveCapacity(plaintext.count + tagLength)
        output += box.ciphertext
        output += box.tag
        return output
    }

    static func decrypt(_ ciphertext: [UInt8], _ key: SymmetricKey, _ nonce: [UInt8], _ aad: [UInt8]) throws -> [UInt8]
    {
        let end = ciphertext.count - tagLength
        let box = try AES.GCM.SealedBox(
            nonce: AES.GCM.Nonce(data: nonce), ciphertext: ciphertext[..<end], tag: ciphertext[end...])
        return [UInt8](try AES.GCM.open(box, using: key, authenticating: aad))
    }
}

enum AES128GCM: AESGCM {
    static var id: UInt16 { 1 }
    static var keyLength: Int { 16 }
}

enum AES256GCM: AESGCM {
    static var id: UInt16 { 2 }
    static var keyLength: Int { 32 }
}

enum ChaCha20Poly1305: AEAD {
    static var id: UInt16 { 3 }
    static var keyLength: Int { 32 }

    static func seal(_ plaintext: [UInt8], _ key: SymmetricKey, _ nonce: [UInt8], _ aad: [UInt8]) throws -> [UInt8] {
        let box = try ChaChaPoly.seal(plaintext, using: key, nonce: ChaChaPoly.Nonce(data: nonce), authenticating: aad)
        var output: [UInt8] = []
        output.reserveCapacity(plaintext.count + tagLength)
        output += box.ciphertext
        output += box.tag
        return output
    }

    static func decrypt(_ ciphertext: [UInt8], _ key: SymmetricKey, _ nonce: [UInt8], _ aad: [UInt8]) throws -> [UInt8]
    {
        let end = ciphertext.count - tagLength
        let box = try ChaChaPoly.SealedBox(
            nonce: ChaChaPoly.Nonce(data: nonce), ciphertext: ciphertext[..<end], tag: ciphertext[end...])
        return [UInt8](try ChaChaPoly.open(box, using: key, authenticating: aad))
    }
}
