import CKithSystem
import Foundation
import KithAPI
package import KithIO
package import KithWire
import Synchronization

/// A TCP connection, or one of a Unix socket, as a stream of bytes.
///
/// A finished direction is a FIN, an abandoned stream a RST. The socket is closed when the last reference goes; without
/// both directions having ended, as abandoned.
package final class StreamSocket: ByteStream {
    /// Its number, which lives as long as this.
    package let descriptor: Int32
    private let watch: Watch
    private let state = Mutex(State())

    private struct State {
        var aborted: KithError?
        var hasFinished = false
        var hasEnded = false
    }

    /// The room the next read makes, in bytes; only the one reading task touches it.
    ///
    /// What was read may wait somewhere as it is: keystrokes must not hold the room for bulk.
    private final class Room: @unchecked Sendable {  // one reader at a time is the contract of `ByteStream`
        var size = 8 << 10
    }
    private let room = Room()
    private static let largestRead = 256 << 10

    /// The address of the other end of an accepted TCP connection.
    package let peer: NetworkAddress?

    /// Takes over an open descriptor; it is closed when this throws.
    package init(owning descriptor: Int32, on reactor: Reactor, peer: NetworkAddress? = nil) throws(KithError) {
        self.peer = peer
        do {
            watch = try reactor.watch(connection: descriptor)
        } catch {
            kith_socket_close(descriptor)
            throw error
        }
        self.descriptor = descriptor
    }

    deinit {
        watch.close()
        let isOver = state.withLock { $0.hasFinished && $0.hasEnded && $0.aborted == nil }
        if !isOver { kith_stream_abort_on_close(descriptor) }
        kith_socket_close(descriptor)
    }

    /// The address of this end; `nil` of a Unix socket.
    package var local: NetworkAddress? {
        var address = kith_udp_address()
        return unsafe kith_udp_local(descriptor, &address) == 0 ? NetworkAddress(address) : nil
    }

    /// Waits until a connection that was begun stands.
    package func connected() async throws(SystemError) {
        await watch.wait(for: .writing)
        let status = kith_stream_outcome(descriptor)
        guard status == 0 else { throw SystemError(-status) }
        if Task.isCancelled { throw SystemError(ECANCELED) }
    }

    package func read(upTo limit: Int) async throws -> [UInt8]? {
        precondition(limit > 0, "read(upTo:) needs room for at least one byte")
        while true {
            try Task.checkCancellation()
            let hasEnded = try state.withLock { state throws -> Bool in
                if let error = state.aborted { throw error }
                return state.hasEnded
            }
            if hasEnded { return nil }
            var count = 0
            let bytes = unsafe [UInt8](unsafeUninitializedCapacity: min(limit, room.size)) {
                buffer, initialized in
                count = unsafe kith_stream_receive(descriptor, buffer.baseAddress, buffer.count)
                initialized = max(count, 0)
            }
            if count > 0 {
                if count == room.size, room.size < Self.largestRead {
                    room.size *= 2
                } else if count < room.size / 4, room.size > 8 << 10 {
                    room.size /= 2
                    return Array(bytes[...])
                }
                return bytes
            }
            if count == 0 {
                state.withLock { $0.hasEnded = true }
                return nil
            }
            let error = SystemError(Int32(-count))
            guard error.isWouldBlock else { throw fail(error) }
            await watch.wait(for: .reading)
        }
    }

    package func write(_ bytes: [UInt8]) async throws {
        var offset = 0
        while offset < bytes.count {
            try Task.checkCancellation()
            if let error = state.withLock({ $0.aborted }) { throw error }
            let count = unsafe bytes.withUnsafeBytes { bytes in
                let rest = unsafe UnsafeRawBufferPointer(rebasing: bytes[offset...])
                return unsafe kith_stream_send(descriptor, rest.baseAddress, rest.count)
            }
            if count > 0 {
                offset += count
                continue
            }
            let error = SystemError(Int32(-count))
            guard error.isWouldBlock || error.number == ENOBUFS else { throw fail(error) }
            await watch.wait(for: .writing)
        }
    }

    package func finish() async throws {
        let isFirst = try state.withLock { state throws -> Bool in
            if let error = state.aborted { throw error }
            defer { state.hasFinished = true }
            return !state.hasFinished
        }
        guard isFirst else { return }
        let status = kith_stream_finish(descriptor)
        // The other end may be gone altogether, and wants no end then.
        if status < 0, -status != ENOTCONN { throw fail(SystemError(-status)) }
    }

    package func abort(_ code: KithError.Code) {
        state.withLock { state in
            guard state.aborted == nil, !(state.hasFinished && state.hasEnded) else { return }
            state.aborted = KithError(code, "The connection was abandoned (\(code.rawValue)).")
        }
        // Whoever waits lets go of the socket, and the last to do so resets the connection.
        watch.close()
    }

    private func fail(_ error: SystemError) -> KithError {
        let failure = KithError(.closed, "The connection failed: \(error).")
        return state.withLock { state in
            if state.aborted == nil { state.aborted = failure }
            return state.aborted ?? failure
        }
    }
}
