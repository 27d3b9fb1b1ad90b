public import KithWire
import Synchronization

/// A stream whose service may not have answered yet: writes travel with the call, a round trip sooner.
///
/// The first read waits for the answer, and throws the error of a refusal; the service has then seen no byte of the
/// stream.
public final class OpeningStream<Output: Sendable>: ByteStream {
    private enum State {
        case asked(AnswerReader, @Sendable ([UInt8]) throws -> Output)
        case accepted(Output, any ByteStream)
        case refused(KithError)
    }

    private let base: any ByteStream
    private let state: Mutex<State>

    /// Makes one of a stream whose service has answered.
    public init<M: StreamMethod>(_ opened: OpenedStream<M>) where M.Output == Output {
        base = opened.stream.bytes
        state = Mutex(.accepted(opened.output, opened.stream.bytes))
    }

    /// Makes one of a stream on which a call was sent; `output` decodes what the service answers.
    package init(
        asked method: String, over stream: any ByteStream, output: @escaping @Sendable ([UInt8]) throws -> Output
    ) {
        base = stream
        state = Mutex(.asked(AnswerReader(method: method), output))
    }

    /// The error with which the service refused the stream; `nil` until it has, or when it accepts.
    public var refusal: KithError? {
        state.withLock { if case .refused(let error) = $0 { error } else { nil } }
    }

    /// Waits for what the service answers; it counts as reading.
    ///
    /// - Throws: what the service refused with, or as ``read(upTo:)``.
    @discardableResult
    public func answer() async throws -> Output { try await accepted().output }

    private func accepted() async throws -> (output: Output, stream: any ByteStream) {
        while true {
            if let accepted = try known() { return accepted }
            let more = try await base.read(upTo: 64 << 10)
            try state.withLock { state in
                guard case .asked(var reader, let decode) = state else { return }
                do {
                    guard let (output, rest) = try reader.take(more) else {
                        state = .asked(reader, decode)
                        return
                    }
                    state = .accepted(try decode(output), rest.isEmpty ? base : PrefixedStream(rest, before: base))
                } catch let error as KithError {
                    state = .refused(error)
                    throw error
                }
            }
        }
    }

    private func known() throws -> (output: Output, stream: any ByteStream)? {
        try state.withLock { state in
            switch state {
            case .asked: nil
            case .accepted(let output, let stream): (output, stream)
            case .refused(let error): throw error
            }
        }
    }

    /// Waits for the answer, then for bytes, as every stream.
    public func read(upTo limit: Int) async throws -> [UInt8]? { try await accepted().stream.read(upTo: limit) }

    /// Writes at once, whether the service has answered or not.
    public func write(_ bytes: [UInt8]) async throws { try await base.write(bytes) }

    /// Ends our direction; the service may still answer.
    public func finish() async throws { try await base.finish() }

    /// Writes and ends our direction together.
    public func finish(writing bytes: [UInt8]) async throws { try await base.finish(writing: bytes) }

    /// Abandons both directions, and the call with them.
    public func abort(_ code: KithError.Code) { base.abort(code) }

    /// Abandons both directions, and the call with them.
    public func fail(_ error: KithError) { base.fail(error) }

    /// Takes no more of what the service sends; the answer, too, is lost when it has not come.
    public func stopReading(_ code: KithError.Code) { base.stopReading(code) }

    /// Waits until the service takes no more of what is written.
    public func stopped() async throws { try await base.stopped() }

    /// The executor on which a task that waits for the underlying stream resumes.
    public var executor: (any TaskExecutor)? { base.executor }
}
