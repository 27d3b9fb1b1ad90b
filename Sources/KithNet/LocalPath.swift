import KithQUIC
import KithWire

/// This end of a connection's path: the socket it sends through, and as which link its engine knows that.
///
/// One value, replaced whole when the connection goes over to another socket.
struct LocalPath {
    /// The socket packets are sent through.
    let socket: UDPSocket
    /// The address of this device that the connection is reached from; nil when not known, or there is none.
    var source: NetworkAddress?
    /// The number of times the address behind the socket has changed.
    private var generation: UInt32 = 0
    /// The number of the socket the connection goes over to as soon as its engine may move.
    var awaitedSocket: UInt32?
    /// The link the engine is on while it may not move to this one: packets go this way all the same, as
    /// behind a rebound NAT.
    var pendingPath: LocalLink?

    init(socket: UDPSocket, source: NetworkAddress? = nil) {
        self.socket = socket
        self.source = source
    }

    /// Indicates whether the engine has to move as soon as it may.
    var awaitsMove: Bool { awaitedSocket != nil || pendingPath != nil }

    /// The socket as a link, as it is now.
    var link: LocalLink { .socket(socket.number, generation: generation) }

    /// The link as which the engine knows the socket with that number.
    func link(of socket: UInt32) -> LocalLink {
        socket == self.socket.number ? pendingPath ?? link : .socket(socket)
    }

    /// Returns whether what the engine sends by `link` leaves by the socket.
    func isOwn(_ link: LocalLink) -> Bool {
        link.kind == .socket && link.number == socket.number || link == pendingPath
    }

    /// Takes in from which address the peer is reached now; true when it was another one, and the path is a new one.
    mutating func sourceChanged(to found: NetworkAddress) -> Bool {
        defer { source = found }
        guard let source, source != found else { return false }
        generation &+= 1
        return true
    }
}
