#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif
package import KithWire

/// A listening socket: the source of a server's callers, which decides who is let in.
///
/// The server knows no more of it: this type decides whether it is a Unix socket or another.
package struct SocketListener: Sendable {
    /// The descriptor that callers are accepted from.
    let descriptor: SocketDescriptor
    /// Decides whether a caller that has connected is let in.
    let admits: @Sendable (PeerCredentials) -> Bool
    /// Its name for a person.
    let name: String
    /// The files of its socket.
    ///
    /// Whoever could change them could pose as the device.
    let places: [String]
    /// True when a caller that has ended its direction is still there, until the system says otherwise.
    ///
    /// For TCP the system says the same whether a caller has closed or only ended its direction.
    let mayHalfClose: Bool
    /// What a caller has to prove before it may ask anything; `nil`: nothing.
    let gate: TokenGate?
    /// Ends it for callers that have not connected yet; calling it again does nothing.
    let remove: @Sendable () -> Void

    /// Takes over the number of a socket that listens.
    ///
    /// Its maker decides who is admitted: the system does not identify callers from elsewhere.
    package init(
        owning number: Int32, name: String, mayHalfClose: Bool,
        admits: @escaping @Sendable (PeerCredentials) -> Bool
    ) {
        self.init(SocketDescriptor(owning: number), name: name, mayHalfClose: mayHalfClose, admits: admits)
    }

    private init(
        _ descriptor: SocketDescriptor, name: String, mayHalfClose: Bool, places: [String] = [],
        gate: TokenGate? = nil, admits: @escaping @Sendable (PeerCredentials) -> Bool,
        remove: @escaping @Sendable () -> Void = {}
    ) {
        self.descriptor = descriptor
        self.name = name
        self.mayHalfClose = mayHalfClose
        self.places = places
        self.gate = gate
        self.admits = admits
        self.remove = remove
    }

    /// Takes over a TCP socket whose callers prove themselves to a gate.
    init(
        _ descriptor: SocketDescriptor, name: String, gate: TokenGate, remove: @escaping @Sendable () -> Void
    ) {
        self.init(descriptor, name: name, mayHalfClose: false, gate: gate, admits: { _ in true }, remove: remove)
    }

    /// Listens at the Unix socket of a data directory, for processes of this user.
    ///
    /// Whoever calls this holds the lock of the data directory: a socket left there by a process that is gone
    /// is removed.
    ///
    /// - Throws: `KithError` `.conflict` when another process answers at the socket, `.denied` when the system refuses.
    package static func unix(
        directory: String, as holder: SocketHolder = .daemon
    ) throws(KithError) -> SocketListener {
        let place = try SocketPath.forListening(in: directory, as: holder)
        if try SocketDescriptor.connect(to: place.path) != nil {
            throw KithError(.conflict, "Another process answers at \(place.path).")
        }
        place.remove()
        let descriptor = try SocketDescriptor.listen(at: place.path)
        try place.announce()
        return SocketListener(
            descriptor, name: place.path, mayHalfClose: true,
            places: place.pointer == nil ? [place.path] : [place.path, SocketPath.sharedFolder],
            admits: { $0.isOwnUser }, remove: { place.remove() })
    }
}

/// The process at the other end of a connection, as far as the system vouches for it.
package struct PeerCredentials: Hashable, Sendable {
    /// The user it runs as; `nil` where the system does not say, as of any connection from elsewhere.
    package var user: UInt32?

    /// True when it runs as the user of this process.
    package var isOwnUser: Bool { user == geteuid() }
}

extension PeerCredentials {
    /// Asks the system who is at the other end of a connected socket.
    package init(ofSocket descriptor: Int32) { self.init(user: Platform.peerUser(descriptor)) }
}
