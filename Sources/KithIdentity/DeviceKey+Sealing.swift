import Crypto
import Foundation

extension DeviceKey {
    /// Encrypts bytes for this device itself, so that nobody else can read them or change them.
    ///
    /// ChaCha20-Poly1305 under a key for the one purpose that `label` names; 28 bytes longer.
    package func seal(_ bytes: [UInt8], _ label: String) -> [UInt8] {
        guard let box = try? ChaChaPoly.seal(bytes, using: derivedKey(label)) else {
            preconditionFailure("sealing fails for a key of another length only")
        }
        return Array(box.combined)
    }

    /// Decrypts what ``seal(_:_:)`` encrypted for the same purpose; `nil` when it is something else.
    package func unseal(_ sealed: [UInt8], _ label: String) -> [UInt8]? {
        // Neither error says more than that these bytes are not ours.
        guard let box = try? ChaChaPoly.SealedBox(combined: sealed),
            var bytes = try? ChaChaPoly.open(box, using: derivedKey(label))
        else { return nil }
        defer { bytes.resetBytes(in: bytes.startIndex..<bytes.endIndex) }
        return Array(bytes)
    }
}
