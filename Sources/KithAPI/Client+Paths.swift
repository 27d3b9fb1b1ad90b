import KithRPC
import KithWire

/// Calls by the paths of methods, with the caller's own types.
///
/// ```swift
/// let eight: Double = try await client.request("math/add", Sum(a: 5, b: 3))
/// let there: Double = try await client.request("math/add", Sum(a: 5, b: 3), from: .device("laptop"))
/// ```
extension Client {
    /// Calls the query or the action at `path` and returns its answer.
    ///
    /// The types need not be the service's: what is sent and what is expected must only look alike.
    ///
    /// - Throws: `KithError` with the code the service, the node or the transport gave; `.unsupported` when nobody serves
    ///   the path.
    public func request<Input: Codable & Sendable, Output: Codable & Sendable>(
        _ path: String, _ input: Input, from provider: Provider = .any, as type: Output.Type = Output.self,
        options: CallOptions = CallOptions()
    ) async throws -> Output {
        try await carrier.request(path, input, from: provider, as: type, options: traced(options))
    }

    /// Calls the query or the action at `path`, which needs no input, and returns its answer.
    public func request<Output: Codable & Sendable>(
        _ path: String, from provider: Provider = .any, as type: Output.Type = Output.self,
        options: CallOptions = CallOptions()
    ) async throws -> Output {
        try await request(path, Nothing(), from: provider, as: type, options: options)
    }

    /// Opens the stream at `path`, and waits until the service has accepted it.
    ///
    /// What comes has the type `Incoming`, what is sent `Outgoing`: of ``Nothing`` flows nothing.
    public func open<Input: Codable & Sendable, Incoming: Codable & Sendable, Outgoing: Codable & Sendable>(
        _ path: String, _ input: Input, from provider: Provider = .any, options: CallOptions = CallOptions()
    ) async throws -> ValueStream<Incoming, Outgoing> {
        try await carrier.open(path: path, input, from: provider, options: traced(options))
    }
}

extension Carrier {
    /// Calls it as JSON, by its name.
    public func request<Input: Codable & Sendable, Output: Codable & Sendable>(
        _ path: String, _ input: Input, from provider: Provider, as type: Output.Type, options: CallOptions
    ) async throws -> Output {
        let answer = try await call(
            named: path, json: JSONText.encode(input), on: provider.on, options: options)
        do {
            return try JSONText.decode(type, from: answer)
        } catch {
            throw KithError(
                .corrupt,
                "The answer of \(path.prefix(bytes: 128)) is not what was expected: \(AnyMethod.Coding.reason(error))",
                cause: error)
        }
    }

    /// Opens it with messages as JSON, by its name.
    public func open<Input: Codable & Sendable, Incoming: Codable & Sendable, Outgoing: Codable & Sendable>(
        path: String, _ input: Input, from provider: Provider, options: CallOptions
    ) async throws -> ValueStream<Incoming, Outgoing> {
        ValueStream(
            try await open(named: path, json: JSONText.encode(input), on: provider.on, options: options))
    }
}
