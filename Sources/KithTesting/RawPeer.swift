#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif
import KithAPI
package import KithWire

/// A program at a device's socket that writes bytes and reads lines, right or wrong.
package final class RawPeer: Sendable {
    private let descriptor: Int32
    private let buffer = Locked<[UInt8]>([])

    /// Takes over a connection.
    package init(owning descriptor: Int32) {
        self.descriptor = descriptor
        _ = signal(SIGPIPE, SIG_IGN)
        // A test must not hold one of the few threads the server runs on as well.
        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
    }

    /// Connects to the socket in a data directory.
    package convenience init(_ directory: String) throws(KithError) {
        let path = Array((directory + "/kith.sock").utf8)
        #if canImport(Darwin)
        let descriptor = socket(AF_UNIX, SOCK_STREAM, 0)
        #else
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        #endif
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: path) }
        let status = unsafe withUnsafePointer(to: &address) {
            unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard status == 0 else { throw KithError(.unreachable, "errno \(errno)") }
        self.init(owning: descriptor)
    }

    deinit { close(descriptor) }

    /// Writes all of `text`, or as much as the other end takes before it goes.
    package func send(_ text: String) async { await send(bytes: Array(text.utf8)) }

    /// Writes all of `bytes`, or as much as the other end takes before it goes.
    package func send(bytes: [UInt8]) async {
        var offset = 0
        while offset < bytes.count {
            let count = unsafe bytes[offset...].withUnsafeBytes { unsafe write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EAGAIN {
                await Task.yield()
                continue
            }
            guard count > 0 else { return }
            offset += count
        }
    }

    /// Writes as much of `bytes` as the system takes now; returns how much that was.
    package func offer(_ bytes: [UInt8]) -> Int {
        let count = unsafe bytes.withUnsafeBytes { unsafe write(descriptor, $0.baseAddress, $0.count) }
        return max(count, 0)
    }

    /// Ends the connection at once.
    package func hangUp() { _ = shutdown(descriptor, Int32(SHUT_RDWR)) }

    /// Ends this direction.
    package func endSending() { _ = shutdown(descriptor, Int32(SHUT_WR)) }

    /// The next line, or what was left at the end, or when the test is called off.
    package func line() async -> String {
        var bytes = buffer.value
        while !bytes.contains(0x0A) {
            var chunk = [UInt8](repeating: 0, count: 65536)
            let count = unsafe read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EAGAIN, !Task.isCancelled {
                await Task.yield()
                continue
            }
            guard count > 0 else { break }
            bytes += chunk[..<count]
        }
        let end = bytes.firstIndex(of: 0x0A) ?? bytes.count
        buffer.set(Array(bytes[min(end + 1, bytes.count)...]))
        return String(decoding: bytes[..<end], as: UTF8.self)
    }
}
