public import KithWire

/// One end of a stream of a method: what it receives is `Incoming`, what it sends is `Outgoing`.
///
/// ```swift
/// let found = try await client.open(Files.Find.self, .init(path: path), on: "laptop").stream
/// for try await entry in found.messages { print(entry) }
/// ```
///
/// One task may send while another receives; two that receive, or two that send, are a programming error.
public final class MethodStream<Incoming: StreamContent, Outgoing: StreamContent>: Sendable {
    /// The underlying bytes.
    ///
    /// Reading them directly skips a message of which a part has already come.
    public let bytes: any ByteStream
    private let buffer = Buffer()

    /// Only the one receiving task touches it.
    private final class Buffer: @unchecked Sendable {  // one reader at a time is the contract of `ByteStream`
        var received = ReceiveBuffer()
    }

    /// Gives the bytes of `stream` their types.
    public init(_ stream: any ByteStream) { bytes = stream }

    /// Ends our direction; what was sent before still arrives.
    public func finish() async throws { try await bytes.finish() }

    /// Abandons both directions at once, telling the other end `code`.
    public func abort(_ code: KithError.Code) { bytes.abort(code) }

    /// Waits until the other end has finished, whatever it sends until then.
    ///
    /// For an end whose peer sends nothing but the end of its direction.
    public func end() async throws { while try await bytes.read(upTo: 4_096) != nil {} }
}

extension MethodStream where Outgoing: StreamMessage {
    /// Sends one message, waiting while the other end is slow.
    public func send(_ message: Outgoing) async throws {
        var framed: [UInt8] = []
        try message.append(to: &framed)
        try await bytes.write(framed)
    }
}

extension MethodStream where Incoming: StreamMessage {
    /// Waits for the next message; `nil` when the other end finished between two messages.
    ///
    /// - Throws: `KithError` `.closed` when it finished inside one, `.invalid` when one is too long, which ends the stream,
    ///   or is malformed; the error with which the other end or the connection ended.
    public func receive() async throws -> Incoming? {
        while true {
            let count = buffer.received.count
            do {
                if let message = try Incoming.next(from: &buffer.received) { return message }
            } catch {
                // If the message was whole but malformed, the other end can still be told.
                if buffer.received.count == count { bytes.abort(.invalid) }
                throw error
            }
            guard let more = try await bytes.read(upTo: 64 << 10) else {
                if buffer.received.count == 0 { return nil }
                throw KithError(.closed, "The other end stopped in the middle of a message.")
            }
            buffer.received.append(more)
        }
    }

    /// The messages as they come, until the other end finishes.
    ///
    /// Iterating receives; a caller that stops early may go on later.
    public var messages: Messages { Messages(stream: self) }

    /// The messages of a stream.
    public struct Messages: AsyncSequence, Sendable {
        fileprivate let stream: MethodStream

        /// Gives one message after another.
        public struct AsyncIterator: AsyncIteratorProtocol {
            fileprivate let stream: MethodStream

            /// As ``MethodStream/receive()``.
            public mutating func next() async throws -> Incoming? { try await stream.receive() }
        }

        /// Begins, or goes on.
        public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(stream: stream) }
    }
}

extension MethodStream where Incoming == RawBytes {
    /// Waits for bytes, as ``ByteStream/read(upTo:)``.
    public func read(upTo limit: Int) async throws -> [UInt8]? { try await bytes.read(upTo: limit) }
}

extension MethodStream where Outgoing == RawBytes {
    /// Writes all of `bytes`, as ``ByteStream/write(_:)``.
    public func write(_ bytes: [UInt8]) async throws { try await self.bytes.write(bytes) }
}
