import Crypto

/// Bytes that must not be kept: a secret with one owner.
///
/// It cannot be copied, printed or compared in varying time, and its memory is cleared when its owner ends
/// (RFC 9420 §9.2). The storage is swift-crypto's, so that keys reach the primitives without another copy.
public struct Secret: ~Copyable, Sendable {
    let key: SymmetricKey

    init(_ key: SymmetricKey) { self.key = key }

    /// Takes a copy of `bytes`; clearing the argument is up to the caller.
    public init(copying bytes: [UInt8]) { self.key = SymmetricKey(data: bytes) }

    /// Takes a copy of what the pointer covers.
    init(copying bytes: UnsafeRawBufferPointer) { self.key = unsafe SymmetricKey(data: bytes) }

    /// The all-zero secret of `count` bytes.
    static func zero(_ count: Int) -> Secret { Secret(copying: [UInt8](repeating: 0, count: count)) }

    /// A fresh random secret of `count` bytes, which is at least one.
    public static func random(_ count: Int) -> Secret {
        Secret(SymmetricKey(size: SymmetricKeySize(bitCount: count * 8)))
    }

    /// The number of bytes.
    public var count: Int { key.bitCount / 8 }

    /// Copies the bytes out, where they are no longer cleared.
    public func reveal() -> [UInt8] { unsafe key.withUnsafeBytes { unsafe [UInt8]($0) } }

    /// A second owner of the same storage, which is cleared when the last one ends.
    func shared() -> Secret { Secret(key) }

    /// Compares in a time that depends on the lengths only.
    public func isEqual(to other: borrowing Secret) -> Bool { key == other.key }
}

/// Lets a secret stand in arrays and dictionaries; the secret ends with the last reference.
package final class SecretBox: Sendable {
    package let secret: Secret
    init(_ secret: consuming Secret) { self.secret = secret }
}

/// Random bytes that need not be kept secret: nonces, identifiers, reuse guards.
package func randomBytes(_ count: Int) -> [UInt8] {
    guard count > 0 else { return [] }
    return unsafe SymmetricKey(size: SymmetricKeySize(bitCount: count * 8)).withUnsafeBytes { unsafe [UInt8]($0) }
}

/// Overwrites bytes that held a secret.
func clear(_ bytes: inout [UInt8]) {
    unsafe bytes.withUnsafeMutableBytes { buffer in
        for index in buffer.indices { unsafe buffer[index] = 0 }
        unsafe blackHole(UnsafeRawPointer(buffer.baseAddress))
    }
}

/// Keeps the optimiser from leaving out stores that nobody reads.
@inline(never) private func blackHole(_ pointer: UnsafeRawPointer?) {}

/// Compares tags in a time that depends on the lengths only.
func constantTimeEqual(_ left: [UInt8], _ right: [UInt8]) -> Bool {
    guard left.count == right.count else { return false }
    var difference: UInt8 = 0
    for index in left.indices { difference |= left[index] ^ right[index] }
    return difference == 0
}
