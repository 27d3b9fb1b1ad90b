import KithWire

/// A notification from either end about a stream on a shared connection, named after it.
///
/// | method | params | from | what |
/// | --- | --- | --- | --- |
/// | `$/message` | `id`, `message` or `bytes` (base64) | both | the next of what this way carries |
/// | `$/finish` | `id` | both | nothing more comes this way |
/// | `$/credit` | `id`, `messages` (1…2³¹) | both | the other end may send that many more |
/// | `$/cancel` | `id` | caller | the call, or the stream, is called off |
/// | `$/end` | `id`, `error` | server | the stream is over; `error` says why when it did not end well |
///
/// `id` is that of the request that opened the stream.
package enum StreamNotice: Hashable, Sendable {
    case message(JSONText)
    case bytes([UInt8])
    case finish
    case credit(Int)
    case cancel
    case end(RPCError?)

    /// The number of messages a caller may send before the first `$/credit`.
    ///
    /// A caller that sends more is not read from until there is room.
    package static let initialCredit = 32

    /// Reads a notice and the stream it is about; `nil` for another notification.
    ///
    /// - Throws: `KithError` `.invalid` for one whose parameters make no sense.
    package static func parse(_ request: RPCRequest) throws -> (id: RPCIdentifier, notice: StreamNotice)? {
        guard request.id == nil, request.method.hasPrefix("$/") else { return nil }
        let members = request.params?.members() ?? []
        func member(_ name: String) -> JSONText? { members.first { $0.name == name }?.value }
        func invalid(_ what: String) -> KithError { KithError(.invalid, "\(request.method) needs \(what).") }
        guard let id = member("id").flatMap({ RPCIdentifier($0) }) else { throw invalid("the `id` of a request") }
        switch request.method {
        case "$/message":
            if let message = member("message") { return (id, .message(message)) }
            guard let bytes = member("bytes")?.string.flatMap({ Base64.decode($0) }) else {
                throw invalid("a `message`, or `bytes` in base64")
            }
            return (id, .bytes(bytes))
        case "$/finish": return (id, .finish)
        case "$/credit":
            guard let count = member("messages")?.integer, (1...(1 << 31)).contains(count) else {
                throw invalid("a number of `messages`, 1 to 2^31")
            }
            return (id, .credit(Int(count)))
        case RPCRequest.cancelMethod: return (id, .cancel)
        case "$/end": return (id, .end(member("error").flatMap { RPCError($0) }))
        default: return nil
        }
    }

    /// Returns the notification for the stream with this identifier.
    package func request(_ id: RPCIdentifier) -> RPCRequest {
        var members = [(name: "id", value: JSONText(scanned: id.json))]
        let method: String
        switch self {
        case .message(let message):
            method = "$/message"
            members.append(("message", message))
        case .bytes(let bytes):
            method = "$/message"
            members.append(("bytes", JSONText(scanned: JSONText.quoted(Base64.encode(bytes)))))
        case .finish: method = "$/finish"
        case .credit(let count):
            method = "$/credit"
            members.append(("messages", JSONText(scanned: Array(String(count).utf8))))
        case .cancel: method = RPCRequest.cancelMethod
        case .end(let error):
            method = "$/end"
            if let error { members.append(("error", JSONText(scanned: error.json))) }
        }
        return RPCRequest(id: nil, method: method, params: JSONText(members: members))
    }
}
