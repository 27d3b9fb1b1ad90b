internal import CQUICCrypto

/// Bytes that must not be seen: overwritten with zeros when the last owner lets go.
///
/// Comparison takes the same time wherever two secrets differ, and no description shows a byte.
@safe package final class SecretBytes: Sendable {
    // Sendable by hand: written in `init`, only read after, zeroed by the last owner.
    private nonisolated(unsafe) let storage: UnsafeMutableRawBufferPointer

    /// Copies `bytes`; the caller's copy is the caller's to forget.
    package convenience init(_ bytes: [UInt8]) {
        unsafe self.init(count: bytes.count) { unsafe $0.copyBytes(from: bytes) }
    }

    /// Allocates `count` zeroed bytes and lets `fill` write them.
    package init(count: Int, _ fill: (UnsafeMutableRawBufferPointer) -> Void) {
        unsafe storage = .allocate(byteCount: max(count, 1), alignment: 16)
        unsafe storage.initializeMemory(as: UInt8.self, repeating: 0)
        self.count = count
        unsafe fill(UnsafeMutableRawBufferPointer(rebasing: storage.prefix(count)))
    }

    deinit {
        if let base = unsafe storage.baseAddress { unsafe kith_zero(base, storage.count) }
        unsafe storage.deallocate()
    }

    /// How many bytes there are.
    package let count: Int

    /// Lends the bytes for the length of a call.
    package func withUnsafeBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        unsafe try body(UnsafeRawBufferPointer(rebasing: storage.prefix(count)))
    }
}

extension SecretBytes: Hashable {
    /// Compares in constant time.
    package static func == (one: SecretBytes, other: SecretBytes) -> Bool {
        unsafe one.withUnsafeBytes { mine in unsafe other.withUnsafeBytes { unsafe isEqualInConstantTime(mine, $0) } }
    }

    /// Feeds the length only: a hash of a secret is a hint about it.
    package func hash(into hasher: inout Hasher) { hasher.combine(count) }
}

extension SecretBytes: CustomStringConvertible, CustomReflectable {
    /// Says how many bytes there are.
    package var description: String { "\(count) secret bytes" }

    /// Shows no children, so that `dump` cannot print a byte.
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// Compares two secrets without telling, by the time it takes, where they differ.
///
/// Their lengths are no secret.
package func isEqualInConstantTime(_ one: [UInt8], _ other: [UInt8]) -> Bool {
    unsafe one.withUnsafeBytes { mine in unsafe other.withUnsafeBytes { unsafe isEqualInConstantTime(mine, $0) } }
}

/// Compares two secrets without telling, by the time it takes, where they differ.
///
/// Their lengths are no secret.
package func isEqualInConstantTime(_ one: UnsafeRawBufferPointer, _ other: UnsafeRawBufferPointer) -> Bool {
    guard one.count == other.count else { return false }
    guard let mine = one.baseAddress, let theirs = other.baseAddress else { return true }
    return unsafe kith_equal(
        mine.assumingMemoryBound(to: UInt8.self), theirs.assumingMemoryBound(to: UInt8.self), one.count)
        == 1
}
