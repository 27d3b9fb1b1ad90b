import KithAPI
import KithIO
import KithIdentity
import KithWire
import Synchronization

/// Carries calls of this device's own person to this device itself.
extension Node {
    /// Runs a query or an action here.
    ///
    /// `known` is the handler of that name, where it was looked up already.
    func callHere(
        _ name: String, _ input: Payload, options: CallOptions, known: Handler? = nil
    ) async throws -> Payload {
        let handler = try known ?? handler(name)
        guard case .call(let body) = handler.body else {
            throw KithError(.invalid, "\(name) cannot be called: it goes on both ways until it is ended.")
        }
        let value = try handler.method.input.decode(input)
        let scope = CallScope(timers: timers)
        _ = try calls.enter(scope)
        defer { end(scope) }
        let isReady = try handler.calls?.enter(scope) ?? true
        defer { handler.calls?.leave(scope) }
        let context = ownContext(options, handler)
        do {
            let output = try await scope.run(
                name, until: context.deadline, isImmediate: Self.mayBlock(#isolation)
            ) {
                if !isReady { try await handler.calls?.ready() }
                return try await self.counted(handler) {
                    try await self.observed(handler.method, context) { try await body(value, $0) }
                }
            }
            return try handler.method.output.encode(output, input.format)
        } catch {
            throw Self.outward(error)
        }
    }

    /// Tells whether the caller runs on a thread of the task pool, and not on an actor's, such as the main one, or on
    /// one that a network waits for.
    static func mayBlock(_ isolation: (any Actor)?) -> Bool {
        guard isolation == nil else { return false }
        return unsafe withUnsafeCurrentTask { task in
            guard let executor = unsafe task?.unownedTaskExecutor else { return true }
            return unsafe executor == globalConcurrentExecutor.asUnownedTaskExecutor()
        }
    }

    /// Serves a stream here until it is over.
    func serveHere(
        _ name: String, _ input: Payload, options: CallOptions, known: Handler? = nil,
        accept: @escaping @Sendable (Payload) async throws -> any ByteStream
    ) async throws {
        let handler = try known ?? handler(name)
        let value = try handler.method.input.decode(input)
        let scope = CallScope(timers: timers)
        _ = try calls.enter(scope)
        defer { end(scope) }
        let isReady = try handler.calls?.enter(scope) ?? true
        defer { handler.calls?.leave(scope) }
        // The deadline is for the acceptance; a stream that is accepted lasts as long as it lasts.
        try await serve(handler, value, context: ownContext(options, handler), scope: scope, isReady: isReady) {
            output in
            try await accept(try handler.method.output.encode(output, input.format))
        }
    }

    /// Opens a stream here, over a pipe.
    func openHere(
        _ name: String, _ input: Payload, options: CallOptions, known: Handler? = nil
    ) async throws -> (Payload, any ByteStream) {
        let opening = Promise<Result<(Payload, any ByteStream), any Error>>()
        let task = Task(name: name) {
            do {
                try await self.serveHere(name, input, options: options, known: known) { output in
                    let pipe = Pipe()
                    guard opening.fulfil(.success((output, pipe.left))) else { throw CancellationError() }
                    return pipe.right
                }
                opening.fulfil(.failure(KithError(.internal, "\(name) neither accepted the stream nor refused it.")))
            } catch {
                opening.fulfil(.failure(error))
            }
        }
        return try await withTaskCancellationHandler {
            try await opening.value().get()
        } onCancel: {
            if opening.fulfil(.failure(KithError(.cancelled, "The call was cancelled."))) { task.cancel() }
        }
    }

    /// Runs a stream handler; the stream ends when the handler does, and in the same way.
    func serve(
        _ handler: Handler, _ input: any Sendable, context: CallContext, scope: CallScope, isReady: Bool,
        accept: @escaping @Sendable (any Sendable) async throws -> any ByteStream
    ) async throws {
        guard case .stream(let body) = handler.body else {
            throw KithError(.invalid, "\(handler.method.name) is not for opening: call it.")
        }
        let accepted = Locked<(any ByteStream)?>(nil)
        let acceptance = context.deadline.map {
            scope.expire(at: $0, KithError(.timedOut, "There was no answer in time."))
        }
        defer { if let acceptance { timers.cancel(acceptance) } }
        if handler.endsAtShutdown { _ = try endless.enter(scope) }
        defer { if handler.endsAtShutdown { endless.leave(scope) } }
        do {
            try await scope.run(handler.method.name, until: nil) {
                if !isReady { try await handler.calls?.ready() }
                try await self.counted(handler) {
                    try await self.observed(handler.method, context) { context in
                        try await body(input, context) { output in
                            guard accepted.value == nil else {
                                throw KithError(.internal, "\(handler.method.name) accepted its stream twice.")
                            }
                            if let reason = scope.reason { throw reason }
                            let stream = try await accept(output)
                            accepted.set(stream)
                            if let acceptance { self.timers.cancel(acceptance) }
                            try scope.attach(stream)
                            return stream
                        }
                    }
                }
            }
            guard let stream = accepted.value else {
                throw KithError(
                    .internal, "\(handler.method.name) neither accepted the stream nor refused it.")
            }
            try? await stream.finish()  // finished already, or abandoned: as the handler wanted
        } catch {
            let error = Self.outward(error)
            accepted.value?.fail(error)
            throw error
        }
    }

    func ownContext(_ options: CallOptions, _ handler: Handler) -> CallContext {
        var context = CallContext(
            caller: .owner, grants: [], deadline: options.timeout.map { clock.now.advanced(by: $0) },
            trace: options.trace,
            client: client)
        context.protection = protection
        context.events = hub
        context.parameters = handler.parameters
        if let calls = handler.calls { context.logger = calls.logger }
        return context
    }

    /// Returns the error a caller sees; one of the node's own is logged here and becomes `internal`.
    static func outward(_ error: any Error) -> KithError {
        switch error {
        case let error as KithError: error
        case is CancellationError: KithError(.cancelled, "The call was cancelled.")
        case let error as WireError: KithError(.invalid, "The request is malformed.", cause: error)
        default: KithError(.internal, "The service failed.", cause: error)
        }
    }
}
