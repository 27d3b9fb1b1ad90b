internal import CQUICCrypto
public import KithWire

extension SecretBytes: Hashable {
    /// Compares in constant time.
    public static func == (one: SecretBytes, other: SecretBytes) -> Bool {
        unsafe one.withUnsafeBytes { mine in unsafe other.withUnsafeBytes { unsafe isEqualInConstantTime(mine, $0) } }
    }

    /// Feeds the length only: a hash of a secret is a hint about it.
    public func hash(into hasher: inout Hasher) { hasher.combine(count) }
}

/// Compares two secrets without telling, by the time it takes, where they differ.
///
/// Their lengths are not secret.
package func isEqualInConstantTime(_ one: [UInt8], _ other: [UInt8]) -> Bool {
    unsafe one.withUnsafeBytes { mine in unsafe other.withUnsafeBytes { unsafe isEqualInConstantTime(mine, $0) } }
}

/// Compares two secrets without telling, by the time it takes, where they differ.
///
/// Their lengths are not secret.
package func isEqualInConstantTime(_ one: UnsafeRawBufferPointer, _ other: UnsafeRawBufferPointer) -> Bool {
    guard one.count == other.count else { return false }
    guard let mine = one.baseAddress, let theirs = other.baseAddress else { return true }
    return unsafe kith_equal(
        mine.assumingMemoryBound(to: UInt8.self), theirs.assumingMemoryBound(to: UInt8.self), one.count)
        == 1
}
