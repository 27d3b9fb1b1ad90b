import KithIO
package import KithRPC

/// A protocol of other programs that a server speaks beside its own.
///
/// It has two doors: names of its own among the methods of JSON-RPC, and connections that begin with a line of its own.
package protocol ForeignProtocol: Sendable {
    /// Tells whether a method of JSON-RPC is one of its names.
    func owns(_ method: String) -> Bool

    /// Answers a call of such a method.
    ///
    /// - Parameters:
    ///   - method: The name.
    ///   - params: The parameters; `nil` when there are none.
    /// - Returns: the result.
    /// - Throws: as a method does.
    func answer(_ method: String, _ params: JSONText?) async throws -> JSONText

    /// Tells whether a connection with this first line is one of its own.
    func begins(with line: [UInt8]) -> Bool

    /// Serves such a connection, which is closed when this returns.
    ///
    /// The task is cancelled when the caller closes the connection, and when the server stops.
    func serve(_ line: [UInt8], over exchange: LineExchange) async
}

/// A connection that carries lines, as a foreign protocol uses it.
package struct LineExchange: Sendable {
    let connection: LineConnection

    /// Sends a line whole, after those before it.
    ///
    /// - Throws: `KithError` `.closed` when the other end is gone.
    package func send(_ line: [UInt8]) async throws { try await connection.send(line) }

    /// Waits for the next line; `nil` at the end.
    ///
    /// One task at a time.
    package func next() async throws -> [UInt8]? { try await connection.nextLine() }
}
