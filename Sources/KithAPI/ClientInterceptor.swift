import KithWire

/// The header of a call as its caller makes it, without its content.
public struct OutgoingCall: Hashable, Sendable {
    /// The method's name.
    public let method: String
    /// The kind of the method; of a call by its name alone, `.action`: it may be one.
    public let kind: MethodKind
    /// The device asked, as the caller names it; `nil` for this one.
    public let device: String?
    /// The time the answer may take, and the trace.
    public var options: CallOptions

    /// Makes a header.
    public init(method: String, kind: MethodKind, device: String?, options: CallOptions = CallOptions()) {
        self.method = method
        self.kind = kind
        self.device = device
        self.options = options
    }
}

/// What an interceptor does to have a call made, or served: the interceptors behind it, and at last the call itself.
///
/// A type, not a closure, so that a conformance reads the same whether or not its package has
/// `NonisolatedNonsendingByDefault`.
public struct NextCall<Call: Sendable>: Sendable {
    private let body: @Sendable (Call) async throws -> Void

    /// Makes one that runs `body`.
    public init(_ body: @escaping @Sendable (Call) async throws -> Void) { self.body = body }

    /// Has the call made.
    public func callAsFunction(_ call: Call) async throws { try await body(call) }
}

/// Work around each call of a client: a log, a time limit, a count, a trace.
///
/// ```swift
/// struct Patience: ClientInterceptor {
///     func intercept(_ call: OutgoingCall, next: NextCall<OutgoingCall>) async throws {
///         var call = call
///         call.options.timeout = call.options.timeout ?? .seconds(10)
///         try await next(call)
///     }
/// }
/// let client = device.client.intercepted(by: [Patience()])
/// ```
///
/// The first of several is the outermost. All run in the caller's task: when that is cancelled, `next` throws, and an
/// interceptor need only let it.
public protocol ClientInterceptor: Sendable {
    /// Makes a call by `next`, at most once, or refuses it by throwing.
    ///
    /// `next` returns when the call is answered or, of a stream, when the service has accepted it: the stream that follows is
    /// the caller's alone. What it throws may be replaced; a call whose `next` is not called must be refused.
    func intercept(_ call: OutgoingCall, next: NextCall<OutgoingCall>) async throws
}

extension Client {
    /// The same client, with `interceptors` around each of its calls; the first is the outermost.
    public func intercepted(by interceptors: [any ClientInterceptor]) -> Client {
        guard !interceptors.isEmpty else { return self }
        var client = Client(InterceptedCarrier(base: carrier, interceptors: interceptors))
        client.trace = trace
        return client
    }
}

/// Runs a chain of interceptors around `body`, and gives what it returned.
///
/// - Throws: what the chain throws; `KithError` `.internal` where it neither called `body` nor threw.
package func intercepted<Call: Sendable, Interceptor: Sendable, Result: Sendable>(
    _ call: Call, by interceptors: [Interceptor],
    with intercept:
        @escaping @Sendable (
            Interceptor, Call, _ next: NextCall<Call>
        ) async throws -> Void,
    _ body: @escaping @Sendable (Call) async throws -> Result
) async throws -> Result {
    if interceptors.isEmpty { return try await body(call) }
    let result = Locked<Result?>(nil)
    let isCalled = Once()
    var next = NextCall<Call> { call in
        guard isCalled.take() else { throw KithError(.internal, "An interceptor made one call twice.") }
        result.set(try await body(call))
    }
    for interceptor in interceptors.reversed() {
        next = NextCall { [next] call in try await intercept(interceptor, call, next) }
    }
    try await next(call)
    guard let result = result.value else {
        throw KithError(.internal, "An interceptor neither made the call nor refused it.")
    }
    return result
}

/// A carrier with interceptors around its calls.
struct InterceptedCarrier: CarrierWrapper {
    let base: any Carrier
    let interceptors: [any ClientInterceptor]

    func carry<Result: Sendable>(
        _ call: OutgoingCall, _ body: @escaping @Sendable (any Carrier, CallOptions) async throws -> Result
    ) async throws -> Result {
        try await intercepted(call, by: interceptors, with: { try await $0.intercept($1, next: $2) }) { [base] in
            try await body(base, $0.options)
        }
    }
}
