import KithAPI
import KithRPC
import KithWire

/// How a call of the table looks as JSON-RPC.
///
/// `params` is the method's input object with three reserved members beside its own:
///
/// | member | what |
/// | --- | --- |
/// | `on` | the device to ask: a name, a DeviceID or the beginning of one; absent for this one |
/// | `timeout` | how long the answer may take, in milliseconds, 1…2⁵²; absent for no limit |
/// | `traceparent` | the W3C trace context the call belongs to |
enum RPCCall {
    private static let reserved: Set<String> = ["on", "timeout", "traceparent"]

    /// The request for a call; `input` is an object.
    static func request(id: RPCIdentifier, method: String, input: [UInt8], on device: String?, options: CallOptions)
        throws -> RPCRequest
    {
        guard var members = JSONText(scanned: input).members() else {
            throw KithError(.invalid, "The input of \(method) is not a JSON object.")
        }
        if let device { members.append(("on", JSONText(scanned: JSONText.quoted(device)))) }
        if let timeout = options.timeout {
            members.append(("timeout", JSONText(scanned: Array(String(milliseconds(timeout)).utf8))))
        }
        if let trace = options.trace {
            members.append(("traceparent", JSONText(scanned: JSONText.quoted(trace.traceparent))))
        }
        return RPCRequest(id: id, method: method, params: JSONText(members: members))
    }

    /// The call a request stands for.
    static func call(_ request: RPCRequest) throws -> IncomingCall {
        guard let members = request.params.map({ $0.members() }) ?? [] else {
            throw KithError(.invalid, "The parameters of \(request.method) must be an object that names each once.")
        }
        var call = IncomingCall(method: request.method, input: .json(Array("{}".utf8)))
        for member in members where reserved.contains(member.name) {
            switch member.name {
            case "on":
                guard let device = member.value.string else { throw KithError(.invalid, "`on` must be a string.") }
                call.device = device
            case "timeout":
                guard let timeout = member.value.integer, (1...(1 << 52)).contains(timeout) else {
                    throw KithError(
                        .invalid, "`timeout` must be a whole number of milliseconds, from 1 to 4503599627370496.")
                }
                call.options.timeout = .milliseconds(timeout)
            default:
                // A trace that cannot be read is ignored, as W3C Trace Context asks.
                call.options.trace = member.value.string.flatMap { TraceContext(traceparent: $0) }
            }
        }
        if let params = request.params {
            let own = members.filter { !reserved.contains($0.name) }
            call.input = .json(own.count == members.count ? params.bytes : JSONText(members: own).bytes)
        }
        return call
    }

    private static func milliseconds(_ duration: Duration) -> Int64 {
        let (seconds, attoseconds) = duration.components
        return max(
            1,
            seconds.multipliedReportingOverflow(by: 1000).overflow
                ? Int64(1) << 52 : min(seconds * 1000 + attoseconds / 1_000_000_000_000_000, 1 << 52))
    }

    /// The failure as it leaves this door.
    static func failure(_ error: any Error) -> RPCError {
        switch error {
        case let error as KithError: RPCError(error)
        case is CancellationError: RPCError(KithError(.cancelled, "The call was cancelled."))
        case let error as RPCError: error
        default: RPCError(KithError(.internal, "The service failed."))
        }
    }
}
