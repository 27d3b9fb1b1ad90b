package import KithWire

/// A byte stream over another one: what it does not do itself, the other does.
///
/// A wrapper says only where it differs, so none can lose what a stream has besides its bytes.
package protocol StreamWrapper: ByteStream {
    /// The stream beneath.
    var base: any ByteStream { get }
}

extension StreamWrapper {
    package func read(upTo limit: Int) async throws -> [UInt8]? { try await base.read(upTo: limit) }
    package func write(_ bytes: [UInt8]) async throws { try await base.write(bytes) }
    package func finish() async throws { try await base.finish() }
    package func finish(writing bytes: [UInt8]) async throws { try await base.finish(writing: bytes) }
    package func abort(_ code: KithError.Code) { base.abort(code) }
    package var executor: (any TaskExecutor)? { base.executor }
}
