import CKithSystem
import KithIO
import KithWire
import Synchronization

/// A connection to a message bus.
final class DBusConnection: Sendable {
    private let socket: WatchedSocket
    private let received = Mutex<[UInt8]>([])

    var descriptor: Int32 { socket.descriptor }

    init(path: String, on reactor: Reactor) throws(SystemError) {
        socket = try WatchedSocket(owning: unsafe kith_stream_connect_path(path), on: reactor)
    }

    func send(_ bytes: [UInt8]) throws(KithError) {
        guard Self.send(bytes, to: descriptor) else { throw KithError(.unreachable, "It takes nothing.") }
    }

    /// Sends bytes; one that has no room for them has stopped reading, and is as good as gone.
    static func send(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes {
                unsafe kith_stream_send(descriptor, $0.baseAddress, $0.count)
            }
            guard count > 0 else {
                _ = kith_stream_finish(descriptor)
                return false
            }
            rest = rest.dropFirst(count)
        }
        return true
    }

    /// Waits for a line; it is short.
    func line() async throws(KithError) -> [UInt8] {
        while true {
            let line = received.withLock { bytes -> [UInt8]? in
                guard let end = bytes.firstIndex(of: 10) else { return nil }
                defer { bytes.removeFirst(end + 1) }
                return Array(bytes[..<end])
            }
            if let line { return line }
            guard received.withLock({ $0.count }) <= 1_024, await read() else {
                throw KithError(.unreachable, "It says nothing.")
            }
        }
    }

    /// Waits for a message; `nil` at the end, or when the task is cancelled.
    ///
    /// - Throws: `KithError` `.invalid` for what is no message.
    func message() async throws(KithError) -> [UInt8]? {
        while true {
            let bytes = received.withLock { $0 }
            if let length = try DBusMessage.length(of: bytes), bytes.count >= length {
                received.withLock { $0.removeFirst(length) }
                return Array(bytes[..<length])
            }
            guard await read() else { return nil }
        }
    }

    /// Takes what is there, or waits for something; false at the end.
    private func read() async -> Bool {
        var buffer = [UInt8](repeating: 0, count: 4 << 10)
        while !Task.isCancelled {
            let count = unsafe buffer.withUnsafeMutableBytes {
                unsafe kith_stream_receive(descriptor, $0.baseAddress, $0.count)
            }
            if count > 0 {
                received.withLock { $0 += buffer[..<count] }
                return true
            }
            guard count < 0, SystemError(Int32(clamping: -count)).isWouldBlock else { return false }
            await socket.watch.wait(for: .reading)
        }
        return false
    }
}
