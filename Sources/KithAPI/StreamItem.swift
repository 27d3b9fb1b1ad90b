import KithRPC
import KithWire

/// A message of a stream that is any `Codable` value, encoded as itself.
package struct StreamItem<Value: Codable & Sendable>: StreamMessage {
    /// The value.
    package var value: Value

    /// Wraps a value.
    package init(_ value: Value) { self.value = value }

    // By a container: the coders know some types, as bytes, only when they are asked for a value of them.
    package init(from decoder: any Decoder) throws { value = try decoder.singleValueContainer().decode(Value.self) }
    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(value)
    }

    /// The content of a direction that carries these: that of ``Nothing`` is only its end.
    package static var content: any StreamContent.Type {
        (Value.self as Any.Type) == Nothing.self ? Nothing.self : Self.self
    }
}

/// One end of a stream whose messages are any `Codable` values; of ``Nothing`` comes none.
///
/// ```swift
/// let ticks: ValueStream<Int, Nothing> = try await device.open("clock/ticks", ["every": 1])
/// for try await tick in ticks.messages { print(tick) }
/// ```
///
/// One task may send while another receives. Sending waits while the other end is slow.
public struct ValueStream<Incoming: Codable & Sendable, Outgoing: Codable & Sendable>: Sendable {
    private enum Backing {
        /// Messages as they travel between devices.
        case encoded(MethodStream<StreamItem<Incoming>, StreamItem<Outgoing>>)
        /// Messages as JSON.
        case named(any NamedStream)
    }

    private let backing: Backing

    /// Gives the bytes of `stream` their types.
    public init(_ stream: any ByteStream) { backing = .encoded(MethodStream(stream)) }

    /// Gives the messages of `stream` their types.
    public init(_ stream: any NamedStream) { backing = .named(stream) }

    private static func isNothing<Value>(_ type: Value.Type) -> Bool { (type as Any.Type) == Nothing.self }

    /// Waits for the next message; `nil` when the other end has finished.
    ///
    /// - Throws: `KithError` `.invalid` for a message of another type; the error with which the stream ended.
    public func receive() async throws -> Incoming? {
        switch backing {
        case .encoded(let stream):
            guard !Self.isNothing(Incoming.self) else {
                try await stream.end()
                return nil
            }
            return try await stream.receive()?.value
        case .named(let stream):
            while let item = try await stream.receive() {
                if Self.isNothing(Incoming.self) { continue }
                guard case .message(let json) = item else {
                    throw KithError(.invalid, "This way of the stream carries bytes, not messages.")
                }
                let coding = AnyMethod.Coding(Incoming.self, what: "A message of the stream")
                return try coding.decode(.json(json)) as? Incoming
            }
            return nil
        }
    }

    /// Sends one message, waiting while the other end is slow.
    public func send(_ message: Outgoing) async throws {
        precondition(!Self.isNothing(Outgoing.self), "nothing flows this way but the end of the stream")
        switch backing {
        case .encoded(let stream): try await stream.send(StreamItem(message))
        case .named(let stream): try await stream.send(JSONText.encode(message))
        }
    }

    /// Ends our direction; what was sent before still arrives.
    public func finish() async throws {
        switch backing {
        case .encoded(let stream): try await stream.finish()
        case .named(let stream): try await stream.finish()
        }
    }

    /// Calls the stream off, both ways.
    public func cancel() {
        switch backing {
        case .encoded(let stream): stream.abort(.cancelled)
        case .named(let stream): stream.cancel()
        }
    }

    /// The messages as they come, until the other end finishes.
    public var messages: Messages { Messages(stream: self) }

    /// The messages of a stream.
    public struct Messages: AsyncSequence, Sendable {
        fileprivate let stream: ValueStream

        /// Gives one message after another.
        public struct AsyncIterator: AsyncIteratorProtocol {
            fileprivate let stream: ValueStream

            /// As ``ValueStream/receive()``.
            public mutating func next() async throws -> Incoming? { try await stream.receive() }
        }

        /// Begins, or goes on.
        public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(stream: stream) }
    }
}
