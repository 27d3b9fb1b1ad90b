import KithWire

/// This end of a connection's path: the socket it sends through, and by which number its engine knows that.
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
    /// The number of the path the engine is on while it may not move to this one: packets go this way all the same, as
    /// behind a rebound NAT.
    var pendingPath: UInt32?

    init(socket: UDPSocket, source: NetworkAddress? = nil) {
        self.socket = socket
        self.source = source
    }

    /// Indicates whether the engine has to move as soon as it may.
    var awaitsMove: Bool { awaitedSocket != nil || pendingPath != nil }

    /// The number of the path through the socket, as it is now.
    var number: UInt32 { socket.number << 16 | generation & 0xFFFF }

    /// The number the engine knows the socket with that number by.
    func number(of socket: UInt32) -> UInt32 {
        socket == self.socket.number ? pendingPath ?? number : socket << 16
    }

    /// Returns whether what the engine sends from `local` leaves by the socket.
    func isOwn(_ local: UInt32) -> Bool { local >> 16 == socket.number || local == pendingPath }

    /// Takes in from which address the peer is reached now; true when it was another one, and the path is a new one.
    mutating func sourceChanged(to found: NetworkAddress) -> Bool {
        defer { source = found }
        guard let source, source != found else { return false }
        generation &+= 1
        return true
    }
}
