import KithIO
package import KithQUIC
package import KithWire

/// An event on the paths of a connection, for whoever decides about them.
package enum PathEvent: Hashable, Sendable {
    /// The connection goes along another path now.
    case changed(PathAddress)
    /// A path that is not in use has been validated, and is held ready.
    case validated(PathAddress)
    /// Nobody answered along a path; it is no longer held.
    case failed(PathAddress)
    /// A probe time-out has passed in silence along the path in use; comes with each one.
    case silent(PathAddress)
    /// The peer's probe came from an address that this end does not probe itself.
    case peerReflexive(PathAddress)
}

// What decides about paths can ask for; all of it takes effect on the event loop. It does nothing once the connection is
// over, nor before the handshake is confirmed (RFC 9000 §9), which at the dialing end is a round trip after it is
// complete: ask again, as for anything that a network may lose.
extension Connection {
    /// Tells `handler` of every event on the paths after its return, from the event loop; it must not wait.
    package func onPathEvent(_ handler: (@Sendable (PathEvent) -> Void)?) async {
        let done = Promise<Void>()
        let driver = self.driver
        driver.loop.execute {
            driver.onPathEvent = handler
            done.fulfil(())
        }
        await done.value()
    }

    /// Sends one small probe to each of the addresses, where the peer may be; one that answers becomes a path.
    ///
    /// Nothing is sent to groups and to addresses of links. How often to probe is the caller's to decide; the bound is
    /// ``QUICConfiguration/maxProbesPerSecond``.
    package func probe(_ addresses: [NetworkAddress]) {
        let driver = self.driver
        driver.loop.execute { driver.probe(addresses) }
    }

    /// Validates the path to the peer through a link, to be held ready as a backup.
    package func addPath(through link: UInt32) {
        let driver = self.driver
        driver.loop.execute { driver.addPath(through: link) }
    }

    /// Goes along another path that is held.
    package func move(to path: PathAddress) {
        let driver = self.driver
        driver.loop.execute { driver.move(to: path) }
    }

    /// Forgets a path that is held ready.
    package func forget(_ path: PathAddress) {
        let driver = self.driver
        driver.loop.execute { driver.forget(path) }
    }

    /// Sends everything along that path, too, until the peer has acknowledged something; nil ends that.
    package func sendOnBoth(_ path: PathAddress?) {
        let driver = self.driver
        driver.loop.execute { driver.sendOnBoth(path) }
    }

    /// The paths held now, the one in use first.
    package func heldPaths() async -> [PathStatus] {
        let answer = Promise<[PathStatus]>()
        let driver = self.driver
        driver.loop.execute { answer.fulfil(driver.engine.paths) }
        return await answer.value()
    }
}

extension ConnectionDriver {
    func probe(_ addresses: [NetworkAddress]) {
        for address in addresses { addProbe(to: address) }
        service()
    }

    /// Has the engine send a probe when it is served next, from the socket with that number, or else its own.
    func addProbe(to address: NetworkAddress, from number: UInt32? = nil) {
        guard !isClosed, !address.isMulticast, !address.isUnspecified, address.port != 0,
            RelayedAddresses.link(of: address) == nil
        else { return }
        let named = number.map { endpoint.socket($0) } ?? socket
        let isReached = named?.address.isIPv6 == address.isIPv6
        guard let socket = isReached ? named : endpoint.route(to: address) else { return }
        _ = engine.probeCandidate(PathAddress(remote: address, local: link(of: socket.number)), at: .now())
    }

    func addPath(through link: UInt32) {
        guard let peer = connection?.peerID else { return }
        addRelayPath(to: peer, by: link)
        service()
    }

    /// Has the engine validate the path by a link when it is served next.
    func addRelayPath(to peer: DeviceID, by link: UInt32) {
        guard !isClosed, endpoint.links[link] != nil else { return }
        let address = endpoint.relayedAddress(of: peer, by: link)
        _ = engine.probePath(PathAddress(remote: address, local: .relay(link)), at: .now())
    }

    func move(to path: PathAddress) {
        guard !isClosed else { return }
        _ = engine.migrate(to: path, at: .now())
        service()
    }

    func forget(_ path: PathAddress) {
        guard !isClosed else { return }
        engine.forgetPath(path)
        service()
    }

    func sendOnBoth(_ path: PathAddress?) {
        guard !isClosed else { return }
        engine.sendOnBoth(path, at: .now())
        service()
    }

    /// A link has been taken out of use.
    func linkIsGone(_ link: LocalLink) {
        guard !isClosed else { return }
        engine.linkIsGone(link, at: .now())
        service()
    }
}
