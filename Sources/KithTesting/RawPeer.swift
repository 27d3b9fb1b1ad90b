#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif
package import KithWire
import Synchronization

/// A program at a device's socket that writes bytes and reads lines, right or wrong.
package final class RawPeer: Sendable {
    private let descriptor: Int32
    private let unread = Mutex(Unread())

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
        var (offset, attempts) = (0, 0)
        while offset < bytes.count {
            let count = unsafe bytes[offset...].withUnsafeBytes { unsafe write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EAGAIN {
                attempts += 1
                await Self.rest(after: attempts)
                continue
            }
            guard count > 0 else { return }
            (offset, attempts) = (offset + count, 0)
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
        var attempts = 0
        while true {
            if let line = unread.withLock({ $0.takeLine() }) { return line }
            var chunk = [UInt8](repeating: 0, count: 65536)
            let count = unsafe read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EAGAIN, !Task.isCancelled {
                attempts += 1
                await Self.rest(after: attempts)
                continue
            }
            guard count > 0 else { return unread.withLock { $0.takeRest() } }
            attempts = 0
            unread.withLock { $0.append(chunk[..<count]) }
        }
    }

    /// Lets others go on; one who waits long leaves them the processor, too.
    private static func rest(after attempts: Int) async {
        guard attempts > 100, !Task.isCancelled else { return await Task.yield() }
        // Called off meanwhile, the test finds that out by itself.
        try? await Task.sleep(for: .milliseconds(1))
    }

    /// Bytes that have come and were not taken.
    private struct Unread {
        private var bytes: [UInt8] = []
        /// Where the next line begins, and up to where there is no end of it.
        private var (start, searched) = (0, 0)

        mutating func append(_ more: ArraySlice<UInt8>) {
            if start > bytes.count / 2 {
                bytes.removeFirst(start)
                (start, searched) = (0, searched - start)
            }
            bytes += more
        }

        mutating func takeLine() -> String? {
            guard let end = bytes[searched...].firstIndex(of: 0x0A) else {
                searched = bytes.count
                return nil
            }
            defer { (start, searched) = (end + 1, end + 1) }
            return String(decoding: bytes[start..<end], as: UTF8.self)
        }

        mutating func takeRest() -> String {
            defer { (bytes, start, searched) = ([], 0, 0) }
            return String(decoding: bytes[start...], as: UTF8.self)
        }
    }
}
