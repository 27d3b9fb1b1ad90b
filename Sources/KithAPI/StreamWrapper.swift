package import KithWire

/// A byte stream around another one, to which it forwards whatever it does not do itself.
///
/// A wrapper declares only its differences, so it cannot lose what a stream has besides its bytes.
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
    package func fail(_ error: KithError) { base.fail(error) }
    package func stopReading(_ code: KithError.Code) { base.stopReading(code) }
    package func stopped() async throws { try await base.stopped() }
    package var executor: (any TaskExecutor)? { base.executor }
}
