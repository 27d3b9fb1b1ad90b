import KithQUIC

// Connections that can be used before their handshake is complete (RFC 9001 §4.6).
extension ConnectionDriver {
    /// A session is being resumed: queries may go out, or may be answered, at once.
    func earlyDataPossible() {
        guard connection == nil, let peer = endpoint.peer(of: engine.peerCredential), case .device = peer else {
            return
        }
        let connection = makeConnection(to: peer)
        self.connection = connection
        switch purpose {
        case .dialing(let dial): dial.earlyDataPossible(connection)
        case .accepting: isOffered = endpoint.offerEarly(connection)
        case nil: break
        }
    }

    /// Keeps what the peer gave for the next time.
    func remember(_ event: QUICConnection.Event) {
        // Before the end of the handshake, and to the dialed end only, nobody gives anything.
        guard isDialed, let peer = connection?.peerID else { return }
        switch event {
        case .sessionTicket(let ticket): endpoint.memory.remember(ticket: ticket, of: peer, at: engine.remote)
        case .newToken(let token): endpoint.memory.remember(token: token, of: peer, at: engine.remote)
        default: break
        }
    }
}
