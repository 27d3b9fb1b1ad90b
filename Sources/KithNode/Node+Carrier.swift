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
        let coding = AnyMethod(method)
        guard case .cbor(let bytes) = try coding.input.encode(input, .cbor) else { throw Self.otherForm }
        let (output, stream) = try await open(coding, bytes, on: device, options: options)
        return OpenedStream(output: try Self.output(of: method, coding, .cbor(output)), stream: stream)
    }

    /// Opens a stream of another device without waiting for its service; one of this device answers at once.
    public func begin<M: StreamMethod>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> OpeningStream<M.Output> {
        guard let device else { return OpeningStream(try await open(method, input, on: nil, options: options)) }
        let coding = AnyMethod(method)
        guard case .cbor(let bytes) = try coding.input.encode(input, .cbor) else { throw Self.otherForm }
        let stream = try await begin(M.name, bytes, on: device, options: options)
        return OpeningStream(asked: M.name, over: stream) { try Self.output(of: method, coding, .cbor($0)) }
    }
}

extension Node {
    /// The answer of a call that never left this process.
    private static func value<M: Method>(of method: M.Type, _ payload: Payload) throws -> M.Output {
        guard case .value(let value) = payload, let output = value as? M.Output else { throw otherForm }
        return output
    }
}

extension Node: Dispatcher {
    package func entry(_ method: String) -> AnyMethod? { knownMethod(method) }

    package func dispatch(_ call: IncomingCall) async throws -> Payload {
        guard let device = call.device else {
            return try await callHere(call.method, call.input, options: call.options)
        }
        let method = try method(call.method)
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
        let method = try method(call.method)
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
