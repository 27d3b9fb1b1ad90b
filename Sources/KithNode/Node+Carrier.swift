public import KithAPI
import KithWire

extension Node: Carrier {
    /// Calls a query or an action and waits for its answer.
    public func call<M: Method>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> M.Output {
        guard let device else {
            return try Self.value(of: method, try await callHere(M.name, .value(input), options: options))
        }
        if device == Provider.anyText {
            return try await anywhere(M.name, options) {
                try Self.value(of: method, try await self.callHere(M.name, .value(input), options: $0, known: $1))
            } there: {
                try await self.call(method, input, on: $0, options: $1)
            }
        }
        let coding = AnyMethod(method)
        guard case .cbor(let bytes) = try coding.input.encode(input, .cbor) else { throw Self.otherForm }
        return try Self.output(
            of: method, coding, .cbor(try await call(coding, bytes, on: device, options: options)))
    }

    /// Opens a stream and waits until the service accepted it.
    public func open<M: StreamMethod>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> OpenedStream<M> {
        guard let device else {
            let (output, stream) = try await openHere(M.name, .value(input), options: options)
            return OpenedStream(output: try Self.value(of: method, output), stream: stream)
        }
        if device == Provider.anyText {
            return try await anywhere(M.name, options) { options, _ in
                try await self.open(method, input, on: nil, options: options)
            } there: {
                try await self.open(method, input, on: $0, options: $1)
            }
        }
        let coding = AnyMethod(method)
        guard case .cbor(let bytes) = try coding.input.encode(input, .cbor) else { throw Self.otherForm }
        let (output, stream) = try await open(coding, bytes, on: device, options: options)
        return OpenedStream(output: try Self.output(of: method, coding, .cbor(output)), stream: stream)
    }

    /// Opens a stream of another device without waiting for its service; one of this device answers at once.
    public func begin<M: StreamMethod>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> OpeningStream<M.Output> {
        guard let device, device != Provider.anyText else {
            return OpeningStream(try await open(method, input, on: device, options: options))
        }
        let coding = AnyMethod(method)
        guard case .cbor(let bytes) = try coding.input.encode(input, .cbor) else { throw Self.otherForm }
        let stream = try await begin(M.header, bytes, on: device, options: options)
        return OpeningStream(asked: M.name, over: stream) { try Self.output(of: method, coding, .cbor($0)) }
    }
}

extension Node {
    /// Returns the answer of a call that never left this process.
    private static func value<M: Method>(of method: M.Type, _ payload: Payload) throws -> M.Output {
        guard case .value(let value) = payload else { throw otherForm }
        // Of a method that is known only at run time it has no type yet.
        if value is UntypedValue { return try Self.output(of: method, AnyMethod(method), payload) }
        guard let output = value as? M.Output else { throw otherForm }
        return output
    }

    /// Calls a query or an action by its name.
    public func call(named name: String, json: [UInt8], on device: String?, options: CallOptions) async throws
        -> [UInt8]
    {
        let call = IncomingCall(method: name, input: .json(json), device: device, options: options)
        guard case .json(let answer) = try await dispatch(call) else { throw Self.otherForm }
        return answer
    }

    /// Opens a stream by its name, and waits until the service accepted it.
    public func open(
        named name: String, json: [UInt8], on device: String?, options: CallOptions
    ) async throws -> any NamedStream {
        guard let device else {
            let method = try method(name)
            let (output, stream) = try await openHere(name, .json(json), options: options)
            return try Self.named(method, output, stream)
        }
        if device == Provider.anyText {
            return try await anywhere(name, options) { options, _ in
                try await self.open(named: name, json: json, on: nil, options: options)
            } there: {
                try await self.open(named: name, json: json, on: $0, options: $1)
            }
        }
        return try await asked(name, on: device) {
            let method = try await method(name, on: device, options: options)
            guard case .cbor(let input) = try method.input.convert(.json(json), to: .cbor) else { throw Self.otherForm }
            let (output, stream) = try await open(method, input, on: device, options: options)
            return try Self.named(method, .cbor(output), stream)
        }
    }

    private static func named(
        _ method: AnyMethod, _ output: Payload, _ stream: any ByteStream
    ) throws -> any NamedStream {
        guard case .json(let answer) = try method.output.convert(output, to: .json) else { throw otherForm }
        return TranscodedStream(stream, incoming: method.downstream, outgoing: method.upstream, answer: answer)
    }
}

extension Node: Dispatcher {
    package func entry(_ method: String) -> AnyMethod? { knownMethod(method) }

    package func entry(_ method: String, on device: String, options: CallOptions) async throws -> AnyMethod {
        device == Provider.anyText
            ? try await self.method(anywhere: method, options: options)
            : try await self.method(method, on: device, options: options)
    }

    package func add(_ service: any ExternalService) throws -> @Sendable (KithError) async -> Void {
        let handlers = ExternalHandlers(service)
        try handlers.check()
        let id = try add(handlers)
        return { [weak self] reason in await self?.remove(id, because: reason) }
    }

    package func dispatch(_ call: IncomingCall) async throws -> Payload {
        guard let device = call.device else {
            return try await callHere(call.method, call.input, options: call.options)
        }
        if device == Provider.anyText {
            return try await anywhere(call.method, call.options) { options, _ in
                try await self.dispatch(call.directed(to: nil, options))
            } there: {
                try await self.dispatch(call.directed(to: $0, $1))
            }
        }
        return try await asked(call.method, on: device) {
            try await self.pass(call, to: device)
        }
    }

    private func pass(_ call: IncomingCall, to device: String) async throws -> Payload {
        let method = try await method(call.method, on: device, options: call.options)
        guard method.kind != .stream else {
            throw KithError(.invalid, "\(call.method) cannot be called: it goes on both ways until it is ended.")
        }
        guard case .cbor(let input) = try method.input.convert(call.input, to: .cbor) else { throw Self.otherForm }
        let output = try await self.call(method, input, on: device, options: call.options)
        return try method.output.convert(.cbor(output), to: call.input.format)
    }

    package func dispatch(
        stream call: IncomingCall, accept: @escaping @Sendable (Payload) async throws -> any ByteStream
    ) async throws {
        guard let device = call.device else {
            return try await serveHere(call.method, call.input, options: call.options, accept: accept)
        }
        if device == Provider.anyText {
            // One that was accepted is not tried elsewhere.
            let isAccepted = Locked(false)
            let once: @Sendable (Payload) async throws -> any ByteStream = {
                isAccepted.set(true)
                return try await accept($0)
            }
            return try await anywhere(call.method, call.options) { options, _ in
                try await self.serve(call.directed(to: nil, options), isAccepted, accept: once)
            } there: {
                try await self.serve(call.directed(to: $0, $1), isAccepted, accept: once)
            }.get()
        }
        try await asked(call.method, on: device) {
            try await self.pass(stream: call, to: device, accept: accept)
        }
    }

    /// Serves a stream; its failure after the acceptance is a result.
    private func serve(
        _ call: IncomingCall, _ isAccepted: Locked<Bool>,
        accept: @escaping @Sendable (Payload) async throws -> any ByteStream
    ) async throws -> Result<Void, any Error> {
        do {
            return .success(try await dispatch(stream: call, accept: accept))
        } catch  where isAccepted.value {
            return .failure(error)
        }
    }

    private func pass(
        stream call: IncomingCall, to device: String,
        accept: @escaping @Sendable (Payload) async throws -> any ByteStream
    ) async throws {
        let method = try await method(call.method, on: device, options: call.options)
        guard method.kind == .stream else {
            throw KithError(.invalid, "\(call.method) is not for opening: call it.")
        }
        guard case .cbor(let input) = try method.input.convert(call.input, to: .cbor) else { throw Self.otherForm }
        let (output, far) = try await open(method, input, on: device, options: call.options)
        let near: any ByteStream
        do {
            near = try await accept(try method.output.convert(.cbor(output), to: call.input.format))
        } catch {
            far.abort(.cancelled)
            throw error
        }
        try await splice(near, far)
    }
}
