import Crypto

/// A signature scheme of RFC 8446 §4.2.3.
protocol SignatureScheme: Sendable {
    associatedtype PrivateKey: Sendable
    static func generate() -> PrivateKey
    static func importKey(_ bytes: [UInt8]) throws -> PrivateKey
    static func exportKey(_ key: PrivateKey) -> [UInt8]
    static func publicKey(_ key: PrivateKey) -> [UInt8]
    static func isValid(_ key: SignaturePublicKey) -> Bool
    static func sign(_ content: [UInt8], _ key: PrivateKey) throws -> [UInt8]
    static func verify(_ signature: [UInt8], _ content: [UInt8], _ key: SignaturePublicKey) throws -> Bool
}

enum Ed25519: SignatureScheme {
    static func generate() -> Curve25519.Signing.PrivateKey { Curve25519.Signing.PrivateKey() }
    static func importKey(_ bytes: [UInt8]) throws -> Curve25519.Signing.PrivateKey {
        try Curve25519.Signing.PrivateKey(rawRepresentation: bytes)
    }
    static func exportKey(_ key: Curve25519.Signing.PrivateKey) -> [UInt8] { [UInt8](key.rawRepresentation) }
    static func publicKey(_ key: Curve25519.Signing.PrivateKey) -> [UInt8] {
        [UInt8](key.publicKey.rawRepresentation)
    }
    static func isValid(_ key: SignaturePublicKey) -> Bool { key.count == 32 }
    static func sign(_ content: [UInt8], _ key: Curve25519.Signing.PrivateKey) throws -> [UInt8] {
        [UInt8](try key.signature(for: content))
    }
    static func verify(_ signature: [UInt8], _ content: [UInt8], _ key: SignaturePublicKey) throws -> Bool {
        try Curve25519.Signing.PublicKey(rawRepresentation: key).isValidSignature(signature, for: content)
    }
}
