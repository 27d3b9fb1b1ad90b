import KithQUIC
import KithWire

// The local network: the socket and the address by which the way to the peer leads, and what becomes of it when they
// change.
extension ConnectionDriver {
    /// The link as which the engine knows a socket: another one whenever another address stands behind it.
    func link(of socket: UInt32) -> LocalLink { localPath.link(of: socket) }

    /// The link as which the engine knows what a datagram came by.
    @inline(__always)
    func link(of link: LocalLink) -> LocalLink { link.kind == .relay ? link : localPath.link(of: link.number) }

    /// Returns whether what the engine sends by `link` leaves by the connection's own socket.
    func isOwn(_ link: LocalLink) -> Bool { localPath.isOwn(link) }

    /// Looks whether the way to the peer has changed, and goes the new one.
    ///
    /// `isNews` says that something of the network surely has.
    func networkChanged(isNews: Bool, interfaces: [NetworkAddress]) {
        guard !isClosed, !isDrained else { return }
        // The way by a relay is the relay's to look after.
        guard !isRelayed, isDialed || engine.mayMove else {
            if isNews { resume() }
            return
        }
        guard let found = LocalAddresses.source(to: engine.remote) else {
            isCutOff = true
            tryOtherAddress()
            return service()
        }
        let wasCutOff = isCutOff
        isCutOff = false
        if socket.address.isUnspecified {
            if localPath.sourceChanged(to: found) { return resume(on: localPath) }
        } else if !socket.address.isLoopback, !interfaces.contains(where: { $0.hasSameIP(as: socket.address) }) {
            // What the socket is bound to is gone for now.
            localPath.source = found
            return endpoint.openSocket(like: socket, at: found) { [weak self] in
                if let socket = $0 { self?.move(to: socket, isForced: true) }
            }
        }
        if isNews || wasCutOff { resume() }
    }

    /// Asks at the next of the peer's other addresses that there is a way to, and goes on there once it has answered.
    ///
    /// So a connection outlives the address family it began with.
    func tryOtherAddress() {
        for _ in peerAddresses.indices {
            let other = peerAddresses.removeFirst()
            peerAddresses.append(other)
            guard other != engine.remote, LocalAddresses.source(to: other) != nil,
                let socket = endpoint.route(to: other)
            else { continue }
            if engine.migrate(to: PathAddress(remote: other, local: link(of: socket.number)), at: .now()) { return }
        }
    }

    /// The engine is on another path: where that is one of the other address family, so is the connection's own socket.
    ///
    /// Where it goes by a relay the connection has none, but keeps the last for the next direct path.
    func pathChanged(to address: PathAddress) {
        let wasRelayed = isRelayed
        isRelayed = address.local.kind == .relay
        guard !isRelayed else {
            isCutOff = false
            // What others are told is the address of the usual one.
            if let usual = endpoint.sockets.first(where: { $0.address.isIPv6 == socket.address.isIPv6 }),
                usual !== socket, usual.address.hasSameIP(as: socket.address)
            {
                localPath = LocalPath(socket: usual)
            }
            return
        }
        if wasRelayed, address.local.number == socket.number {
            localPath.source = address.remote.isLoopback ? nil : LocalAddresses.source(to: address.remote)
        }
        let isOther = wasRelayed && address.local.number != socket.number
        guard isOther || address.remote.isIPv6 != socket.address.isIPv6,
            let other = endpoint.socket(address.local.number),
            other.address.isIPv6 == address.remote.isIPv6
        else { return }
        localPath = LocalPath(socket: other, source: LocalAddresses.source(to: address.remote))
        isCutOff = false
    }

    /// Goes on through another socket.
    ///
    /// Before the engine may move it stays where it is, and moves when it may (RFC 9000 §9): while the handshake is not
    /// confirmed, or the peer has given no id to spare. One that `isForced`, its socket being of no use any more, goes
    /// at once.
    func move(to other: UDPSocket, isForced: Bool = false) {
        guard !isClosed, !isDrained, other.number != socket.number else { return }
        if isRelayed {
            localPath = LocalPath(socket: other)
            return
        }
        guard other.address.isIPv6 == engine.remote.isIPv6 else { return }
        guard
            isForced || engine.migrate(to: PathAddress(remote: engine.remote, local: .socket(other.number)), at: .now())
        else {
            // The first of several does.
            if localPath.awaitedSocket.flatMap(endpoint.socket) == nil { localPath.awaitedSocket = other.number }
            return
        }
        resume(on: LocalPath(socket: other, source: localPath.source))
    }

    /// Goes on along another path from here, whatever path the engine is on.
    private func resume(on path: LocalPath) {
        localPath = path
        localPath.pendingPath = nil
        if !engine.migrate(to: PathAddress(remote: engine.remote, local: localPath.link), at: .now()) {
            localPath.pendingPath = engine.paths[0].address.local
            engine.networkChanged(at: .now())
        }
        service()
    }

    /// Makes a move that was not possible before.
    func moveWhenPossible() {
        guard !isRelayed, engine.mayMove, !isClosed else { return }
        if let number = localPath.awaitedSocket {
            localPath.awaitedSocket = nil
            if let other = endpoint.socket(number) { move(to: other) }
        } else if engine.migrate(to: PathAddress(remote: engine.remote, local: localPath.link), at: .now()) {
            localPath.pendingPath = nil
        }
    }

    /// A socket that was opened for a while has been closed: no path goes by it any more.
    func spareIsGone(_ number: UInt32) {
        guard !isClosed, !isDrained else { return }
        engine.linkIsGone(link(of: number), at: .now())
        guard socket.number == number else { return }
        if let usual = endpoint.sockets.first(where: { $0.address.isIPv6 == socket.address.isIPv6 }) {
            localPath = LocalPath(socket: usual)
        }
        service()
    }

    /// A socket has been closed: what still went by it, as where the peer led the connection back, goes by its own.
    func socketIsGone(_ number: UInt32) {
        guard !isRelayed, !isClosed, !isDrained, number != socket.number, localPath.pendingPath == nil,
            engine.paths[0].address.local.number == number
        else { return }
        resume(on: localPath)
    }

    private func resume() {
        engine.networkChanged(at: .now())
        service()
    }
}
