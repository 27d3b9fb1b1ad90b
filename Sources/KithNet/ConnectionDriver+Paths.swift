import KithQUIC

// Paths to a device, and where each end says that it sees the other.
extension ConnectionDriver {
    func pathEvent(_ event: PathEvent) {
        onPathEvent?(event)
        pathFinder?.handle(event)
    }

    /// Begins to look for paths to a device, where both ends do; not yet to one that is held to little.
    func findPaths(of connection: Connection) {
        guard pathFinder == nil, takesDatagrams, engine.eitherEndMoves, let state = endpoint.reach,
            let peer = connection.peerID
        else { return }
        let finder = PathFinder(driver: self, peer: peer, state: state)
        pathFinder = finder
        if let stream = unreadControl { finder.opened(stream) }
        unreadControl = nil
        reportObserved()
    }

    /// Passes on where a device sees this one, once that device is known.
    func reportObserved() {
        guard pathFinder != nil, let observed, let peer = connection?.peerID else { return }
        endpoint.reach?.onObservedAddress?(peer, observed)
    }

    /// The other end has opened a stream to say where it is.
    func controlOpened(_ id: StreamID) {
        if let pathFinder { return pathFinder.opened(id) }
        // Until it is known who it is, its bytes wait within the limits of the stream.
        unreadControl = unreadControl ?? id
    }
}
