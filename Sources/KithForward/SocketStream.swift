import CKithSystem
import Foundation
import KithAPI
import KithIO
import KithNode
import KithWire
import Synchronization

/// A TCP connection, or one of a Unix socket, as a stream of bytes.
///
/// A finished direction is a FIN, an abandoned stream a RST. The socket is closed when the last reference goes; without
/// both directions having ended, as abandoned.
final class SocketStream: ByteStream {
    private let descriptor: Int32
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
    let peer: NetworkAddress?

    /// Takes over an open descriptor; it is closed when this throws.
    init(owning descriptor: Int32, on reactor: Reactor, peer: NetworkAddress? = nil) throws(KithError) {
        self.peer = peer
        do {
            watch = try reactor.watch(socket: descriptor)
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
    var local: NetworkAddress? {
        var address = kith_udp_address()
        return unsafe kith_udp_local(descriptor, &address) == 0 ? NetworkAddress(address) : nil
    }

    /// Waits until a connection that was begun stands.
    func connected() async throws(SystemError) {
        await watch.wait(for: .writing)
        let status = kith_stream_outcome(descriptor)
        guard status == 0 else { throw SystemError(-status) }
        if Task.isCancelled { throw SystemError(ECANCELED) }
    }

    func read(upTo limit: Int) async throws -> [UInt8]? {
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

    func write(_ bytes: [UInt8]) async throws {
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

    func finish() async throws {
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

    func abort(_ code: KithError.Code) {
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

/// A socket that takes connections.
final class SocketListener: Sendable {
    /// The endpoint it listens at, with the actual port.
    let endpoint: Forward.Endpoint
    private let descriptor: Int32
    private let reactor: Reactor
    private let watch: Watch
    /// Takes the name of a Unix socket away.
    private let unlink: (@Sendable () -> Void)?

    /// Listens at an address.
    convenience init(at address: NetworkAddress, on reactor: Reactor) throws(KithError) {
        var wanted = kith_udp_address(address)
        let descriptor = unsafe kith_stream_listen(&wanted, 512)
        guard descriptor >= 0 else { throw Self.failure(SystemError(-descriptor), "\(address)") }
        var actual = kith_udp_address()
        _ = unsafe kith_udp_local(descriptor, &actual)
        try self.init(descriptor, .address(NetworkAddress(actual)), reactor, unlink: nil)
    }

    /// Listens at a new Unix socket.
    ///
    /// One that is left over from a process that is gone is replaced; what `protection` covers never is.
    convenience init(
        path: String, on reactor: Reactor, protecting protection: ProtectedFiles? = nil
    ) throws(KithError) {
        let made = SocketIdentity()
        func listen() -> Int32 {
            guard let protection else { return unsafe kith_stream_listen_path(path, 512) }
            return unsafe protection.with { protection in
                made.value.withLock { unsafe kith_protection_listen(protection, path, 512, &$0) }
            }
        }
        func connect() -> Int32 {
            guard let protection else { return unsafe kith_stream_connect_path(path) }
            return unsafe protection.with { unsafe kith_protection_connect($0, path) }
        }
        func unlinkOld() {
            guard let protection else { return unsafe kith_socket_unlink(path) }
            unsafe protection.with { unsafe kith_protection_unlink($0, path, nil) }
        }
        var descriptor = listen()
        if descriptor == -EADDRINUSE {
            let other = connect()
            if other >= 0 { kith_socket_close(other) }
            if other == -ECONNREFUSED {
                unlinkOld()
                descriptor = listen()
            }
        }
        guard descriptor != -Int32(KITH_ERROR_PROTECTED) else {
            throw ForwardService.isKithsOwn(.socket(path: path))
        }
        guard descriptor >= 0 else { throw Self.failure(SystemError(-descriptor), path) }
        try self.init(descriptor, .socket(path: path), reactor) {
            guard let protection else { return unsafe kith_socket_unlink(path) }
            // The path may lead elsewhere by now.
            unsafe protection.with { protection in
                made.value.withLock { unsafe kith_protection_unlink(protection, path, &$0) }
            }
        }
    }

    /// Which file a listening socket is.
    private final class SocketIdentity: Sendable {
        let value = Mutex(kith_identity())
    }

    private init(
        _ descriptor: Int32, _ endpoint: Forward.Endpoint, _ reactor: Reactor, unlink: (@Sendable () -> Void)?
    ) throws(KithError) {
        self.unlink = unlink
        do {
            watch = try reactor.watch(socket: descriptor)
        } catch {
            kith_socket_close(descriptor)
            throw error
        }
        self.descriptor = descriptor
        self.endpoint = endpoint
        self.reactor = reactor
    }

    deinit {
        watch.close()
        // Before it is closed: until then no other file can get its inode.
        unlink?()
        kith_socket_close(descriptor)
    }

    /// Waits for a connection; the address is `nil` of a Unix socket.
    func accept() async throws -> (stream: SocketStream, from: NetworkAddress?) {
        while true {
            try Task.checkCancellation()
            var peer = kith_udp_address()
            let accepted = unsafe kith_stream_accept(descriptor, &peer)
            if accepted >= 0 {
                let from: NetworkAddress? = if case .socket = endpoint { nil } else { NetworkAddress(peer) }
                return (try SocketStream(owning: accepted, on: reactor, peer: from), from)
            }
            let error = SystemError(-accepted)
            switch error.number {
            case EAGAIN, EWOULDBLOCK: await watch.wait(for: .reading)
            case ECONNABORTED, EPROTO: break
            // Nothing to take it with: others must end first.
            case EMFILE, ENFILE, ENOBUFS, ENOMEM: try await Task.sleep(for: .milliseconds(50))
            default: throw KithError(.closed, "\(endpoint) takes no more connections: \(error).")
            }
        }
    }

    static func failure(_ error: SystemError, _ endpoint: String) -> KithError {
        switch error.number {
        case EADDRINUSE: KithError(.conflict, "Cannot listen at \(endpoint): something listens there already.")
        case EADDRNOTAVAIL: KithError(.invalid, "Cannot listen at \(endpoint): it is not an address of this device.")
        case EACCES, EPERM:
            KithError(
                .denied, "Cannot listen at \(endpoint): this user may not. Ports below 1024 need root on most systems.")
        case ENOENT, ENOTDIR: KithError(.notFound, "Cannot listen at \(endpoint): make the folder of the socket first.")
        default: KithError(.unreachable, "Cannot listen at \(endpoint): \(error).")
        }
    }
}

extension kith_udp_address {
    init(_ address: NetworkAddress) {
        self.init()
        is_ipv6 = address.isIPv6 ? 1 : 0
        port = address.port
        zone = address.zone
        let bytes = address.ip
        unsafe withUnsafeMutableBytes(of: &ip) { unsafe $0.copyBytes(from: bytes) }
    }
}

extension NetworkAddress {
    init(_ address: kith_udp_address) {
        let bytes = unsafe withUnsafeBytes(of: address.ip) { ip in
            unsafe [UInt8](ip.prefix(address.is_ipv6 != 0 ? 16 : 4))
        }
        self =
            NetworkAddress(ip: bytes, port: address.port, zone: address.zone)
            ?? NetworkAddress(ipv4: 0, port: address.port)
    }
}
