package import Crypto
import Foundation
public import KithWire

/// A device's private key: Ed25519.
///
/// Whoever has it is the device. It lies in memory that is kept from the swap where the system lets it, is never in a
/// core dump, and is overwritten with zeros at the end.
public struct DeviceKey: Sendable {
    /// The 32 secret bytes (RFC 8032 §5.1.5).
    package let secret: SecretBytes
    /// The identity of the device with this key.
    public let id: DeviceID

    /// Makes a new key.
    public init() { self.init(Curve25519.Signing.PrivateKey()) }

    /// Takes the 32 bytes of an existing key.
    ///
    /// - Throws: `KithError` `.invalid` for another count.
    public init(seed: [UInt8]) throws(KithError) {
        guard seed.count == 32, let key = try? Curve25519.Signing.PrivateKey(rawRepresentation: seed) else {
            throw KithError(.invalid, "A device's private key has 32 bytes.")
        }
        self.init(key)
    }

    private init(_ key: Curve25519.Signing.PrivateKey) {
        guard let id = try? DeviceID(publicKey: Array(key.publicKey.rawRepresentation)) else {
            preconditionFailure("an Ed25519 public key has 32 bytes")
        }
        self.id = id
        var seed = key.rawRepresentation
        defer { seed.resetBytes(in: seed.startIndex..<seed.endIndex) }
        secret = unsafe SecretBytes.lasting(count: seed.count) { unsafe $0.copyBytes(from: seed) }
    }

    /// A copy of the 32 secret bytes, which is the caller's to clear.
    package var seed: [UInt8] { unsafe secret.withUnsafeBytes { unsafe Array($0) } }

    /// Signs `message` (Ed25519, 64 bytes).
    public func signature(for message: [UInt8]) throws(KithError) -> [UInt8] {
        do {
            return Array(try signingKey.signature(for: message))
        } catch {
            throw KithError(.internal, "The device's key could not sign.", cause: error)
        }
    }

    /// 32 bytes only this device can make, the same every time, for one purpose named by `label` (HKDF-SHA256).
    package func derivedSecret(_ label: String) -> [UInt8] {
        unsafe derivedKey(label).withUnsafeBytes { unsafe Array($0) }
    }

    /// The same secret as a key, which clears its memory itself.
    func derivedKey(_ label: String) -> SymmetricKey {
        let key = unsafe secret.withUnsafeBytes { unsafe SymmetricKey(data: $0) }
        return HKDF<SHA256>.deriveKey(inputKeyMaterial: key, info: Array(label.utf8), outputByteCount: 32)
    }

    /// The key in the form that signs; it clears its memory itself, and is not to be kept.
    package var signingKey: Curve25519.Signing.PrivateKey {
        let key = unsafe secret.withUnsafeBytes { unsafe try? Curve25519.Signing.PrivateKey(rawRepresentation: $0) }
        guard let key else { preconditionFailure("a device's private key has 32 bytes") }
        return key
    }
}

extension DeviceKey: CustomStringConvertible, CustomDebugStringConvertible {
    /// The text form.
    public var description: String { "the private key of \(id)" }
    /// The text form; no secret is in it.
    public var debugDescription: String { description }
}

extension DeviceID {
    /// Tells whether `signature` is this device's signature of `message`.
    public func isValid(signature: [UInt8], for message: [UInt8]) -> Bool {
        guard let key = try? Curve25519.Signing.PublicKey(rawRepresentation: bytes) else { return false }
        return key.isValidSignature(signature, for: message)
    }
}
