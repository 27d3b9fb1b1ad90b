import KithAPI
import KithQUIC

// The machine at the other end says that nothing listens at the port: the peer is gone.
extension ConnectionDriver {
    /// Ends the connection, because the machine at the other end says that nothing listens there.
    func portIsClosed(_ closed: PortClosed) {
        guard !isClosed else { return }
        // Nobody is there to be told, and the machine answers only a few datagrams a second.
        engine.abandon(code: KithError.Code.unreachable.wireCode, at: .now())
        endpoint.noteClosed(closed.address)
        self.closed(CloseReason(closed), isForgotten: true)
        service()
    }

    /// Asks the machine at the other end of a path, while the peer is surely there: see ``PortWatch``.
    func watchPort(on path: PathAddress) {
        guard path.local.kind == .socket, endpoint.options.asksMachines else { return portWatch.stop() }
        // Other programs may take offence at the byte.
        guard connection?.peerID != nil else { return }
        portWatch.begin(on: path, loop: loop) { [weak self] count in self?.portRefused(count, on: path) }
    }

    /// Nothing has come from the peer for a probe time-out, or more.
    ///
    /// A peer that is there answers the probes before the machine has refused two bytes, one after the other.
    func askPort(on path: PathAddress) {
        guard !isClosed, !isCutOff, path.local.kind == .socket, endpoint.options.asksMachines else { return }
        portWatch.ask(on: path, packets: engine.statistics.packetsReceived, loop: loop, at: .now()) {
            [weak self] count in self?.portRefused(count, on: path)
        }
    }

    private func portRefused(_ count: Int, on path: PathAddress) {
        let isGone = portWatch.refused(count, packets: engine.statistics.packetsReceived)
        if isGone, !isCutOff, engine.paths.first?.address == path { portIsClosed(PortClosed(address: path.remote)) }
    }
}
