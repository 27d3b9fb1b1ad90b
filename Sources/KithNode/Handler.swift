public import KithAPI
import KithWire

/// One method of a service with the code that serves it.
///
/// ```swift
/// var handlers: [Handler] {
///     [
///         .call(Files.Stat.self) { input, context in try stat(input, allowedBy: context) },
///         .stream(Files.Read.self) { input, context, pending in
///             let file = try open(input, allowedBy: context)
///             let stream = try await pending.accept(file.entry)
///             …
///             try await stream.finish()
///         },
///     ]
/// }
/// ```
public struct Handler: Sendable {
    /// The method it serves.
    public let method: AnyMethod

    /// Accepts a stream: takes the erased output, gives the bytes.
    package typealias Acceptance = @Sendable (any Sendable) async throws -> any ByteStream

    /// The code, with the types erased.
    package enum Body: Sendable {
        case call(@Sendable (any Sendable, CallContext) async throws -> any Sendable)
        case stream(@Sendable (any Sendable, CallContext, @escaping Acceptance) async throws -> Void)
    }

    package let body: Body
    /// How many calls of it one device may have running; `nil`: as many as of all methods together.
    package private(set) var perDevice: Int?
    /// What runs of its service; `nil` while it belongs to none.
    var calls: ServiceCalls?

    private init(method: AnyMethod, body: Body) {
        self.method = method
        self.body = body
    }

    /// Lets one device have so many calls of it running at once, over all its connections; one more is `.exhausted`.
    ///
    /// For what costs more than its answer: threads, memory, the disk's time. The owner is not counted.
    public func limited(to perDevice: Int) -> Handler {
        precondition(perDevice > 0, "a method that nobody may call is not served at all")
        var limited = self
        limited.perDevice = perDevice
        return limited
    }

    /// Serves a query or an action.
    ///
    /// The task is cancelled when the caller goes away or its deadline passes.
    public static func call<M: Method>(
        _ method: M.Type, _ body: @escaping @Sendable (M.Input, CallContext) async throws -> M.Output
    ) -> Handler {
        precondition(M.header.kind != .stream, "\(M.name) is a stream: serve it with Handler.stream")
        return Handler(
            method: AnyMethod(method),
            body: .call { input, context in
                try await body(try Self.cast(input, for: method), context)
            })
    }

    /// Serves a stream.
    ///
    /// The task is cancelled when the caller goes away or its deadline passes.
    ///
    /// The stream is the handler's until it returns; one it leaves unfinished is finished then,
    /// and one it throws from is aborted with the error's code.
    public static func stream<M: StreamMethod>(
        _ method: M.Type, _ body: @escaping @Sendable (M.Input, CallContext, PendingStream<M>) async throws -> Void
    ) -> Handler {
        Handler(
            method: AnyMethod(method),
            body: .stream { input, context, acceptance in
                let pending = PendingStream<M> { output in try await acceptance(output) }
                try await body(try Self.cast(input, for: method), context, pending)
            })
    }

    private static func cast<M: Method>(_ input: any Sendable, for method: M.Type) throws -> M.Input {
        guard let input = input as? M.Input else {
            throw KithError(.invalid, "The input of \(M.name) is of another type than the method's.")
        }
        return input
    }
}
