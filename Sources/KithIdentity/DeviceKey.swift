import Crypto
public import KithWire

/// A device's private key: Ed25519.
///
/// Whoever has it is the device.
public struct DeviceKey: Sendable {
    private let key: Curve25519.Signing.PrivateKey
    /// Who the device with this key is.
    public let id: DeviceID

    /// Makes a new key.
    public init() {
        key = Curve25519.Signing.PrivateKey()
        id = Self.identity(of: key)
    }

    /// Takes the 32 bytes of an existing key.
    ///
    /// - Throws: `KithError` `.invalid` for another count.
    public init(seed: [UInt8]) throws(KithError) {
        guard seed.count == 32, let key = try? Curve25519.Signing.PrivateKey(rawRepresentation: seed) else {
            throw KithError(.invalid, "A device's private key has 32 bytes.")
        }
        self.key = key
        id = Self.identity(of: key)
    }

    /// The 32 secret bytes (RFC 8032 §5.1.5).
    package var seed: [UInt8] { Array(key.rawRepresentation) }

    /// Signs `message` (Ed25519, 64 bytes).
    public func signature(for message: [UInt8]) throws(KithError) -> [UInt8] {
        do {
            return Array(try key.signature(for: message))
        } catch {
            throw KithError(.internal, "The device's key could not sign.", cause: error)
        }
    }

    /// 32 bytes only this device can make, the same every time, for one purpose named by `label` (HKDF-SHA256).
    package func derivedSecret(_ label: String) -> [UInt8] {
        unsafe HKDF<SHA256>.deriveKey(
            inputKeyMaterial: SymmetricKey(data: seed), info: Array(label.utf8), outputByteCount: 32
        ).withUnsafeBytes { unsafe Array($0) }
    }

    var signingKey: Curve25519.Signing.PrivateKey { key }

    private static func identity(of key: Curve25519.Signing.PrivateKey) -> DeviceID {
        guard let id = try? DeviceID(publicKey: Array(key.publicKey.rawRepresentation)) else {
            preconditionFailure("an Ed25519 public key has 32 bytes")
        }
        return id
    }
}

extension DeviceKey: CustomStringConvertible, CustomDebugStringConvertible {
    /// The text form.
    public var description: String { "the private key of \(id)" }
    /// The text form; no secret is in it.
    public var debugDescription: String { description }
}

extension DeviceID {
    /// Whether `signature` is this device's signature of `message`.
    public func isValid(signature: [UInt8], for message: [UInt8]) -> Bool {
        guard let key = try? Curve25519.Signing.PublicKey(rawRepresentation: bytes) else { return false }
        return key.isValidSignature(signature, for: message)
    }
}
