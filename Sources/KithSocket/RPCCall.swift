import KithAPI
import KithRPC
import KithWire

/// A call of the table as JSON-RPC.
///
/// `params` is the method's input. Members about the call itself stand beside it: `CallMember` of KithAPI. With `raw` the
/// connection becomes a ``SocketStream``.
struct RPCCall {
    /// The method called, and its input.
    var call: IncomingCall
    /// True when a stream takes over the connection.
    var isRaw = false
    /// Whether a stream that takes over the connection says the whole of an error.
    var sendsErrors = false
    /// The most messages of a stream that may come; `nil`: no limit.
    var credit: Int?

    /// The members that stood inside `params` in version 1.
    private static let misplaced: Set<String> = Set([CallMember.on, .timeout, .traceparent].map(\.rawValue))

    /// The request for a call.
    static func request(
        id: RPCIdentifier, method: String, input: [UInt8], on device: String?, options: CallOptions,
        isRaw: Bool = false, credit: Int? = nil
    ) -> RPCRequest {
        var envelope: [String: JSONText] = [:]
        func add(_ member: CallMember, _ value: [UInt8]) { envelope[member.rawValue] = JSONText(scanned: value) }
        if let device { add(.on, JSONText.quoted(device)) }
        if let timeout = options.timeout { add(.timeout, Array(String(milliseconds(timeout)).utf8)) }
        if let trace = options.trace { add(.traceparent, JSONText.quoted(trace.traceparent)) }
        if isRaw {
            add(.raw, Array("true".utf8))
            add(.errors, Array("true".utf8))
        }
        if let credit { add(.credit, Array(String(credit).utf8)) }
        return RPCRequest(id: id, method: method, params: JSONText(scanned: input), envelope: envelope)
    }

    /// Reads the call of a request.
    ///
    /// `knowsEnvelope` is true once the caller has said hello. If it has not, and uses no member of the envelope, members
    /// like these inside `params`, where they stood in version 1, are refused: the call would be made here instead of
    /// there.
    init(_ request: RPCRequest, knowsEnvelope: Bool) throws {
        call = IncomingCall(method: request.method, input: .json(request.params?.bytes ?? Array("{}".utf8)))
        if !knowsEnvelope, request.envelope.isEmpty,
            let member = request.params?.members()?.first(where: { Self.misplaced.contains($0.name) })
        {
            throw KithError(
                .invalid,
                "`\(member.name)` stands beside `params`, not in it. Say rpc.hello first for a method that takes one.")
        }
        for (name, value) in request.envelope {
            switch CallMember(rawValue: name) {
            case .on:
                guard let device = value.string else { throw KithError(.invalid, "`on` must be a string.") }
                call.device = device
            case .timeout:
                call.options.timeout = .milliseconds(try Self.number(value, of: .timeout, what: "milliseconds"))
            case .traceparent:
                // A trace that cannot be read is ignored, as W3C Trace Context asks.
                call.options.trace = value.string.flatMap { TraceContext(traceparent: $0) }
            case .raw:
                guard let isRaw = value.boolean else { throw KithError(.invalid, "`raw` must be true or false.") }
                self.isRaw = isRaw
            case .errors:
                guard let sendsErrors = value.boolean else {
                    throw KithError(.invalid, "`errors` must be true or false.")
                }
                self.sendsErrors = sendsErrors
            case .credit: credit = Int(try Self.number(value, of: .credit, what: "messages"))
            case nil: break  // of a later version: what it cannot do without is asked of hello
            }
        }
    }

    private static func number(_ value: JSONText, of member: CallMember, what: String) throws(KithError) -> Int64 {
        guard let range = member.range, let number = value.integer, range.contains(number) else {
            let bounds = member.range.map { ", \($0.lowerBound) to \($0.upperBound)" } ?? ""
            throw KithError(.invalid, "`\(member.rawValue)` must be a whole number of \(what)\(bounds).")
        }
        return number
    }

    private static func milliseconds(_ duration: Duration) -> Int64 {
        let (seconds, attoseconds) = duration.components
        return max(
            1,
            seconds.multipliedReportingOverflow(by: 1000).overflow
                ? Int64(1) << 52 : min(seconds * 1000 + attoseconds / 1_000_000_000_000_000, 1 << 52))
    }

    /// The JSON-RPC error of any failure; of a method the standard's codes name it in their data.
    static func failure(_ error: any Error, of method: String) -> RPCError {
        var failure = failure(error)
        if failure.data == nil, (-32603 ... -32600).contains(failure.code) {
            failure.data = JSONText(members: [
                (name: "method", value: JSONText(scanned: JSONText.quoted(String(method.prefix(128)))))
            ])
        }
        return failure
    }

    /// The JSON-RPC error of any failure.
    static func failure(_ error: any Error) -> RPCError {
        switch error {
        case let error as KithError: RPCError(error)
        case is CancellationError: RPCError(KithError(.cancelled, "The call was cancelled."))
        case let error as RPCError: error
        default: RPCError(KithError(.internal, "The service failed."))
        }
    }
}
