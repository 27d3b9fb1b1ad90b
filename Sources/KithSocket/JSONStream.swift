public import KithAPI
import KithIO
import KithRPC
import KithWire

/// A stream that a program opened by its method's name, with messages in JSON.
///
/// One task may send while another receives. One that nobody holds any more is called off.
public final class JSONStream: NamedStream {
    /// An item received on the stream.
    public typealias Item = NamedStreamItem

    /// The service's answer when it accepted the stream: one JSON value.
    public let answer: [UInt8]
    private let id: RPCIdentifier
    private let arrivals: Arrivals
    private let connection: LineConnection
    private let taken = Locked(0)

    /// The most messages that may come before the first has been received.
    static let window = 64

    init(_ id: RPCIdentifier, answer: [UInt8], _ arrivals: Arrivals, _ connection: LineConnection) {
        self.id = id
        self.answer = answer
        self.arrivals = arrivals
        self.connection = connection
    }

    deinit { cancel() }

    /// Waits for the next item; `nil` when the stream is over.
    ///
    /// - Throws: the `KithError` with which it ended, unless it ended well.
    public func receive() async throws -> Item? {
        guard let item = try await arrivals.items.receive() else { return nil }
        let count = taken.value + 1
        let isTime = count == Self.window / 2
        taken.set(isTime ? 0 : count)
        // A stream that is over needs no more credit.
        if isTime { try? await connection.send(StreamNotice.credit(count).request(id).json) }
        return item
    }

    /// Sends one message, a JSON value, waiting while the service is slow.
    public func send(_ json: [UInt8]) async throws {
        let text = try JSONText(json)
        _ = try await arrivals.credit.take()
        try await connection.send(StreamNotice.message(text).request(id).json)
    }

    /// Sends bytes, if the stream carries bytes this way; waits while the service is slow.
    public func send(bytes: [UInt8]) async throws {
        for start in stride(from: 0, to: bytes.count, by: 64 << 10) {
            let piece = Array(bytes[start..<min(start + 64 << 10, bytes.count)])
            _ = try await arrivals.credit.take()
            try await connection.send(StreamNotice.bytes(piece).request(id).json)
        }
    }

    /// Ends our direction; what was sent before still arrives.
    public func finish() async throws { try await connection.send(StreamNotice.finish.request(id).json) }

    /// Calls the stream off; again, or after its end, it does nothing.
    public func cancel() {
        guard arrivals.end() else { return }
        let (connection, id) = (connection, id)
        // When the connection is gone, so is the stream: a failed notification does not matter.
        Task(name: "kith cancel") { try? await connection.send(RPCRequest.cancel(id).json) }
    }

    /// The items that have come and wait to be received.
    final class Arrivals: Sendable {
        /// As many as the service was allowed to send.
        let items = BoundedQueue<Item>(capacity: 2 * JSONStream.window)
        let credit = AsyncSemaphore(StreamNotice.initialCredit)
        private let isOver = Locked(false)

        func take(_ notice: StreamNotice) {
            switch notice {
            case .message(let text): add(.message(text.bytes))
            case .bytes(let bytes): add(.bytes(bytes))
            case .credit(let count): credit.add(count)
            case .end(let error):
                isOver.set(true)
                items.finish(throwing: error?.kithError)
                credit.finish()  // whoever waits finds out
            case .finish, .cancel: break
            }
        }

        private func add(_ item: Item) {
            // Ended by us, or sent more than its credit: then it ends here.
            guard let isKept = try? items.offer(item), isKept else {
                items.finish(throwing: KithError(.exhausted, "The device sent more than it was asked for."))
                return
            }
        }

        /// Ends it from this side; whether it was not over yet.
        func end() -> Bool {
            guard !isOver.value else { return false }
            isOver.set(true)
            items.finish(throwing: KithError(.cancelled, "The stream was called off."))
            return true
        }
    }
}
