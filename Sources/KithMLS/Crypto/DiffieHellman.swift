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
    /// Tells whether bytes are a key that may stand in a tree: the only form of it, and one that agrees on secrets.
    static func isValid(_ bytes: [UInt8]) -> Bool
    static func serialise(_ key: PublicKey) -> [UInt8]
    static func agree(_ key: PrivateKey, _ other: PublicKey) throws -> SymmetricKey
}

extension DiffieHellmanGroup {
    static func isValid(_ bytes: [UInt8]) -> Bool { (try? parse(bytes)) != nil }  // the error adds nothing
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

    /// Refuses numbers that are not below p, which would be second forms of a key, and the five of small order, with which
    /// every private key agrees on zero (RFC 7748 §5, §6.1).
    static func isValid(_ bytes: [UInt8]) -> Bool {
        guard bytes.count == 32, bytes[31] < 0x80 else { return false }
        let isAtLeastP = bytes[0] >= 0xED && bytes[1..<31].allSatisfy { $0 == 0xFF } && bytes[31] == 0x7F
        return !isAtLeastP && !smallOrder.contains(bytes)
    }

    /// The numbers below p whose points have an order of 1, 2, 4 or 8, on the curve or on its twist.
    static let smallOrder: Set<[UInt8]> = {
        func bytes(_ words: [UInt64]) -> [UInt8] {
            words.flatMap { word in (0..<8).map { UInt8(truncatingIfNeeded: word >> (8 * $0)) } }
        }
        return [
            bytes([0, 0, 0, 0]), bytes([1, 0, 0, 0]),
            bytes([0xAEB8_413B_7C7A_EBE0, 0x6AC4_9FF1_FAE3_5616, 0xFDB1_329C_EB8D_09DA, 0x00B8_495F_1605_6286]),
            bytes([0x248C_50A3_BC95_9C5F, 0x5BEF_839C_55B1_D0B1, 0x868E_1C58_C45C_4404, 0x5711_9FD0_DD4E_22D8]),
            bytes([0xFFFF_FFFF_FFFF_FFEC, .max, .max, 0x7FFF_FFFF_FFFF_FFFF]),
        ]
    }()

    /// - Throws: for a secret of zeros, which everybody knows (RFC 9180 §7.1.4).
    static func agree(_ key: PrivateKey, _ other: PublicKey) throws -> SymmetricKey {
        let secret = try key.sharedSecretFromKeyAgreement(with: other)
        return try unsafe secret.withUnsafeBytes { bytes in
            // Every byte is looked at, whatever it is.
            guard unsafe bytes.reduce(0, |) != 0 else { throw MLSError.invalidPublicKey }
            return unsafe SymmetricKey(data: bytes)
        }
    }
}
