public import KithAPI
import KithIdentity
import KithWire

/// Handlers of methods that are declared where they are served: by a name within the service and the types of a closure.
///
/// ```swift
/// struct MathService: Service {
///     let info = ServiceInfo("math", version: "1.0.0", "Adds numbers.")
///     var handlers: [Handler] {
///         [.action("add") { (input: Sum, _) in input.a + input.b }]
///     }
/// }
/// ```
///
/// The name is one or more segments of a path, `add` or `users/{id}`; the values of the parameters are in
/// ``CallContext/parameters``. The types are `Codable`, and their schemas are learned from them. Without an `access`,
/// another device needs the grant `node:PATH`.
extension Handler {
    /// Serves a query: one answer, no effect.
    public static func query<Input: Codable & Sendable, Output: Codable & Sendable>(
        _ name: String, access: Access? = nil, _ summary: String = "",
        _ body: @escaping @Sendable (Input, CallContext) async throws -> Output
    ) -> Handler {
        short(name, .query, isIdempotent: true, access, summary, body)
    }

    /// Serves a query that needs no input.
    public static func query<Output: Codable & Sendable>(
        _ name: String, access: Access? = nil, _ summary: String = "",
        _ body: @escaping @Sendable (CallContext) async throws -> Output
    ) -> Handler {
        query(name, access: access, summary) { (_: Nothing, context) in try await body(context) }
    }

    /// Serves an action: one answer, with an effect.
    ///
    /// `isIdempotent`: calling it twice has the same effect as once, so that it may be tried again, elsewhere too.
    public static func action<Input: Codable & Sendable, Output: Codable & Sendable>(
        _ name: String, isIdempotent: Bool = false, access: Access? = nil, _ summary: String = "",
        _ body: @escaping @Sendable (Input, CallContext) async throws -> Output
    ) -> Handler {
        short(name, .action, isIdempotent: isIdempotent, access, summary, body)
    }

    /// Serves an action that needs no input.
    public static func action<Output: Codable & Sendable>(
        _ name: String, isIdempotent: Bool = false, access: Access? = nil, _ summary: String = "",
        _ body: @escaping @Sendable (CallContext) async throws -> Output
    ) -> Handler {
        action(name, isIdempotent: isIdempotent, access: access, summary) { (_: Nothing, context) in
            try await body(context)
        }
    }

    /// Serves a stream with messages both ways; the stream ends when the closure does.
    ///
    /// It is accepted before the closure runs. Of `Nothing` no message flows.
    public static func stream<
        Input: Codable & Sendable, Incoming: Codable & Sendable, Outgoing: Codable & Sendable
    >(
        _ name: String, isIdempotent: Bool = false, access: Access? = nil, _ summary: String = "",
        _ body: @escaping @Sendable (Input, CallContext, ValueStream<Incoming, Outgoing>) async throws -> Void
    ) -> Handler {
        let make: @Sendable (String) -> AnyMethod = { name in
            AnyMethod(
                MethodHeader(
                    name: name, kind: .stream, access: access, isIdempotent: isIdempotent, summary: summary),
                input: Input.self, output: Nothing.self, upstream: StreamItem<Incoming>.content,
                downstream: StreamItem<Outgoing>.content
            ) { _ in access ?? .granted(.node(pattern: name)) }
        }
        return Handler(
            relative: name, hasOwnGrant: access == nil, make: make,
            body: .stream { input, context, acceptance in
                let input: Input = try cast(input, of: name)
                try await body(input, context, ValueStream(try await acceptance(Nothing())))
            })
    }

    /// Serves a stream of what a sequence gives, as fast as the caller takes it; it ends when the sequence does.
    public static func stream<Input: Codable & Sendable, Elements: AsyncSequence & SendableMetatype>(
        _ name: String, isIdempotent: Bool = false, access: Access? = nil, _ summary: String = "",
        _ body: @escaping @Sendable (Input, CallContext) async throws -> Elements
    ) -> Handler where Elements.Element: Codable & Sendable, Elements.AsyncIterator: SendableMetatype {
        stream(name, isIdempotent: isIdempotent, access: access, summary) {
            (input: Input, context, stream: ValueStream<Nothing, Elements.Element>) in
            for try await element in try await body(input, context) { try await stream.send(element) }
        }
    }

    private static func short<Input: Codable & Sendable, Output: Codable & Sendable>(
        _ name: String, _ kind: MethodKind, isIdempotent: Bool, _ access: Access?, _ summary: String,
        _ body: @escaping @Sendable (Input, CallContext) async throws -> Output
    ) -> Handler {
        let make: @Sendable (String) -> AnyMethod = { name in
            AnyMethod(
                MethodHeader(name: name, kind: kind, access: access, isIdempotent: isIdempotent, summary: summary),
                input: Input.self, output: Output.self
            ) { _ in access ?? .granted(.node(pattern: name)) }
        }
        return Handler(
            relative: name, hasOwnGrant: access == nil, make: make,
            body: .call { input, context in try await body(try cast(input, of: name), context) })
    }

    private static func cast<Input>(_ input: any Sendable, of name: String) throws -> Input {
        guard let input = input as? Input else {
            throw KithError(.invalid, "The input of \(name) is of another type than the method's.")
        }
        return input
    }
}
