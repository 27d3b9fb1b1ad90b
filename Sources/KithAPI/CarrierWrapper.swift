/// A carrier over another one, through which every call goes, whatever its form.
///
/// A wrapper says only what it does around a call, so none can lose what a carrier can do.
package protocol CarrierWrapper: Carrier {
    /// Makes a call by `body`, which gets the carrier beneath and what may be asked of the call.
    func carry<Result: Sendable>(
        _ call: OutgoingCall, _ body: @escaping @Sendable (any Carrier, CallOptions) async throws -> Result
    ) async throws -> Result
}

extension CarrierWrapper {
    package func call<M: Method>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> M.Output {
        try await carry(OutgoingCall(method: M.name, kind: M.header.kind, device: device, options: options)) {
            try await $0.call(method, input, on: device, options: $1)
        }
    }

    package func open<M: StreamMethod>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> OpenedStream<M> {
        try await carry(OutgoingCall(method: M.name, kind: .stream, device: device, options: options)) {
            try await $0.open(method, input, on: device, options: $1)
        }
    }

    package func call(
        named name: String, json: [UInt8], on device: String?, options: CallOptions
    ) async throws -> [UInt8] {
        try await carry(OutgoingCall(method: name, kind: .action, device: device, options: options)) {
            try await $0.call(named: name, json: json, on: device, options: $1)
        }
    }

    package func open(
        named name: String, json: [UInt8], on device: String?, options: CallOptions
    ) async throws -> any NamedStream {
        try await carry(OutgoingCall(method: name, kind: .stream, device: device, options: options)) {
            try await $0.open(named: name, json: json, on: device, options: $1)
        }
    }

    package func request<Input: Codable & Sendable, Output: Codable & Sendable>(
        _ path: String, _ input: Input, from provider: Provider, as type: Output.Type, options: CallOptions
    ) async throws -> Output {
        try await carry(OutgoingCall(method: path, kind: .action, device: provider.on, options: options)) {
            try await $0.request(path, input, from: provider, as: type, options: $1)
        }
    }

    package func open<Input: Codable & Sendable, Incoming: Codable & Sendable, Outgoing: Codable & Sendable>(
        path: String, _ input: Input, from provider: Provider, options: CallOptions
    ) async throws -> ValueStream<Incoming, Outgoing> {
        try await carry(OutgoingCall(method: path, kind: .stream, device: provider.on, options: options)) {
            try await $0.open(path: path, input, from: provider, options: $1)
        }
    }

    package func begin<M: StreamMethod>(
        _ method: M.Type, _ input: M.Input, on device: String?, options: CallOptions
    ) async throws -> OpeningStream<M.Output> {
        try await carry(OutgoingCall(method: M.name, kind: .stream, device: device, options: options)) {
            try await $0.begin(method, input, on: device, options: $1)
        }
    }
}
