import KithIO
package import KithRPC
import KithWire

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// A connection to a device on which a program says lines of its own, right or wrong, and reads what is answered.
package final class LineClient: Sendable {
    private let connection: LineConnection

    private init(_ connection: LineConnection) { self.connection = connection }

    deinit { connection.descriptor.shutDown() }

    /// Connects to the device that runs on a data directory; `nil` when none does.
    package static func connect(directory: String) async throws -> LineClient? {
        guard let path = SocketPath.forConnecting(in: directory) else { return nil }
        return try await SocketTarget.unix(path: path).connect(on: try .forSockets()).map { LineClient($0) }
    }

    /// Sends a line whole.
    package func send(_ text: JSONText) async throws { try await connection.send(text.bytes) }

    /// Says that nothing more comes; what was asked is answered all the same.
    package func endSending() { _ = shutdown(connection.descriptor.number, Int32(SHUT_WR)) }

    /// Waits for the next line; `nil` at the end.
    package func next() async throws -> [UInt8]? { try await connection.nextLine() }
}
