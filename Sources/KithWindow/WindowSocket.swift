import CKithSystem
import KithWire

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The socket between `kith` and its window's program: messages as CBOR behind their length (32 bits, highest byte first).
package enum WindowSocket {
    /// The most bytes of a message: the text of a clipboard, and its description.
    package static let sizeLimit = 12 << 20

    /// Sends a message, with a descriptor beside it when one is given; waits for room, so many milliseconds at most.
    ///
    /// - Throws: `KithError` `.exhausted` for a message that is too long, `.timedOut`, or `.closed` when nobody reads.
    package static func send(
        _ message: some Encodable, to socket: Int32, passing descriptor: Int32 = -1, milliseconds: Int32 = -1
    ) throws {
        let body = try CBOREncoder().encode(message)
        guard body.count <= sizeLimit else { throw KithError(.exhausted, "A message to a window has at most 12 MiB.") }
        var frame = ByteWriter(capacity: body.count + 4)
        frame.integer(UInt32(body.count))
        frame.bytes(body)
        let bytes = frame.bytes
        let status = unsafe bytes.withUnsafeBytes {
            unsafe kith_helper_send(socket, $0.baseAddress, $0.count, descriptor, milliseconds)
        }
        guard status == 0 else {
            throw status == -ETIMEDOUT
                ? KithError(.timedOut, "The window does not answer.") : KithError(.closed, "The window is gone.")
        }
    }

    /// Waits for a message, and the descriptor beside it, which is the caller's; `nil` when the other end has left.
    ///
    /// - Throws: for a message that is too long or makes no sense.
    package static func receive<Message: Decodable>(
        _ type: Message.Type, from socket: Int32
    ) throws -> (message: Message, descriptor: Int32?)? {
        var passed: Int32 = -1
        guard let head = bytes(4, from: socket, passed: &passed) else { return nil }
        do {
            let count = head.reduce(0) { $0 << 8 | Int($1) }
            guard count <= sizeLimit else { throw KithError(.invalid, "A message of a window is too long.") }
            var other: Int32 = -1
            guard let body = bytes(count, from: socket, passed: &other) else {
                if passed >= 0 { kith_socket_close(passed) }
                return nil
            }
            if other >= 0 { kith_socket_close(other) }
            return (try CBORDecoder().decode(type, from: body), passed < 0 ? nil : passed)
        } catch {
            if passed >= 0 { kith_socket_close(passed) }
            throw error
        }
    }

    private static func bytes(_ count: Int, from socket: Int32, passed: inout Int32) -> [UInt8]? {
        var bytes: [UInt8] = []
        // Memory is taken for what has come, not for what was announced.
        while bytes.count < count {
            var part = [UInt8](repeating: 0, count: min(count - bytes.count, 1 << 20))
            var descriptor: Int32 = -1
            let status = unsafe part.withUnsafeMutableBytes {
                unsafe kith_helper_receive(socket, $0.baseAddress, $0.count, &descriptor, -1)
            }
            if descriptor >= 0 {
                if passed >= 0 { kith_socket_close(passed) }
                passed = descriptor
            }
            guard status == 0 else { return nil }
            bytes += part
        }
        return bytes
    }
}
