import KithRPC
import KithWire

/// The versions of the socket's protocol.
///
/// | version | since | what |
/// | --- | --- | --- |
/// | 1 | 2026-09 | `on`, `timeout`, `traceparent` inside `params`; a stream takes over its connection |
/// | 2 | 2026-11 | those beside `params`; streams share a connection unless they are asked for as `raw`; hello |
enum SocketProtocol {
    /// The method with which a caller says hello: `{"protocol": 2}`.
    static let hello = "rpc.hello"
    /// The method with which a program registers a service (``Registration``).
    static let register = "rpc.register"
    /// The name under which OpenRPC's tools ask a server for its description: `api.openrpc`.
    static let discover = "rpc.discover"
    /// The version this program speaks.
    static let version = 2

    private struct Hello: Codable {
        var `protocol`: Int
        /// The further features a caller may use: `streams` that share a connection; `raw`, those that take one over;
        /// `services` that a program registers; `errors`, the member of that name of a raw stream.
        var capabilities: [String]?
        /// Of a caller at the TCP port: the token that lets it in.
        var token: String?
        /// Of a device to such a caller: what only it knows.
        var proof: String?
    }

    /// The request that says hello, with the token that a TCP port asks for.
    static func request(id: RPCIdentifier, token: String? = nil) throws -> RPCRequest {
        RPCRequest(
            id: id, method: hello, params: try JSONText(encoding: Hello(protocol: version, token: token)))
    }

    /// The token in a caller's hello; `nil` when it is something else, or has none.
    static func token(of request: RPCRequest) -> String? {
        guard request.method == hello, request.id != nil else { return nil }
        return request.params?.members()?.first { $0.name == "token" }?.value.string
    }

    /// The answer of a server.
    static func answer(proof: String?) -> JSONText {
        let proof = proof.map { #","proof":"\#($0)""# } ?? ""
        return JSONText(
            scanned: Array(
                #"{"protocol":2,"capabilities":["streams","raw","services","errors"]\#(proof)}"#.utf8))
    }

    /// Checks what a server has answered.
    ///
    /// - Throws: `KithError` `.unsupported` when it speaks another version, or none it knows the name of; `.denied` when it
    ///   does not let the caller in, or does not know the `proof` that is expected.
    static func check(_ response: RPCResponse, proof: String? = nil) throws(KithError) {
        if case .failure(let error) = response.result, error.kithError.code == .denied {
            throw KithError(.denied, "The device did not accept the token: \(error.message)")
        }
        // What does not decode is of another version.
        if case .success(let text) = response.result, let hello = try? text.decode(Hello.self),
            hello.protocol == version
        {
            guard proof == nil || proof == hello.proof else {
                throw KithError(
                    .denied, "Another program than the device answers at its port. Start the device again.")
            }
            return
        }
        throw KithError(
            .unsupported,
            "The running device is of another version of Kith. Restart it: kith down; kith up")
    }
}
