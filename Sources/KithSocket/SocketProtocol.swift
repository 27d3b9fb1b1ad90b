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
    /// The version this program speaks.
    static let version = 2

    private struct Hello: Codable {
        var `protocol`: Int
        /// The further features a caller may use: `streams` that share a connection; `raw`, those that take one over;
        /// `services` that a program registers; `errors`, the member of that name of a raw stream.
        var capabilities: [String]?
    }

    /// The request that says hello.
    static func request(id: RPCIdentifier) throws -> RPCRequest {
        RPCRequest(id: id, method: hello, params: try JSONText(encoding: Hello(protocol: version)))
    }

    /// The answer of a server.
    static let answer = JSONText(
        scanned: Array(#"{"protocol":2,"capabilities":["streams","raw","services","errors"]}"#.utf8))

    /// Checks what a server has answered.
    ///
    /// - Throws: `KithError` `.unsupported` when it speaks another version, or none it knows the name of.
    static func check(_ response: RPCResponse) throws(KithError) {
        if case .success(let text) = response.result, let hello = try? text.decode(Hello.self),
            hello.protocol == version
        {
            return
        }
        throw KithError(
            .unsupported,
            "The running device is of another version of Kith. Restart it: kith down; kith up")
    }
}
