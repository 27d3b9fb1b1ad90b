import KithAPI
import KithRPC
import KithWire

/// A request in the reference's own envelope: one line, one request, one answer.
enum Envelope: Hashable, Sendable {
    case ping
    case shutdown
    case unsubscribe
    case unsubscribeLogs
    /// A call of an operation; the reference does not check which of the two it was sent as.
    case call(method: String, payload: JSONValue, library: JSONValue?)
    case subscribe(Subscription)
    case subscribeLogs

    /// Why a line is not a request, as the reference says it.
    struct Failure: Error, Hashable {
        var variant: String
        var message: String

        var json: JSONValue { ["Error": [variant: .string(message)]] }
    }

    /// Tells whether a first line is text, or an object whose only member begins with a capital letter.
    static func begins(with line: [UInt8]) -> Bool {
        // A batch, a request, or no JSON at all: not this envelope's.
        guard let text = try? JSONText(line) else { return false }
        if text.string != nil { return true }
        guard let members = text.members(), members.count == 1, let first = members[0].name.utf8.first else {
            return false
        }
        return (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(first)
    }

    /// Reads a request.
    init(_ line: [UInt8]) throws(Failure) {
        let value: JSONValue
        do {
            value = try JSONText(line).value()
        } catch {
            throw Failure(variant: "SerializationError", message: "The request is not JSON.")
        }
        func unknown(_ name: String) -> Failure {
            Failure(variant: "SerializationError", message: "unknown variant `\(name.prefix(64))`")
        }
        if let name = value.text {
            switch name {
            case "Ping": self = .ping
            case "Shutdown": self = .shutdown
            case "Unsubscribe": self = .unsubscribe
            case "UnsubscribeLogs": self = .unsubscribeLogs
            default: throw unknown(name)
            }
            return
        }
        guard case .object(let members) = value, members.count == 1, let (name, content) = members.first else {
            throw Failure(variant: "SerializationError", message: "A request is one of the envelope's variants.")
        }
        switch name {
        case "Query", "Action":
            guard let method = content.member("method")?.text else {
                throw Failure(variant: "SerializationError", message: "missing field `method`")
            }
            self = .call(
                method: method, payload: content.member("payload") ?? .null, library: content.member("library_id"))
        case "Subscribe": self = .subscribe(try Subscription(content))
        case "SubscribeLogs": self = .subscribeLogs
        default: throw unknown(name)
        }
    }
}

/// A connection in the reference's envelope.
struct EnvelopeSession: Sendable {
    private let adapter: CompatibilityAdapter
    private let exchange: any LineSender

    init(_ adapter: CompatibilityAdapter, _ exchange: any LineSender) {
        (self.adapter, self.exchange) = (adapter, exchange)
    }

    /// Answers a request; a subscription goes on until the caller ends it.
    ///
    /// - Throws: when the caller is gone.
    func run(_ line: [UInt8]) async throws {
        let request: Envelope
        do throws(Envelope.Failure) {
            request = try Envelope(line)
        } catch {
            try await send(error.json)
            return
        }
        switch request {
        case .ping: try await send("Pong")
        case .unsubscribe: try await send("Unsubscribed")
        case .unsubscribeLogs: try await send("LogsUnsubscribed")
        case .subscribeLogs:
            try await send(
                Envelope.Failure(variant: "OperationFailed", message: "This device does not send its log to others.")
                    .json)
        case .shutdown:
            // The answer first: the device closes its connections.
            try await send(["Ok": []])
            do {
                _ = try await adapter.device.client.call(ThisDevice.Stop.self, Nothing())
            } catch {
                // It stops already.
            }
        case .call(let method, let payload, let library):
            let answer: JSONValue
            do {
                answer = ["JsonOk": try await adapter.run(method, payload, library: library)]
            } catch {
                answer = Self.failure(error)
            }
            try await send(answer)
        case .subscribe(let subscription): try await follow(subscription)
        }
    }

    private func send(_ value: JSONValue) async throws {
        let text = try JSONText(encoding: value).bytes
        guard text.count < LineFramer.defaultLimit else {
            let failure = Envelope.Failure(
                variant: "RequestTooLarge", message: "The answer is longer than 4 MiB. Ask for less.")
            try await exchange.send(try JSONText(encoding: failure.json).bytes)
            return
        }
        try await exchange.send(text)
    }

    /// The reference's form of an error.
    static func failure(_ error: any Error) -> JSONValue {
        guard let error = error as? KithError else {
            let isCancelled = error is CancellationError
            return ["Error": ["OperationFailed": .string(isCancelled ? "It was cancelled." : "The operation failed.")]]
        }
        let variant =
            switch error.code {
            case .unsupported: "HandlerNotFound"
            case .invalid: "ValidationError"
            case .denied: "SecurityError"
            case .internal: "InternalError"
            default: "OperationFailed"
            }
        return ["Error": [variant: .string(error.message)]]
    }

    private func follow(_ subscription: Subscription) async throws {
        try await send("Subscribed")
        try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask {
                // Whoever only listens ends this direction, or says nothing more.
                while let line = try await exchange.next() {
                    if (try? JSONText(line))?.string == "Unsubscribe" { return true }
                }
                return false
            }
            group.addTask {
                try await EventSource(adapter.device, subscription).run { event in
                    try await send(["Event": event])
                }
                return true
            }
            defer { group.cancelAll() }
            while let isOver = try await group.next() {
                guard isOver else { continue }
                try await send("Unsubscribed")
                return
            }
        }
    }
}

/// The part of a connection that a session needs.
package protocol LineSender: Sendable {
    /// Sends a line whole.
    func send(_ line: [UInt8]) async throws

    /// Waits for the next line; `nil` at the end.
    func next() async throws -> [UInt8]?
}
