public import KithAPI
public import KithRPC
import KithIO
import KithWire

/// A method of a service with the code that serves it.
///
/// ```swift
/// var handlers: [Handler] {
///     [
///         .call(Lamp.Change.self) { input, _ in
///             await lamp.set(input.value)
///             return Nothing()
///         },
///         .stream(Lamp.Watch.self) { _, _, pending in
///             let stream = try await pending.accept()
///             for await change in lamp.changes.stream { try await stream.send(change) }
///             try await stream.finish()
///         },
///     ]
/// }
/// ```
public struct Handler: Sendable {
    /// The method it serves.
    public var method: AnyMethod { content.method }

    /// Accepts a stream: takes the erased output, returns the bytes.
    package typealias Acceptance = @Sendable (any Sendable) async throws -> any ByteStream

    /// The code, with the types erased.
    package enum Body: Sendable {
        case call(@Sendable (any Sendable, CallContext) async throws -> any Sendable)
        case stream(@Sendable (any Sendable, CallContext, @escaping Acceptance) async throws -> Void)
        /// Nobody calls it: it reacts to events.
        case events(EventHandler)
    }

    private struct Content: Sendable {
        var method: AnyMethod
        let body: Body
        var perDevice: Int?
        var calls: ServiceCalls?
        var statistics = ActionStatistics()
        var hasOwnGrant = false
        var isRoutine = false
        var endsAtShutdown = false
        /// Makes the method under its full name; `nil` when it has that already.
        var make: (@Sendable (String) -> AnyMethod)?
    }

    /// What does not change from call to call: a table hands out one reference.
    private final class Storage: Sendable {
        let content: Content

        init(_ content: Content) { self.content = content }
    }

    private var storage: Storage
    private var content: Content {
        _read { yield storage.content }
        _modify {
            var content = storage.content
            defer { storage = Storage(content) }
            yield &content
        }
    }

    package var body: Body { content.body }
    /// The most calls of the method that one device may have running; `nil`: as many as of all methods together.
    package var perDevice: Int? { content.perDevice }
    /// The running calls of its service; `nil` while it belongs to none.
    var calls: ServiceCalls? { content.calls }
    /// The counts of its calls.
    var statistics: ActionStatistics { content.statistics }
    /// The values of the parameters in its path, of one that was found by a template.
    var parameters: [String: String] = [:]
    /// True when it needs the grant of its own path, that of the call where the path is a template.
    var hasOwnGrant: Bool { content.hasOwnGrant }
    /// True when a call of it is not worth a line in the audit log, because every connection makes one.
    var isRoutine: Bool { content.isRoutine }
    /// True when its streams end as soon as the device begins to stop.
    var endsAtShutdown: Bool { content.endsAtShutdown }

    private init(method: AnyMethod, body: Body) {
        storage = Storage(Content(method: method, body: body))
    }

    /// A handler whose method gets its name from the service that has it.
    init(relative name: String, hasOwnGrant: Bool, make: @escaping @Sendable (String) -> AnyMethod, body: Body) {
        storage = Storage(Content(method: make(name), body: body, hasOwnGrant: hasOwnGrant, make: make))
    }

    /// The same handler as one of the service at `path`, with counts of its own.
    ///
    /// - Throws: `KithError` `.invalid` when its name and the path make no path of a method.
    func added(to path: TopicPath, calls: ServiceCalls) throws -> Handler {
        var handler = self
        if let make = content.make {
            handler.content.method = make(try path.member(method.name).methodName)
            handler.content.make = nil
        }
        handler.content.calls = calls
        handler.content.statistics = ActionStatistics()
        return handler
    }

    /// The access that a call with this input needs, under the name by which it was called.
    func access(_ input: any Sendable, calledAs name: String) throws -> Access {
        guard hasOwnGrant, !parameters.isEmpty else { return try method.access(input) }
        return .granted(.node(pattern: name))
    }

    /// Leaves its calls out of the audit log.
    package func unaudited() -> Handler {
        var handler = self
        handler.content.isRoutine = true
        return handler
    }

    /// Makes a handler that nobody calls.
    init(reactingTo events: EventHandler) {
        self.init(
            method: AnyMethod(DynamicMethod(.stream(events.pattern, by: .owner, "Reacts to events."))),
            body: .events(events))
    }

    /// What it does at events; `nil` for one that is called.
    var events: EventHandler? { if case .events(let events) = body { events } else { nil } }

    /// Limits the calls of it that one device may have running, over all its connections; one more is `.exhausted`.
    ///
    /// For methods that cost more than their answer: threads, memory, disk time. The owner is not counted.
    public func limited(to perDevice: Int) -> Handler {
        precondition(perDevice > 0, "a method that nobody may call is not served at all")
        var limited = self
        limited.content.perDevice = perDevice
        return limited
    }

    /// Ends its streams, with `.closed`, as soon as the device begins to stop, rather than when the calls that run have
    /// had their time.
    ///
    /// For streams that tell what happens and would go on for ever: nothing is lost with them, and whoever listens is to
    /// ask again.
    public func endingAtShutdown() -> Handler {
        precondition(method.kind == .stream, "a call that ends in the middle is not answered")
        var ending = self
        ending.content.endsAtShutdown = true
        return ending
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
    /// and one it throws from is aborted with the error.
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

    /// Serves a query or an action that is known only at run time, with JSON in and out.
    ///
    /// The task is cancelled when the caller goes away or its deadline passes.
    public static func call(
        _ method: DynamicMethod, _ body: @escaping @Sendable (JSONValue, CallContext) async throws -> JSONValue
    ) -> Handler {
        precondition(method.header.kind != .stream, "\(method.name) is a stream: serve it with Handler.stream")
        return Handler(
            method: AnyMethod(method),
            body: .call { input, context in
                let output = try await body(try await Self.json(input, method).decode(JSONValue.self), context)
                return UntypedValue(try JSONText(encoding: output))
            })
    }

    /// Serves a stream that is known only at run time.
    ///
    /// `accept` answers and gives the service's end; call it once. As with streams whose types are known, a handler that
    /// throws before refuses the stream, and one that throws after aborts it.
    public static func stream(
        _ method: DynamicMethod,
        _ body:
            @escaping @Sendable (
                _ input: JSONValue, CallContext,
                _ accept: @escaping @Sendable (JSONValue) async throws -> any NamedStream
            ) async throws -> Void
    ) -> Handler {
        precondition(method.header.kind == .stream, "\(method.name) is no stream: serve it with Handler.call")
        return Handler(
            method: AnyMethod(method),
            body: .stream { input, context, acceptance in
                try await body(try await Self.json(input, method).decode(JSONValue.self), context) { output in
                    TranscodedStream(
                        try await acceptance(UntypedValue(try JSONText(encoding: output))),
                        incoming: method.upstream, outgoing: method.downstream)
                }
            })
    }

    /// Has a method served by another process.
    static func external(_ method: DynamicMethod, by service: any ExternalService) -> Handler {
        @Sendable func call(_ input: any Sendable, _ context: CallContext) async throws -> ExternalCall {
            var caller: (id: String, name: String)?
            if case .device(let id, let name, _) = context.caller { caller = (id.description, name) }
            return ExternalCall(
                method: method, input: try await json(input, method), caller: caller,
                options: CallOptions(timeout: context.deadline.map { $0 - .now }, trace: context.trace))
        }
        let body: Body =
            method.header.kind == .stream
            ? .stream { input, context, acceptance in
                try await service.serve(call(input, context)) { try await acceptance(UntypedValue($0)) }
            }
            : .call { input, context in UntypedValue(try await service.call(call(input, context))) }
        return Handler(method: AnyMethod(method), body: body)
    }

    /// The input as JSON, once it is as the method declares.
    private static func json(_ input: any Sendable, _ method: DynamicMethod) async throws -> JSONText {
        guard let input = input as? UntypedValue else {
            throw KithError(.invalid, "The input of \(method.name) is of another type than the method's.")
        }
        if try !isChecked(input.value, method) {
            try await longChecks.lockUnlessCancelled()
            defer { longChecks.unlock() }
            try method.input.check(input.value, as: "params")
        }
        return input.json
    }

    /// Checks an input; false when that takes long and is left undone.
    private static func isChecked(_ input: ParsedJSON, _ method: DynamicMethod) throws(KithError) -> Bool {
        do {
            try method.input.check(input, as: "params", steps: SchemaCheck.shortLimit)
            return true
        } catch {
            if error.code == .exhausted { return false }
            throw error
        }
    }

    /// Held by the one check that takes long: callers must not be able to keep every thread of the process busy with them.
    private static let longChecks = AsyncMutex()

    private static func cast<M: Method>(_ input: any Sendable, for method: M.Type) throws -> M.Input {
        guard let input = input as? M.Input else {
            throw KithError(.invalid, "The input of \(M.name) is of another type than the method's.")
        }
        return input
    }
}
