package import KithAPI
package import KithIdentity
package import KithRPC
package import KithSocket
import KithWire
package import Logging

/// Answers clients of Spacedrive: their names of operations, and their envelope, as calls of our methods.
///
/// Two doors lead to the same table. Among the methods of JSON-RPC stand the reference's names, with
/// `params` of `{"input", "library_id"}`; and a connection that begins with a line such as `"Ping"` or
/// `{"Query":{"method","library_id","payload"}}` speaks the reference's own envelope.
///
/// What this device cannot do is an error that says so, never an empty success. Neither side shapes the other: our
/// methods know nothing of this.
package final class CompatibilityAdapter: ForeignProtocol {
    let device: AdaptedDevice
    private let logger: Logger

    /// Makes an adapter.
    ///
    /// - Parameters:
    ///   - client: Calls this device as its own person.
    ///   - id: The device's key.
    ///   - name: The name it gives itself.
    ///   - directory: Its data directory.
    ///   - logger: Never told what is in a request.
    package init(client: Client, id: DeviceID, name: String, directory: String, logger: Logger) {
        device = AdaptedDevice(client: client, id: id, name: name, directory: directory)
        self.logger = logger
    }

    // MARK: - The names, in JSON-RPC

    /// Tells whether a method of JSON-RPC is a name of the reference.
    package func owns(_ method: String) -> Bool {
        (method.hasPrefix("query:") || method.hasPrefix("action:")) && OperationName(method) != nil
    }

    /// Answers a call with the parameters `{"input", "library_id"}`.
    package func answer(_ method: String, _ params: JSONText?) async throws -> JSONText {
        let params = try params?.value() ?? .null
        switch params {
        case .null, .object: break
        default: throw KithError(.invalid, "\(method): `params` must be an object with `input` and `library_id`.")
        }
        return try JSONText(
            encoding: try await run(method, params.member("input") ?? .null, library: params.member("library_id")))
    }

    // MARK: - The operations

    /// Runs an operation.
    ///
    /// - Parameters:
    ///   - method: Its name, of any form.
    ///   - input: Its input; `null` and `{}` are the same.
    ///   - library: The UUID of the library it is about.
    /// - Returns: what it answers.
    /// - Throws: `KithError` `.unsupported` for one that this device cannot do, `.invalid` and `.notFound` for a library
    ///   that is not one, and what our methods throw.
    func run(_ method: String, _ input: JSONValue, library: JSONValue?) async throws -> JSONValue {
        guard let name = OperationName(method), let operation = Operation.table[name] ?? Self.misnamed(name) else {
            if let reason = OperationName(method).flatMap({ RefusedOperation.reason(for: $0.name) }) {
                throw KithError(.unsupported, "This device cannot do \(method): \(reason).")
            }
            throw KithError(
                .unsupported,
                "This device cannot do \(method.prefix(OperationName.limit)). What it can, Documentation/Socket.md lists under “Clients of Spacedrive”."
            )
        }
        guard input == .null || { if case .object = input { true } else { false } }() else {
            throw KithError(.invalid, "\(operation.name): the input must be an object, or null.")
        }
        var scope: CompatibleID?
        if let library, library != .null {
            guard let id = library.text.flatMap({ CompatibleID($0) }) else {
                throw KithError(.invalid, "\(operation.name): `library_id` must be the UUID of a library.")
            }
            try await device.check(id)
            scope = id
        }
        if operation.scope == .library, scope == nil {
            throw KithError(.invalid, "\(operation.name): a `library_id` is needed; query:libraries.list lists them.")
        }
        return try await operation.run(
            Call(input: Fields(operation: operation.name, value: input), library: scope, device: device))
    }

    /// An operation that was called by the other of the two kinds: the reference does not check it either.
    private static func misnamed(_ name: OperationName) -> Operation? {
        Operation.table[OperationName(kind: name.kind == .query ? .action : .query, plain: name.name)]
    }

    // MARK: - The envelope

    /// Tells whether a first line is text, or an object whose only member begins with a capital letter.
    package func begins(with line: [UInt8]) -> Bool { Envelope.begins(with: line) }

    /// Serves a connection that speaks the reference's envelope: one request, or a subscription.
    package func serve(_ line: [UInt8], over exchange: LineExchange) async {
        await serve(line, sending: exchange)
    }

    /// Serves a request that came some other way.
    package func serve(_ line: [UInt8], sending sender: some LineSender) async {
        do {
            try await EnvelopeSession(self, sender).run(line)
        } catch {
            logger.debug("a client of another program is gone", metadata: ["error": "\(error)"])
        }
    }
}

extension LineExchange: LineSender {}
