import KithQUIC

// Connections that can be used before their handshake is complete (RFC 9001 §4.6).
extension ConnectionDriver {
    /// A session is being resumed: queries may go out, or may be answered, at once.
    func earlyDataPossible() {
        guard connection == nil, let peer = endpoint.peer(of: engine.peerCredential) else { return }
        let connection = makeConnection(to: peer)
        self.connection = connection
        switch purpose {
        case .dialing(let dial): dial.earlyDataPossible(connection)
        case .accepting:
            // The streams of whoever is no device, or an unpaired one, wait until its handshake is complete: until then
            // even its address may be somebody else's.
            guard case .device = peer, admission?.isLimited == false else { break }
            engine.liftRestraint()
            isOffered = endpoint.offerEarly(connection)
        case nil: break
        }
    }

    /// Keeps what the peer gave for the next time.
    func remember(_ event: QUICConnection.Event) {
        // Before the end of the handshake, and to the dialed end only, nobody gives anything.
        guard let target, connection != nil else { return }
        switch event {
        case .sessionTicket(let ticket): endpoint.memory.remember(ticket: ticket, of: target, at: engine.remote)
        case .newToken(let token): endpoint.memory.remember(token: token, of: target, at: engine.remote)
        default: break
        }
    }
}
