import CKithSystem
import Foundation
import KithIO

/// Standard input and output, each waited for on a thread of its own.
final class StandardStreams: Sendable {
    private let input = DispatchQueue(label: "kith input")
    private let output = DispatchQueue(label: "kith output")

    /// Waits for input; `nil` at its end.
    func read() async -> [UInt8]? {
        let bytes = Promise<[UInt8]?>()
        input.async {
            var count = 0
            kith_terminal_allow_stops()
            let buffer = unsafe [UInt8](unsafeUninitializedCapacity: 128 << 10) { buffer, initialized in
                repeat {
                    count = unsafe Foundation.read(STDIN_FILENO, buffer.baseAddress, buffer.count)
                } while count < 0 && errno == EINTR
                initialized = max(count, 0)
            }
            bytes.fulfil(count > 0 ? Array(buffer[...]) : nil)
        }
        return await bytes.value()
    }

    /// Writes all; returns whether somebody takes it.
    func write(_ bytes: [UInt8]) async -> Bool {
        let isTaken = Promise<Bool>()
        output.async {
            var offset = 0
            while offset < bytes.count {
                let count = unsafe bytes.withUnsafeBytes {
                    unsafe Foundation.write(STDOUT_FILENO, $0.baseAddress?.advanced(by: offset), $0.count - offset)
                }
                if count > 0 {
                    offset += count
                } else if count < 0, errno == EAGAIN {
                    // Somebody made it non-blocking for us all.
                    var poll = pollfd(fd: STDOUT_FILENO, events: Int16(POLLOUT), revents: 0)
                    _ = unsafe Foundation.poll(&poll, 1, -1)
                } else if count == 0 || errno != EINTR {
                    isTaken.fulfil(false)
                    return
                }
            }
            isTaken.fulfil(true)
        }
        return await isTaken.value()
    }

    /// Tells the reader of our output that nothing more comes.
    func finish() { output.sync { _ = close(STDOUT_FILENO) } }
}
