import KithAPI
import KithWire

/// A stream that gives no more than so many bytes.
final class BoundedStream: StreamWrapper {
    let base: any ByteStream
    private let left: Locked<UInt64>
    private let beyond: KithError

    /// Reads at most `limit` bytes of `base`; with one more, reading fails with `beyond`.
    init(_ base: any ByteStream, limit: UInt64, beyond: KithError) {
        self.base = base
        self.beyond = beyond
        left = Locked(limit)
    }

    func read(upTo limit: Int) async throws -> [UInt8]? {
        guard let bytes = try await base.read(upTo: limit) else { return nil }
        guard bytes.count <= left.value else { throw beyond }
        left.set(left.value - UInt64(bytes.count))
        return bytes
    }
}
