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

/// One of the curves of FIPS 186-4 with the hash that belongs to it; signatures are DER (RFC 9420 §5.1.2).
protocol NISTSigning: Sendable {
    associatedtype PrivateKey: Sendable
    associatedtype PublicKey
    static var privateKeyLength: Int { get }
    static func generate() -> PrivateKey
    static func importKey(_ bytes: [UInt8]) throws -> PrivateKey
    static func exportKey(_ key: PrivateKey) -> [UInt8]
    static func publicKey(_ key: PrivateKey) -> [UInt8]
    static func parse(_ bytes: [UInt8]) throws -> PublicKey
    static func sign(_ content: [UInt8], _ key: PrivateKey) throws -> [UInt8]
    static func verify(_ signature: [UInt8], _ content: [UInt8], _ key: PublicKey) throws -> Bool
}

enum ECDSA<Curve: NISTSigning>: SignatureScheme {
    static func generate() -> Curve.PrivateKey { Curve.generate() }
    static func importKey(_ bytes: [UInt8]) throws -> Curve.PrivateKey {
        try Curve.importKey(padded(bytes, to: Curve.privateKeyLength))
    }
    static func exportKey(_ key: Curve.PrivateKey) -> [UInt8] { Curve.exportKey(key) }
    static func publicKey(_ key: Curve.PrivateKey) -> [UInt8] { Curve.publicKey(key) }
    static func isValid(_ key: SignaturePublicKey) -> Bool { (try? Curve.parse(key)) != nil }  // the error says no more
    static func sign(_ content: [UInt8], _ key: Curve.PrivateKey) throws -> [UInt8] { try Curve.sign(content, key) }
    static func verify(_ signature: [UInt8], _ content: [UInt8], _ key: SignaturePublicKey) throws -> Bool {
        try Curve.verify(signature, content, Curve.parse(key))
    }
}

/// The big-endian number with the leading zeros it may lack.
func padded(_ bytes: [UInt8], to count: Int) -> [UInt8] {
    [UInt8](repeating: 0, count: max(0, count - bytes.count)) + bytes
}

enum P256Signing: NISTSigning {
    typealias PrivateKey = P256.Signing.PrivateKey
    typealias PublicKey = P256.Signing.PublicKey
    static var privateKeyLength: Int { 32 }
    static func generate() -> PrivateKey { PrivateKey(compactRepresentable: false) }
    static func importKey(_ bytes: [UInt8]) throws -> PrivateKey { try PrivateKey(rawRepresentation: bytes) }
    static func exportKey(_ key: PrivateKey) -> [UInt8] { [UInt8](key.rawRepresentation) }
    static func publicKey(_ key: PrivateKey) -> [UInt8] { [UInt8](key.publicKey.x963Representation) }
    static func parse(_ bytes: [UInt8]) throws -> PublicKey { try PublicKey(x963Representation: bytes) }
    static func sign(_ content: [UInt8], _ key: PrivateKey) throws -> [UInt8] {
        [UInt8](try key.signature(for: content).derRepresentation)
    }
    static func verify(_ signature: [UInt8], _ content: [UInt8], _ key: PublicKey) throws -> Bool {
        key.isValidSignature(try P256.Signing.ECDSASignature(derRepresentation: signature), for: content)
    }
}

enum P384Signing: NISTSigning {
    typealias PrivateKey = P384.Signing.PrivateKey
    typealias PublicKey = P384.Signing.PublicKey
    static var privateKeyLength: Int { 48 }
    static func generate() -> PrivateKey { PrivateKey(compactRepresentable: false) }
    static func importKey(_ bytes: [UInt8]) throws -> PrivateKey { try PrivateKey(rawRepresentation: bytes) }
    static func exportKey(_ key: PrivateKey) -> [UInt8] { [UInt8](key.rawRepresentation) }
    static func publicKey(_ key: PrivateKey) -> [UInt8] { [UInt8](key.publicKey.x963Representation) }
    static func parse(_ bytes: [UInt8]) throws -> PublicKey { try PublicKey(x963Representation: bytes) }
    static func sign(_ content: [UInt8], _ key: PrivateKey) throws -> [UInt8] {
        [UInt8](try key.signature(for: content).derRepresentation)
    }
    static func verify(_ signature: [UInt8], _ content: [UInt8], _ key: PublicKey) throws -> Bool {
        key.isValidSignature(try P384.Signing.ECDSASignature(derRepresentation: signature), for: content)
    }
}

enum P521Signing: NISTSigning {
    typealias PrivateKey = P521.Signing.PrivateKey
    typealias PublicKey = P521.Signing.PublicKey
    static var privateKeyLength: Int { 66 }
    static func generate() -> PrivateKey { PrivateKey(compactRepresentable: false) }
    static func importKey(_ bytes: [UInt8]) throws -> PrivateKey { try PrivateKey(rawRepresentation: bytes) }
    static func exportKey(_ key: PrivateKey) -> [UInt8] { [UInt8](key.rawRepresentation) }
    static func publicKey(_ key: PrivateKey) -> [UInt8] { [UInt8](key.publicKey.x963Representation) }
    static func parse(_ bytes: [UInt8]) throws -> PublicKey { try PublicKey(x963Representation: bytes) }
    static func sign(_ content: [UInt8], _ key: PrivateKey) throws -> [UInt8] {
        [UInt8](try key.signature(for: content).derRepresentation)
    }
    static func verify(_ signature: [UInt8], _ content: [UInt8], _ key: PublicKey) throws -> Bool {
        key.isValidSignature(try P521.Signing.ECDSASignature(derRepresentation: signature), for: content)
    }
}
