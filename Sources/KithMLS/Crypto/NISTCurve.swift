import Crypto

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// One of the curves of FIPS 186-4, for key agreement (RFC 9180 §4.1) and signatures (RFC 8446 §4.2.3).
protocol NISTCurve: Sendable {
    associatedtype AgreementKey: NISTAgreementKey
    associatedtype SigningKey: NISTSigningKey
    associatedtype Hash: SuiteHash
    /// The number of the DHKEM on this curve (RFC 9180 §7.1).
    static var kem: UInt16 { get }
    /// `Nsk`: the bytes of a private key.
    static var privateKeyLength: Int { get }
    /// The bits kept of a candidate's first byte (RFC 9180 §7.1.3).
    static var candidateMask: UInt8 { get }
}

extension P256: NISTCurve {
    typealias AgreementKey = KeyAgreement.PrivateKey
    typealias SigningKey = Signing.PrivateKey
    typealias Hash = SHA256
    static var kem: UInt16 { 0x0010 }
    static var privateKeyLength: Int { 32 }
    static var candidateMask: UInt8 { 0xFF }
}

extension P384: NISTCurve {
    typealias AgreementKey = KeyAgreement.PrivateKey
    typealias SigningKey = Signing.PrivateKey
    typealias Hash = SHA384
    static var kem: UInt16 { 0x0011 }
    static var privateKeyLength: Int { 48 }
    static var candidateMask: UInt8 { 0xFF }
}

extension P521: NISTCurve {
    typealias AgreementKey = KeyAgreement.PrivateKey
    typealias SigningKey = Signing.PrivateKey
    typealias Hash = SHA512
    static var kem: UInt16 { 0x0012 }
    static var privateKeyLength: Int { 66 }
    static var candidateMask: UInt8 { 0x01 }
}

// What the library's keys have in common, and has no name for.

protocol NISTPublicKey: Sendable {
    init(x963Representation: some ContiguousBytes) throws
    var x963Representation: Data { get }
}

protocol NISTPrivateKey: Sendable {
    associatedtype PublicKey: NISTPublicKey
    init(rawRepresentation: some ContiguousBytes) throws
    var rawRepresentation: Data { get }
    var publicKey: PublicKey { get }
}

protocol NISTAgreementKey: NISTPrivateKey {
    func sharedSecretFromKeyAgreement(with other: PublicKey) throws -> SharedSecret
}

protocol NISTSignature {
    init(derRepresentation: some DataProtocol) throws
    var derRepresentation: Data { get }
}

protocol NISTVerifyingKey: NISTPublicKey {
    associatedtype Signature: NISTSignature
    func isValidSignature(_ signature: Signature, for content: some DataProtocol) -> Bool
}

protocol NISTSigningKey: NISTPrivateKey where PublicKey: NISTVerifyingKey {
    func signature(for content: some DataProtocol) throws -> PublicKey.Signature
}

extension P256.KeyAgreement.PublicKey: NISTPublicKey {}
extension P384.KeyAgreement.PublicKey: NISTPublicKey {}
extension P521.KeyAgreement.PublicKey: NISTPublicKey {}
extension P256.KeyAgreement.PrivateKey: NISTAgreementKey {}
extension P384.KeyAgreement.PrivateKey: NISTAgreementKey {}
extension P521.KeyAgreement.PrivateKey: NISTAgreementKey {}
extension P256.Signing.ECDSASignature: NISTSignature {}
extension P384.Signing.ECDSASignature: NISTSignature {}
extension P521.Signing.ECDSASignature: NISTSignature {}
extension P256.Signing.PublicKey: NISTVerifyingKey {}
extension P384.Signing.PublicKey: NISTVerifyingKey {}
extension P521.Signing.PublicKey: NISTVerifyingKey {}
extension P256.Signing.PrivateKey: NISTSigningKey {}
extension P384.Signing.PrivateKey: NISTSigningKey {}
extension P521.Signing.PrivateKey: NISTSigningKey {}

extension NISTCurve {
    /// A fresh key: candidates by chance until one is below the curve's order (FIPS 186-4 §B.4.2).
    ///
    /// The library's own generation multiplies twice, the second time to check the first; of a seal on P-521 that is a
    /// quarter.
    fileprivate static func generate<Key: NISTPrivateKey>(_ type: Key.Type = Key.self) -> Key {
        while true {
            var candidate = randomBytes(privateKeyLength)
            defer { clear(&candidate) }
            candidate[0] &= candidateMask
            if let key = try? Key(rawRepresentation: candidate) { return key }  // zero, or too large: the next
        }
    }
}

/// Key agreement on a NIST curve.
enum NISTGroup<Curve: NISTCurve>: DiffieHellmanGroup {
    typealias PrivateKey = Curve.AgreementKey
    typealias PublicKey = PrivateKey.PublicKey
    typealias Hash = Curve.Hash
    static var kem: UInt16 { Curve.kem }
    static var privateKeyLength: Int { Curve.privateKeyLength }
    static var candidateMask: UInt8? { Curve.candidateMask }
    static func generate() -> PrivateKey { Curve.generate() }
    static func importKey(_ bytes: [UInt8]) throws -> PrivateKey { try PrivateKey(rawRepresentation: bytes) }
    static func exportKey(_ key: PrivateKey) -> [UInt8] { [UInt8](key.rawRepresentation) }
    static func publicKey(_ key: PrivateKey) -> PublicKey { key.publicKey }
    static func parse(_ bytes: [UInt8]) throws -> PublicKey { try PublicKey(x963Representation: bytes) }
    static func serialise(_ key: PublicKey) -> [UInt8] { [UInt8](key.x963Representation) }
    static func agree(_ key: PrivateKey, _ other: PublicKey) throws -> SymmetricKey {
        unsafe try key.sharedSecretFromKeyAgreement(with: other).withUnsafeBytes { unsafe SymmetricKey(data: $0) }
    }
}

/// Signatures on a NIST curve with the hash that belongs to it; they are DER (RFC 9420 §5.1.2).
enum ECDSA<Curve: NISTCurve>: SignatureScheme {
    typealias Key = Curve.SigningKey
    static func generate() -> Key { Curve.generate() }
    static func importKey(_ bytes: [UInt8]) throws -> Key {
        try Key(rawRepresentation: padded(bytes, to: Curve.privateKeyLength))
    }
    static func exportKey(_ key: Key) -> [UInt8] { [UInt8](key.rawRepresentation) }
    static func publicKey(_ key: Key) -> [UInt8] { [UInt8](key.publicKey.x963Representation) }
    static func isValid(_ key: SignaturePublicKey) -> Bool {
        (try? Key.PublicKey(x963Representation: key)) != nil  // the error adds nothing
    }
    static func sign(_ content: [UInt8], _ key: Key) throws -> [UInt8] {
        [UInt8](try key.signature(for: content).derRepresentation)
    }
    static func verify(_ signature: [UInt8], _ content: [UInt8], _ key: SignaturePublicKey) throws -> Bool {
        try Key.PublicKey(x963Representation: key).isValidSignature(
            Key.PublicKey.Signature(derRepresentation: signature), for: content)
    }
}

/// The big-endian number with the leading zeros it may lack.
func padded(_ bytes: [UInt8], to count: Int) -> [UInt8] {
    [UInt8](repeating: 0, count: max(0, count - bytes.count)) + bytes
}
