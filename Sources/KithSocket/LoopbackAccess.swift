package import KithWire

/// The loopback TCP port of a device: its listeners, and the file that names the port and the token.
package struct LoopbackAccess: Sendable {
    /// The port, the token, and where it listens.
    package let endpoint: APIEndpoint
    /// One for each loopback address that the machine has.
    package let listeners: [SocketListener]

    /// The time a new connection has to prove that it knows the token.
    private static let patience = Duration.seconds(5)
    /// The tries to find a port that is free at both addresses.
    private static let tries = 16

    /// Listens at 127.0.0.1 and ::1, and writes `api.json` into the data directory.
    ///
    /// Whoever calls this holds the lock of the data directory. The token is new each time.
    ///
    /// - Parameters:
    ///   - directory: The data directory.
    ///   - port: The port of both addresses; 0 for any that is free at both.
    ///   - patience: The time a new connection has to prove that it knows the token.
    /// - Returns: the listeners, whose callers wait until a server takes them.
    /// - Throws: `KithError` `.conflict` when the port is taken at one of them, `.denied` when the system refuses.
    package static func open(
        directory: String, port: UInt16, patience: Duration = patience
    ) throws(KithError) -> LoopbackAccess {
        let (descriptors, bound) = try listen(port)
        let endpoint = APIEndpoint(
            addresses: descriptors.map { $0.loopback.text(port: bound) }, port: bound, token: TokenGate.makeSecret(),
            proof: TokenGate.makeSecret(), protocol: SocketProtocol.version, pid: SocketPath.processNumber)
        try endpoint.write(directory: directory)
        let gate = TokenGate(token: endpoint.token, proof: endpoint.proof, patience: patience)
        return LoopbackAccess(
            endpoint: endpoint,
            listeners: descriptors.map { loopback, descriptor in
                SocketListener(
                    descriptor, name: loopback.text(port: bound), gate: gate,
                    remove: { APIEndpoint.remove(directory: directory) })
            })
    }

    private typealias Listening = (loopback: SocketDescriptor.Loopback, descriptor: SocketDescriptor)

    /// Listens at the same port of both addresses: at one that were left out another user's program could pose as this.
    private static func listen(_ port: UInt16) throws(KithError) -> ([Listening], port: UInt16) {
        var failure: KithError?
        for _ in 0..<(port == 0 ? tries : 1) {
            guard let (first, bound) = try SocketDescriptor.listen(.ipv4, port: port) else {
                throw KithError(.unsupported, "This machine has no address 127.0.0.1 to listen at.")
            }
            do throws(KithError) {
                guard let (second, _) = try SocketDescriptor.listen(.ipv6, port: bound) else {
                    return ([(.ipv4, first)], bound)
                }
                return ([(.ipv4, first), (.ipv6, second)], bound)
            } catch {
                failure = error
                guard error.code == .conflict else { throw error }
            }
        }
        throw failure ?? KithError(.exhausted, "No port is free at both loopback addresses.")
    }
}
