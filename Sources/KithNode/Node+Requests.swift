public import KithAPI
import KithWire

/// Calls by the paths of methods, with the caller's own types.
extension Node {
    /// Calls the query or the action at a path, here or on another device.
    public func request<Input: Codable & Sendable, Output: Codable & Sendable>(
        _ path: String, _ input: Input, from provider: Provider, as type: Output.Type, options: CallOptions
    ) async throws -> Output {
        switch provider {
        case .thisDevice, .any:
            guard case .value(let value) = try await callHere(path, .value(input), options: options) else {
                throw Self.otherForm
            }
            return try Self.own(type, value, of: path)
        case .device(let device):
            return try await asked(path, on: device) {
                let method = try await method(path, on: device, options: options)
                let bytes = try CBOREncoder().encode(input)
                return try Self.own(
                    type, cbor: try await call(method, bytes, on: device, options: options), of: path)
            }
        }
    }

    /// Opens the stream at a path, here or on another device.
    public func open<Input: Codable & Sendable, Incoming: Codable & Sendable, Outgoing: Codable & Sendable>(
        path: String, _ input: Input, from provider: Provider, options: CallOptions
    ) async throws -> ValueStream<Incoming, Outgoing> {
        switch provider {
        case .thisDevice, .any: return ValueStream(try await openHere(path, .value(input), options: options).1)
        case .device(let device):
            return try await asked(path, on: device) {
                let method = try await method(path, on: device, options: options)
                let bytes = try CBOREncoder().encode(input)
                return ValueStream(try await open(method, bytes, on: device, options: options).stream)
            }
        }
    }

    /// The answer of a service in this process, as the caller's type.
    private static func own<Output: Codable & Sendable>(
        _ type: Output.Type, _ value: any Sendable, of path: String
    ) throws -> Output {
        if let output = value as? Output { return output }
        guard let value = value as? any Encodable else { throw otherForm }
        return try own(type, cbor: CBOREncoder().encode(value), of: path)
    }

    private static func own<Output: Codable & Sendable>(
        _ type: Output.Type, cbor bytes: [UInt8], of path: String
    ) throws -> Output {
        do {
            return try CBORDecoder().decode(type, from: bytes)
        } catch {
            throw KithError(
                .corrupt, "The answer of \(path.prefix(bytes: 128)) is not of the type the caller expects.",
                cause: error)
        }
    }
}
