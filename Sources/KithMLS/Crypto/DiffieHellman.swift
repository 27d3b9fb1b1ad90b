import Crypto

/// A group in which two parties agree on a secret, as RFC 9180 §4.1 uses it.
protocol DiffieHellmanGroup: Sendable {
    associatedtype PrivateKey: Sendable
    associatedtype PublicKey: Sendable
    associatedtype Hash: SuiteHash
    /// The number of the DHKEM on this group (RFC 9180 §7.1).
    static var kem: UInt16 { get }
    /// `Nsk`: the bytes of a private key.
    static var privateKeyLength: Int { get }
    /// The bits kept of a candidate's first byte (RFC 9180 §7.1.3), or nil where any bytes are a key.
    static var candidateMask: UInt8? { get }
    static func generate() -> PrivateKey
    static func importKey(_ bytes: [UInt8]) throws -> PrivateKey
    static func exportKey(_ key: PrivateKey) -> [UInt8]
    static func publicKey(_ key: PrivateKey) -> PublicKey
    static func parse(_ bytes: [UInt8]) throws -> PublicKey
    static func serialise(_ key: PublicKey) -> [UInt8]
    static func agree(_ key: PrivateKey, _ other: PublicKey) throws -> SymmetricKey
}

enum X25519: DiffieHellmanGroup {
    typealias PrivateKey = Curve25519.KeyAgreement.PrivateKey
    typealias PublicKey = Curve25519.KeyAgreement.PublicKey
    typealias Hash = SHA256
    static var kem: UInt16 { 0x0020 }
    static var privateKeyLength: Int { 32 }
    static var candidateMask: UInt8? { nil }
    static func generate() -> PrivateKey { PrivateKey() }
    static func importKey(_ bytes: [UInt8]) throws -> PrivateKey { try PrivateKey(rawRepresentation: bytes) }
    static func exportKey(_ key: PrivateKey) -> [UInt8] { [UInt8](key.rawRepresentation) }
    static func publicKey(_ key: PrivateKey) -> PublicKey { key.publicKey }
    static func parse(_ bytes: [UInt8]) throws -> PublicKey { try PublicKey(rawRepresentation: bytes) }
    static func serialise(_ key: PublicKey) -> [UInt8] { [UInt8](key.rawRepresentation) }
    static func agree(_ key: PrivateKey, _ other: PublicKey) throws -> SymmetricKey {
        unsafe try key.sharedSecretFromKeyAgreement(with: other).withUnsafeBytes { unsafe SymmetricKey(data: $0) }
    }
}
