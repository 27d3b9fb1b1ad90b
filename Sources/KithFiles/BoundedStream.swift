import KithAPI
import KithWire

/// A stream that gives no more than so many bytes.
final class BoundedStream: ByteStream {
    private let inner: any ByteStream
    private let left: Locked<UInt64>
    private let beyond: KithError

    /// Reads at most `limit` bytes of `inner`; with one more, reading fails with `beyond`.
    init(_ inner: any ByteStream, limit: UInt64, beyond: KithError) {
        self.inner = inner
        self.beyond = beyond
        left = Locked(limit)
    }

    func read(upTo limit: Int) async throws -> [UInt8]? {
        guard let bytes = try await inner.read(upTo: limit) else { return nil }
        guard bytes.count <= left.value else { throw beyond }
        left.set(left.value - UInt64(bytes.count))
        return bytes
    }

    func write(_ bytes: [UInt8]) async throws { try await inner.write(bytes) }
    func finish() async throws { try await inner.finish() }
    func abort(_ code: KithError.Code) { inner.abort(code) }
    var executor: (any TaskExecutor)? { inner.executor }
}
