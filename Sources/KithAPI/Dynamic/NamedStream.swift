public import KithRPC
import KithWire

/// The caller's end of a stream that was opened by its method's name, or the service's end of one whose method is known
/// only at run time: messages are JSON.
///
/// One task may send while another receives.
public protocol NamedStream: AnyObject, Sendable {
    /// The service's answer when it accepted the stream: one JSON value.
    var answer: [UInt8] { get }

    /// Waits for the next item; `nil` when nothing more comes.
    ///
    /// - Throws: the `KithError` with which it ended, unless it ended well.
    func receive() async throws -> NamedStreamItem?

    /// Sends one message, a JSON value, waiting while the other end is slow.
    func send(_ json: [UInt8]) async throws

    /// Sends bytes, if the stream carries bytes this way; waits while the other end is slow.
    func send(bytes: [UInt8]) async throws

    /// Ends our direction; what was sent before still arrives.
    func finish() async throws

    /// Calls the stream off; again, or after its end, it does nothing.
    func cancel()
}

/// An item received on a stream.
@nonexhaustive
public enum NamedStreamItem: Hashable, Sendable {
    /// A message, one JSON value in one line.
    case message([UInt8])
    /// Bytes.
    case bytes([UInt8])
}

extension NamedStream {
    /// Waits for the next message; `nil` when nothing more comes.
    ///
    /// - Throws: `KithError` `.invalid` where bytes flow; else as ``receive()``.
    public func next() async throws -> JSONValue? {
        switch try await receive() {
        case nil: nil
        case .message(let json): try JSONText(json).decode(JSONValue.self)
        case .bytes: throw KithError(.invalid, "This way of the stream carries bytes, not messages.")
        }
    }

    /// Sends one message, waiting while the other end is slow.
    public func send(_ message: JSONValue) async throws { try await send(JSONText.encode(message)) }
}

/// One end of a stream whose messages travel as between devices, taken and given as JSON.
package final class TranscodedStream: NamedStream {
    package let answer: [UInt8]
    private let stream: any ByteStream
    private let incoming: any StreamContent.Type
    private let outgoing: any StreamContent.Type
    private let buffer = Buffer()

    /// Only the one receiving task touches it.
    private final class Buffer: @unchecked Sendable {  // one reader at a time is the contract of `ByteStream`
        var received = ReceiveBuffer()
    }

    /// Gives the bytes of `stream` their forms.
    package init(
        _ stream: any ByteStream, incoming: any StreamContent.Type, outgoing: any StreamContent.Type,
        answer: [UInt8] = []
    ) {
        self.stream = stream
        self.incoming = incoming
        self.outgoing = outgoing
        self.answer = answer
    }

    /// Gives the bytes of `stream` the forms of a method that is known only at run time.
    package convenience init(_ stream: any ByteStream, incoming: DynamicMethod.Way, outgoing: DynamicMethod.Way) {
        self.init(stream, incoming: incoming.content, outgoing: outgoing.content)
    }

    package func receive() async throws -> NamedStreamItem? {
        while true {
            if incoming.form == .messages, let message = try incoming.nextJSON(from: &buffer.received) {
                return .message(message)
            }
            guard let more = try await stream.read(upTo: 64 << 10) else {
                if buffer.received.count == 0 { return nil }
                throw KithError(.closed, "The other end stopped in the middle of a message.")
            }
            if incoming.form != .messages { return .bytes(more) }
            buffer.received.append(more)
        }
    }

    package func send(_ json: [UInt8]) async throws { try await stream.write(outgoing.bytes(fromJSON: json)) }

    package func send(bytes: [UInt8]) async throws {
        guard outgoing.form == .bytes else {
            throw KithError(.invalid, "This way of the stream carries \(outgoing.form.rawValue), not bytes.")
        }
        try await stream.write(bytes)
    }

    package func finish() async throws { try await stream.finish() }
    package func cancel() { stream.abort(.cancelled) }
}
