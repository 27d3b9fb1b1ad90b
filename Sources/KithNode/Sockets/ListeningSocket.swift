import CKithSystem
import Foundation
package import KithAPI
package import KithIO
package import KithWire
import Synchronization

/// A socket that takes connections.
package final class ListeningSocket: Sendable {
    /// The endpoint it listens at, with the actual port.
    package let endpoint: Forward.Endpoint
    private let descriptor: Int32
    private let reactor: Reactor
    private let watch: Watch
    /// Takes the name of a Unix socket away.
    private let unlink: (@Sendable () -> Void)?

    /// Listens at an address.
    package convenience init(at address: NetworkAddress, on reactor: Reactor) throws(KithError) {
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
    package convenience init(
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
            throw ProtectedFiles.refusal(of: .socket(path: path))
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
            watch = try reactor.watch(connection: descriptor)
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
    package func accept() async throws -> (stream: StreamSocket, from: NetworkAddress?) {
        while true {
            try Task.checkCancellation()
            var peer = kith_udp_address()
            let accepted = unsafe kith_stream_accept(descriptor, &peer)
            if accepted >= 0 {
                let from: NetworkAddress? = if case .socket = endpoint { nil } else { NetworkAddress(peer) }
                return (try StreamSocket(owning: accepted, on: reactor, peer: from), from)
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

    package static func failure(_ error: SystemError, _ endpoint: String) -> KithError {
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

extension ProtectedFiles {
    /// The refusal of a socket through which another device could do here whatever it likes.
    package static func refusal(of endpoint: Forward.Endpoint) -> KithError {
        KithError(.denied, "\(endpoint) belongs to kith there, out of reach of every grant.")
    }
}
