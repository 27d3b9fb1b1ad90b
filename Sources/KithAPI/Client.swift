public import KithRPC
import KithWire

/// Carries calls: within this process, over a socket to a daemon, or over a connection to another device.
public protocol Carrier: Sendable {
    /// Calls a query or an action and waits for its answer.
    ///
    /// `device` is the one to ask, by name, DeviceID or unambiguous beginning of one; `nil` for this one.
    func call<M: Method>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> M.Output

    /// Opens a stream and waits until the service accepted it.
    func open<M: StreamMethod>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> OpenedStream<M>

    /// Calls a query or an action by its name, with its input and answer as JSON, one value each.
    func call(named name: String, json: [UInt8], on device: String?, options: CallOptions) async throws -> [UInt8]

    /// Opens a stream by its name, with its input as JSON, and waits until the service accepted it.
    func open(named name: String, json: [UInt8], on device: String?, options: CallOptions) async throws
        -> any NamedStream

    /// Calls a query or an action by its path, with types of the caller's own.
    func request<Input: Codable & Sendable, Output: Codable & Sendable>(
        _ path: String, _ input: Input, from provider: Provider, as type: Output.Type, options: CallOptions
    ) async throws -> Output

    /// Opens a stream by its path, with types of the caller's own, and waits until the service accepted it.
    func open<Input: Codable & Sendable, Incoming: Codable & Sendable, Outgoing: Codable & Sendable>(
        path: String, _ input: Input, from provider: Provider, options: CallOptions
    ) async throws -> ValueStream<Incoming, Outgoing>

    /// Opens a stream without waiting for the service, when the carrier can; else as ``open(_:_:on:options:)``.
    func begin<M: StreamMethod>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> OpeningStream<M.Output>
}

extension Carrier {
    /// Refuses: what travels is known by its types.
    public func call(named name: String, json: [UInt8], on device: String?, options: CallOptions) async throws
        -> [UInt8]
    {
        throw KithError(.unsupported, "\(name) cannot be called by its name over this carrier.")
    }

    /// Refuses: what travels is known by its types.
    public func open(
        named name: String, json: [UInt8], on device: String?, options: CallOptions
    ) async throws -> any NamedStream {
        throw KithError(.unsupported, "\(name) cannot be opened by its name over this carrier.")
    }

    /// Waits for the service.
    public func begin<M: StreamMethod>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> OpeningStream<M.Output> {
        OpeningStream(try await open(method, input, on: device, options: options))
    }
}

/// The options of one call.
public struct CallOptions: Hashable, Sendable {
    /// The longest time until the answer, from now; it travels with the call, and the work stops when it has passed.
    ///
    /// `nil`: no limit, but a call ends with `.timedOut` when the other device has been silent for half a minute while
    /// something waits for its acknowledgement. A device that only takes its time is not silent.
    public var timeout: Duration?
    /// The W3C trace context the call belongs to.
    public var trace: TraceContext?
    /// Of a request to any provider: the way to find one; `nil` for the way its path has.
    ///
    /// It stays in this process: at the socket, the ways of the daemon hold.
    public var policy: RequestPolicy?
    /// The silence of the other device after which the call is given up; `nil`: 30 seconds, unless it has a time limit.
    package var silenceLimit: Duration?

    /// Makes options.
    public init(timeout: Duration? = nil, trace: TraceContext? = nil, policy: RequestPolicy? = nil) {
        self.timeout = timeout
        self.trace = trace
        self.policy = policy
    }
}

/// A stream a service has accepted, with the answer it gave.
public struct OpenedStream<M: StreamMethod>: Sendable {
    /// The service's answer.
    public let output: M.Output
    /// The caller's end.
    public let stream: MethodStream<M.Downstream, M.Upstream>

    /// Pairs an answer with the bytes of its stream.
    public init(output: M.Output, stream: any ByteStream) {
        self.output = output
        self.stream = MethodStream(stream)
    }
}

/// A W3C trace context (`traceparent`): which trace and span a call belongs to.
public struct TraceContext: Hashable, Sendable, Codable {
    /// 16 bytes.
    public var traceID: [UInt8]
    /// 8 bytes.
    public var spanID: [UInt8]
    /// Bit 0: sampled.
    public var flags: UInt8

    /// Makes a context from its three parts.
    public init(traceID: [UInt8], spanID: [UInt8], flags: UInt8) {
        self.traceID = traceID
        self.spanID = spanID
        self.flags = flags
    }
}

/// Calls methods over any carrier: the one type every Swift caller holds.
public struct Client: Sendable {
    /// The carrier of the calls.
    public let carrier: any Carrier
    /// The trace its calls belong to, unless their options name another.
    public var trace: TraceContext?

    /// Makes a client over `carrier`.
    public init(_ carrier: any Carrier) { self.carrier = carrier }

    /// Calls `method` and returns its answer.
    ///
    /// - Throws: `KithError` with the code the service, the node or the transport gave.
    public func call<M: Method>(
        _ method: M.Type, _ input: M.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> M.Output {
        try await carrier.call(method, input, on: device, options: traced(options))
    }

    /// Calls a query or an action by its name, also one that is known only at run time, here or on another device.
    ///
    /// - Throws: `KithError` `.unsupported` when the device that is asked does not know it; else as with a method's type.
    public func call(
        named name: String, _ input: JSONValue = [:], on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> JSONValue {
        let answer = try await carrier.call(
            named: name, json: JSONText.encode(input), on: device, options: traced(options))
        return try JSONText(scanned: answer).decode(JSONValue.self)
    }

    /// Opens a stream by its method's name.
    public func open(
        named name: String, _ input: JSONValue = [:], on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> any NamedStream {
        try await carrier.open(named: name, json: JSONText.encode(input), on: device, options: traced(options))
    }

    /// Opens a stream of `method`.
    public func open<M: StreamMethod>(
        _ method: M.Type, _ input: M.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<M> {
        try await carrier.open(method, input, on: device, options: traced(options))
    }

    /// Opens a stream of `method` for a caller that has much to send first: its writes need not wait for the service.
    ///
    /// Unlike ``open(_:_:on:options:)`` it is not tried again when the connection turns out to be dead: the stream then
    /// ends with `.closed`, and a caller that can send everything again may start over.
    public func begin<M: StreamMethod>(
        _ method: M.Type, _ input: M.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpeningStream<M.Output> {
        try await carrier.begin(method, input, on: device, options: traced(options))
    }

    func traced(_ options: CallOptions) -> CallOptions {
        guard let trace, options.trace == nil else { return options }
        var options = options
        options.trace = trace
        return options
    }
}
