/// A key encapsulation mechanism of RFC 9180 §4.
protocol KEM: Sendable {
    associatedtype PrivateKey: Sendable
    /// The mechanism's number (RFC 9180 §7.1).
    static var id: UInt16 { get }
    static func generate() -> PrivateKey
    /// `DeriveKeyPair(ikm)`.
    static func derive(_ secret: borrowing Secret) throws(MLSError) -> PrivateKey
    static func importKey(_ bytes: [UInt8]) throws(MLSError) -> PrivateKey
    static func exportKey(_ key: PrivateKey) -> Secret
    static func publicKey(_ key: PrivateKey) -> HPKEPublicKey
    static func isValid(_ key: HPKEPublicKey) -> Bool
    static func encapsulate(to key: HPKEPublicKey) throws(MLSError) -> Encapsulation
    static func decapsulate(_ output: [UInt8], with key: PrivateKey) throws(MLSError) -> Secret
}

/// `Encap`'s result: the shared secret, and what the other side needs to have it too.
struct Encapsulation: ~Copyable {
    let sharedSecret: Secret
    let output: [UInt8]
}
