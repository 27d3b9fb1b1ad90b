import Foundation
import KithRFB

/// A TCP socket on 127.0.0.1 that blocks at most for a given time.
final class LoopbackSocket {
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    let descriptor: Int32

    private init(_ descriptor: Int32) { self.descriptor = descriptor }

    deinit { close(descriptor) }

    private static func address(_ port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return address
    }

    private static func with(_ port: UInt16, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
        var address = address(port)
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }

    private static func make() throws -> LoopbackSocket {
        #if canImport(Darwin)
        let descriptor = socket(AF_INET, SOCK_STREAM, 0)
        #else
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        #endif
        guard descriptor >= 0 else { throw Failure(description: "no socket: \(errno)") }
        return LoopbackSocket(descriptor)
    }

    /// Connects to a port; `nil` when nobody listens there.
    static func connect(_ port: UInt16) throws -> LoopbackSocket? {
        let result = try make()
        return with(port, { Foundation.connect(result.descriptor, $0, $1) }) == 0 ? result : nil
    }

    /// Listens on a port of the system's choice.
    static func listen() throws -> (socket: LoopbackSocket, port: UInt16) {
        let result = try make()
        guard with(0, { bind(result.descriptor, $0, $1) }) == 0, Foundation.listen(result.descriptor, 4) == 0 else {
            throw Failure(description: "cannot listen: \(errno)")
        }
        var name = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let code = withUnsafeMutablePointer(to: &name) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(result.descriptor, $0, &length) }
        }
        guard code == 0 else { throw Failure(description: "no name: \(errno)") }
        return (result, UInt16(bigEndian: name.sin_port))
    }

    /// A port that was free a moment ago, for a program that cannot choose one itself.
    static func freePort() throws -> UInt16 { try listen().port }

    /// True when something can be read, after at most so many milliseconds.
    func isReadable(within milliseconds: Int32) -> Bool {
        var request = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&request, 1, milliseconds) > 0
    }

    /// The connection of the next that calls; `nil` when none does in time.
    func accept(within milliseconds: Int32) -> LoopbackSocket? {
        guard isReadable(within: milliseconds) else { return nil }
        let descriptor = Foundation.accept(descriptor, nil, nil)
        return descriptor >= 0 ? LoopbackSocket(descriptor) : nil
    }

    /// What arrives; empty when nothing does in time, `nil` at the end.
    func receive(within milliseconds: Int32) -> [UInt8]? {
        guard isReadable(within: milliseconds) else { return [] }
        var bytes = [UInt8](repeating: 0, count: 1 << 16)
        let count = read(descriptor, &bytes, bytes.count)
        return count > 0 ? Array(bytes[..<count]) : nil
    }

    func send(_ bytes: [UInt8]) throws {
        var start = 0
        while start < bytes.count {
            let count = bytes[start...].withUnsafeBytes {
                Foundation.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { throw Failure(description: "cannot send: \(errno)") }
            start += count
        }
    }
}
