public import KithWire

/// The identifier that pairs a JSON-RPC answer with its request.
@frozen
public enum RPCIdentifier: Hashable, Sendable {
    /// A string.
    case string(String)
    /// A number, by its literal.
    case number(String)
    /// The identifier in the answer to a request whose own could not be read.
    case null

    package init?(_ text: JSONText) {
        switch text.bytes.first {
        case UInt8(ascii: "\""): self = .string(JSONScanner.unescaped(text.bytes[...]))
        case UInt8(ascii: "n"): self = .null
        case UInt8(ascii: "-"), .some(UInt8(ascii: "0")...UInt8(ascii: "9")): self = .number(text.description)
        default: return nil
        }
    }

    package var json: [UInt8] {
        switch self {
        case .string(let text): JSONText.quoted(text)
        case .number(let literal): Array(literal.utf8)
        case .null: Array("null".utf8)
        }
    }
}

/// A JSON-RPC 2.0 call, or, without an identifier, a notification.
public struct RPCRequest: Hashable, Sendable {
    /// The identifier the answer will carry; `nil` when no answer is wanted.
    public var id: RPCIdentifier?
    /// The name of the method to call.
    public var method: String
    /// The input: any JSON value, not only an object or an array (Documentation/Deviations.md).
    public var params: JSONText?
    /// The members beside those of the standard: the device to ask, the time limit.
    ///
    /// Two of one name are not sent.
    public var envelope: [String: JSONText]

    /// Makes a request.
    public init(id: RPCIdentifier?, method: String, params: JSONText?, envelope: [String: JSONText] = [:]) {
        self.id = id
        self.method = method
        self.params = params
        self.envelope = envelope
    }

    /// The request as JSON in one line, without the line feed.
    public var json: [UInt8] {
        var text = Array("{\"jsonrpc\":\"2.0\"".utf8)
        if let id { text += Array(",\"id\":".utf8) + id.json }
        text += Array(",\"method\":".utf8) + JSONText.quoted(method)
        for (name, value) in envelope.sorted(by: { $0.key < $1.key }) {
            text += Array(",".utf8) + JSONText.quoted(name) + Array(":".utf8) + value.bytes
        }
        if let params { text += Array(",\"params\":".utf8) + params.bytes }
        text.append(UInt8(ascii: "}"))
        return text
    }

    /// The notification that calls off the request with `id`.
    package static func cancel(_ id: RPCIdentifier) -> RPCRequest {
        let params = JSONText(members: [(name: "id", value: JSONText(scanned: id.json))])
        return RPCRequest(id: nil, method: cancelMethod, params: params)
    }

    package static let cancelMethod = "$/cancel"
}

/// The error of a JSON-RPC request.
public struct RPCError: Error, Hashable, Sendable {
    /// The number; -32700…-32600 are the standard's.
    public var code: Int
    /// One sentence.
    public var message: String
    /// More, if there is more.
    public var data: JSONText?

    /// Makes an error.
    public init(code: Int, message: String, data: JSONText? = nil) {
        self.code = code
        self.message = message
        self.data = data
    }

    /// Reads the `error` of an answer; `nil` when it has no code or no message.
    package init?(_ text: JSONText) {
        let parts = text.members() ?? []
        guard let code = parts.first(where: { $0.name == "code" })?.value.integer,
            let message = parts.first(where: { $0.name == "message" })?.value.string
        else { return nil }
        self.init(code: Int(code), message: message, data: parts.first { $0.name == "data" }?.value)
    }

    /// The bytes are not JSON.
    public static let parseError = RPCError(code: -32700, message: "Parse error")
    /// The JSON is not a request.
    public static let invalidRequest = RPCError(code: -32600, message: "Invalid Request")

    private struct Detail: Codable {
        var code: String
        var data: JSONValue?
    }

    /// Makes the JSON-RPC error of a `KithError`; its cause is not sent.
    ///
    /// An application's own code is in `data`, as `{"code", "data"}`; one that is a number, of a failure that is not of
    /// another kind, is the `code` itself.
    public init(_ error: KithError) {
        self.init(code: error.code.rpcCode, message: error.message)
        guard let detail = error.detail else { return }
        // A value that JSON cannot express, such as NaN, is left out.
        let value = try? detail.value(as: JSONValue.self)
        if error.code == .internal, let number = Int(detail.code), Self.isOwn(number) {
            code = number
            data = try? value.map { try JSONText(encoding: $0) }
        } else {
            data =
                (try? JSONText(encoding: Detail(code: detail.code, data: value)))
                ?? (try? JSONText(encoding: Detail(code: detail.code, data: nil)))
        }
    }

    /// The `KithError` it stands for; of its message the first 4 KiB, as between devices.
    public var kithError: KithError {
        let message = message.prefix(bytes: Self.messageLimit)
        switch code {
        case Self.parseError.code, Self.invalidRequest.code: return KithError(.invalid, message)
        case let number where Self.isOwn(number):
            return KithError(.internal, message, detail: Self.detail("\(number)", try? data?.value()))
        default:
            // The data of another server's error may be anything.
            let own = try? data?.decode(Detail.self)
            return KithError(
                .init(rpcCode: code), message, detail: own.map { Self.detail($0.code, $0.data) })
        }
    }

    private static let messageLimit = 4096

    /// Tells whether an application may define this number: −32768…−32000 is kept for JSON-RPC and us.
    private static func isOwn(_ code: Int) -> Bool { !(-32768 ... -32000).contains(code) }

    private static func detail(_ code: String, _ data: JSONValue?) -> KithError.Detail {
        // Data beyond the limit are left out; the code still says what happened.
        data.flatMap { try? KithError.Detail(code, data: $0) } ?? KithError.Detail(code)
    }

    package var json: [UInt8] {
        var text = Array("{\"code\":\(code),\"message\":".utf8) + JSONText.quoted(message)
        if let data { text += Array(",\"data\":".utf8) + data.bytes }
        text.append(UInt8(ascii: "}"))
        return text
    }
}

/// The answer to an ``RPCRequest``.
public struct RPCResponse: Hashable, Sendable {
    /// The identifier of the request it answers.
    public var id: RPCIdentifier
    /// The outcome of the call.
    public var result: Result<JSONText, RPCError>

    /// Makes an answer.
    public init(id: RPCIdentifier, result: Result<JSONText, RPCError>) {
        self.id = id
        self.result = result
    }

    /// The answer as JSON in one line, without the line feed.
    public var json: [UInt8] {
        var text = Array("{\"jsonrpc\":\"2.0\",\"id\":".utf8) + id.json
        switch result {
        case .success(let value): text += Array(",\"result\":".utf8) + value.bytes
        case .failure(let error): text += Array(",\"error\":".utf8) + error.json
        }
        text.append(UInt8(ascii: "}"))
        return text
    }
}

/// A message that has arrived.
@frozen
public enum RPCMessage: Hashable, Sendable {
    /// A request or a notification.
    case request(RPCRequest)
    /// An answer.
    case response(RPCResponse)
    /// Anything else; send back this answer.
    case malformed(RPCResponse)
}

/// A line of JSON-RPC: one message, or a batch.
@frozen
public enum RPCPacket: Hashable, Sendable {
    /// One message.
    case single(RPCMessage)
    /// A batch, answered together, in any order.
    case batch([RPCMessage])

    /// The most messages one batch may hold.
    public static let batchLimit = 1000

    /// Reads a received line.
    ///
    /// Any input is one of the cases.
    public init(parsing line: [UInt8]) {
        guard JSONText.isUTF8(line) else {
            self = .single(.malformed(RPCResponse(id: .null, result: .failure(.parseError))))
            return
        }
        do {
            var scanner = JSONScanner(line)
            let isBatch = scanner.peek() == UInt8(ascii: "[")
            let range = try scanner.value()
            try scanner.finish()
            guard isBatch else {
                self = .single(RPCMessage(line, in: range))
                return
            }
            var list = JSONScanner(line, in: range)
            let elements = try list.elements()
            guard !elements.isEmpty, elements.count <= Self.batchLimit else {
                self = .single(.malformed(RPCResponse(id: .null, result: .failure(.invalidRequest))))
                return
            }
            self = .batch(elements.map { RPCMessage(line, in: $0) })
        } catch {
            var failure = RPCError.parseError
            failure.data = JSONText(
                scanned: JSONText.quoted("expected \(error.expected) at byte \(error.offset)"))
            self = .single(.malformed(RPCResponse(id: .null, result: .failure(failure))))
        }
    }
}

extension RPCMessage {
    /// Reads one message from text that is JSON.
    fileprivate init(_ line: [UInt8], in range: Range<Int>) {
        var id: RPCIdentifier?
        func malformed(_ why: String) -> RPCMessage {
            var error = RPCError.invalidRequest
            error.data = JSONText(scanned: JSONText.quoted(why))
            return .malformed(RPCResponse(id: id ?? .null, result: .failure(error)))
        }
        var scanner = JSONScanner(line, in: range)
        guard let members = try? scanner.members() else {  // no object, or one that repeats a name
            self = malformed("expected an object that names each member once")
            return
        }
        func member(_ name: String) -> JSONText? {
            members.first { $0.name == name }.map { JSONText(scanned: Array(line[$0.value])) }
        }
        if let text = member("id") {
            guard let known = RPCIdentifier(text) else {
                self = malformed("`id` must be a string, a number or null")
                return
            }
            id = known
        }
        guard member("jsonrpc")?.string == "2.0" else {
            self = malformed("`jsonrpc` must be \"2.0\"")
            return
        }
        if let method = member("method") {
            guard let name = method.string else {
                self = malformed("`method` must be a string")
                return
            }
            let standard: Set<String> = ["jsonrpc", "id", "method", "params"]
            let others = members.filter { !standard.contains($0.name) }
                .map { ($0.name, JSONText(scanned: Array(line[$0.value]))) }
            self = .request(
                RPCRequest(
                    id: id, method: name, params: member("params"),
                    envelope: Dictionary(uniqueKeysWithValues: others)))
            return
        }
        guard let id else {
            self = malformed("`method` is missing")
            return
        }
        switch (member("result"), member("error")) {
        case (let result?, nil):
            self = .response(RPCResponse(id: id, result: .success(result)))
        case (nil, let error?):
            guard let error = RPCError(error) else {
                self = malformed("`error` must have a `code` and a `message`")
                return
            }
            self = .response(RPCResponse(id: id, result: .failure(error)))
        default:
            self = malformed("`method` is missing")
        }
    }
}
