import KithAPI
import KithIO
import KithRPC
import KithWire

/// Where a carrier finds its device.
enum SocketTarget: Hashable, Sendable, CustomStringConvertible {
    /// The Unix socket at a path.
    case unix(path: String)
    /// A port of 127.0.0.1, the token that lets a caller in, and what the device must answer.
    case loopback(port: UInt16, token: String, proof: String?)

    /// The longest line of a device, in bytes: it may say more than a caller may.
    static let lineLimit = 4 * LineFramer.defaultLimit
    /// The time a device has to let a caller in.
    static let patience = Duration.seconds(10)

    /// Its name for a person.
    var description: String {
        switch self {
        case .unix(let path): path
        case .loopback(let port, _, _): SocketDescriptor.Loopback.ipv4.text(port: port)
        }
    }

    /// Opens a connection on which calls may be made; `nil` when no device listens.
    func connect(on reactor: Reactor) async throws -> LineConnection? {
        switch self {
        case .unix(let path):
            guard let descriptor = try SocketDescriptor.connect(to: path) else { return nil }
            return try LineConnection(descriptor, on: reactor, lineLimit: Self.lineLimit)
        case .loopback(let port, let token, let proof):
            let descriptor: SocketDescriptor
            do throws(KithError) {
                descriptor = try SocketDescriptor.connect(loopbackPort: port)
            } catch {
                guard error.code == .notFound else { throw error }
                return nil
            }
            let connection = try LineConnection(descriptor, on: reactor, lineLimit: Self.lineLimit)
            do {
                return try await withDeadline(Self.patience) {
                    await connection.watch.wait(for: .writing)
                    try Task.checkCancellation()
                    do throws(KithError) {
                        try descriptor.checkConnection(toPort: port)
                    } catch {
                        guard error.code == .notFound else { throw error }
                        return nil
                    }
                    try await Self.sayHello(connection, token, proof)
                    return connection
                }
            } catch {
                descriptor.shutDown()
                throw error
            }
        }
    }

    /// Says the token, and checks the answer.
    private static func sayHello(_ connection: LineConnection, _ token: String, _ proof: String?) async throws {
        try await connection.send(try SocketProtocol.request(id: .number("0"), token: token).json)
        guard let line = try await connection.nextLine() else {
            throw KithError(.closed, "The device closed the connection before it answered.")
        }
        guard case .single(.response(let response)) = RPCPacket(parsing: line) else {
            throw KithError(.corrupt, "What listens at the device's port answered with something else.")
        }
        try SocketProtocol.check(response, proof: proof)
    }
}
