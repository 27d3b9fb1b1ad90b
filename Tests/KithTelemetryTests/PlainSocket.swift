import KithTesting
import KithWire

#if canImport(Glibc)
import Glibc
#else
import Darwin
#endif

/// A TCP client that says one thing and listens until the other end hangs up.
enum PlainSocket {
    static func exchange(
        _ text: String, with address: NetworkAddress, heard: @escaping @Sendable (String) -> Void
    ) async throws {
        // It blocks, so not on a thread that the page may need.
        try await onThread { try block(text, address, heard) }
    }

    private static func block(_ text: String, _ address: NetworkAddress, _ heard: (String) -> Void) throws {
        #if canImport(Glibc)
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #else
        let descriptor = socket(AF_INET, SOCK_STREAM, 0)
        #endif
        defer { close(descriptor) }
        var name = sockaddr_in()
        name.sin_family = sa_family_t(AF_INET)
        name.sin_port = address.port.bigEndian
        name.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let isConnected = withUnsafePointer(to: &name) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        let bytes = Array(text.utf8)
        guard isConnected, send(descriptor, bytes, bytes.count, 0) == bytes.count else {
            throw KithError(.closed, "The page is not there.")
        }
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = recv(descriptor, &buffer, buffer.count, 0)
            guard count > 0 else { return }
            heard(String(decoding: buffer[..<count], as: UTF8.self))
        }
    }
}
