import Crypto
import Foundation
public import KithWire

/// A P-256 private key to which others encrypt: that of a person, a profile, a network or a device.
///
/// It lies in memory that is kept from the swap where the system lets it, and is overwritten with zeros at the end.
public struct AgreementKey: Sendable {
    /// The private key's 32 bytes, big-endian.
    package let secret: SecretBytes
    /// The key that others encrypt to.
    public let publicKey: AgreementPublicKey

    /// Makes a new key.
    public init() { self.init(P256.KeyAgreement.PrivateKey()) }

    /// Takes an existing private key: 32 bytes, big-endian, from 1 to the group's order less 1.
    ///
    /// - Throws: `KithError` `.invalid` for other bytes.
    public init(scalar: [UInt8]) throws(KithError) {
        guard scalar.count == 32, let key = try? P256.KeyAgreement.PrivateKey(rawRepresentation: scalar) else {
            throw KithError(.invalid, "These bytes are no P-256 private key.")
        }
        self.init(key)
    }

    private init(_ key: P256.KeyAgreement.PrivateKey) {
        publicKey = AgreementPublicKey(key.publicKey)
        secret = SecretBytes.copying(key.rawRepresentation)
    }

    /// A copy of the private key's bytes, which is the caller's to clear.
    package var scalar: [UInt8] { unsafe secret.withUnsafeBytes { unsafe Array($0) } }

    /// Decrypts what ``AgreementPublicKey/seal(_:authenticating:)`` encrypted to this key.
    ///
    /// - Throws: `KithError` `.denied` when it was encrypted to another key, or was changed, or `context` is not that with
    ///   which it was encrypted; `.invalid` for what is no such message.
    public func open(_ sealed: [UInt8], authenticating context: [UInt8]) throws(KithError) -> [UInt8] {
        let message = try SealedMessage(sealed)
        let key = unsafe secret.withUnsafeBytes { unsafe try? P256.KeyAgreement.PrivateKey(rawRepresentation: $0) }
        guard let key else { preconditionFailure("a private key that was checked is none any more") }
        do {
            let shared = try key.sharedSecretFromKeyAgreement(with: message.ephemeral.key)
            var opened = try AES.GCM.open(
                message.box, using: message.contentKey(shared, to: publicKey),
                authenticating: message.authenticated(context, to: publicKey))
            defer { opened.resetBytes(in: opened.startIndex..<opened.endIndex) }
            return Array(opened)
        } catch {
            // What exactly was wrong is nobody's business.
            throw KithError(.denied, "This was not encrypted to the key \(publicKey.id), or it was changed.")
        }
    }
}

extension AgreementKey: CustomStringConvertible, CustomDebugStringConvertible {
    /// The text form.
    public var description: String { "the private key of \(publicKey.id)" }
    /// The text form; no secret is in it.
    public var debugDescription: String { description }
}

/// The public half of an ``AgreementKey``, to which anybody can encrypt.
public struct AgreementPublicKey: Sendable {
    /// The 65 bytes of its uncompressed form (SEC 1 §2.3.3).
    public let bytes: [UInt8]
    /// Its identity.
    public let id: KeyID
    let key: P256.KeyAgreement.PublicKey

    /// Checks that the bytes are a point of the curve.
    ///
    /// - Throws: `KithError` `.invalid` when they are not.
    public init(_ bytes: [UInt8]) throws(KithError) {
        guard bytes.count == 65, let key = try? P256.KeyAgreement.PublicKey(x963Representation: bytes) else {
            throw KithError(.invalid, "These bytes are no P-256 public key.")
        }
        self.init(key)
    }

    init(_ key: P256.KeyAgreement.PublicKey) {
        self.key = key
        bytes = Array(key.x963Representation)
        id = KeyID(publicKey: bytes)
    }

    /// Encrypts bytes so that only the holder of the private key can read them; 94 bytes longer.
    ///
    /// `context` is not in the result, and must be the same to decrypt: what the bytes are, and for whom. Nothing proves
    /// who encrypted them.
    ///
    /// ```
    ///  byte     what
    ///  0        1, the version
    ///  1…65     an ephemeral public key, uncompressed
    ///  66…77    the nonce
    ///  78…      AES-256-GCM of the bytes, and its tag of 16 bytes
    /// ```
    ///
    /// The key is HKDF-SHA256 of the agreed secret, with the info `kith-sealed-v1`, the ephemeral key and this one; both
    /// keys and the version are authenticated before `context`.
    ///
    /// - Throws: `KithError` `.internal` when the system has no random numbers.
    public func seal(_ bytes: [UInt8], authenticating context: [UInt8]) throws(KithError) -> [UInt8] {
        let ephemeral = P256.KeyAgreement.PrivateKey()
        do {
            let header = SealedMessage.Header(ephemeral: AgreementPublicKey(ephemeral.publicKey))
            let shared = try ephemeral.sharedSecretFromKeyAgreement(with: key)
            let box = try AES.GCM.seal(
                bytes, using: header.contentKey(shared, to: self),
                authenticating: header.authenticated(context, to: self))
            guard let combined = box.combined else { preconditionFailure("a nonce of 12 bytes is part of the message") }
            return header.bytes + Array(combined)
        } catch {
            throw KithError(.internal, "Could not encrypt to the key \(id).", cause: error)
        }
    }
}

extension AgreementPublicKey: Hashable {
    /// Compares the bytes.
    public static func == (left: AgreementPublicKey, right: AgreementPublicKey) -> Bool { left.bytes == right.bytes }
    /// Hashes the bytes.
    public func hash(into hasher: inout Hasher) { hasher.combine(bytes) }
}

extension AgreementPublicKey: Codable {
    /// Reads the 65 bytes.
    public init(from decoder: any Decoder) throws {
        try self.init(decoder.singleValueContainer().decode(ByteString.self).bytes)
    }

    /// Writes the 65 bytes.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(ByteString(bytes))
    }
}

extension AgreementPublicKey: CustomStringConvertible {
    /// Its identity.
    public var description: String { id.description }
}

/// A message that is encrypted to an ``AgreementPublicKey``.
private struct SealedMessage {
    /// What precedes the encrypted bytes, and both ends know.
    struct Header {
        static let version: UInt8 = 1
        let ephemeral: AgreementPublicKey

        var bytes: [UInt8] { [Self.version] + ephemeral.bytes }

        func contentKey(_ shared: SharedSecret, to recipient: AgreementPublicKey) -> SymmetricKey {
            shared.hkdfDerivedSymmetricKey(
                using: SHA256.self, salt: [UInt8](),
                sharedInfo: Array("kith-sealed-v1".utf8) + ephemeral.bytes + recipient.bytes, outputByteCount: 32)
        }

        func authenticated(_ context: [UInt8], to recipient: AgreementPublicKey) -> [UInt8] {
            bytes + recipient.bytes + context
        }
    }

    private static let overhead = 66 + 12 + 16
    let header: Header
    let box: AES.GCM.SealedBox

    var ephemeral: AgreementPublicKey { header.ephemeral }

    init(_ bytes: [UInt8]) throws(KithError) {
        guard bytes.count >= Self.overhead, bytes[0] == Header.version else {
            throw KithError(.invalid, "This is no message that is encrypted to a key, or one of a later version.")
        }
        header = Header(ephemeral: try AgreementPublicKey(Array(bytes[1..<66])))
        guard let box = try? AES.GCM.SealedBox(combined: bytes[66...]) else {
            throw KithError(.invalid, "This is no message that is encrypted to a key.")
        }
        self.box = box
    }

    func contentKey(_ shared: SharedSecret, to recipient: AgreementPublicKey) -> SymmetricKey {
        header.contentKey(shared, to: recipient)
    }

    func authenticated(_ context: [UInt8], to recipient: AgreementPublicKey) -> [UInt8] {
        header.authenticated(context, to: recipient)
    }
}
