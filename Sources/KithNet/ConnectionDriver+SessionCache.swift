import KithQUIC

// What makes the next connection quicker (RFC 9001 §4.6, RFC 9000 §8.1.3).
extension ConnectionDriver {
    /// Stores the peer's tickets and tokens for the next connection.
    func remember(_ event: QUICConnection.Event) {
        // Before the end of the handshake, and to the dialed end only, nobody gives anything.
        guard let target, connection != nil else { return }
        switch event {
        case .sessionTicket(let ticket): endpoint.sessionCache.remember(ticket: ticket, of: target, at: engine.remote)
        case .newToken(let token): endpoint.sessionCache.remember(token: token, of: target, at: engine.remote)
        default: break
        }
    }
}
