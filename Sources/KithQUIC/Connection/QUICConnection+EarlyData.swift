import KithWire

/// The state of early data, sent and read before the handshake is complete (RFC 9001 §4.6).
///
/// ```
///  client  none ──ticket──▶ possible ──server takes it──▶ accepted
///                              └──server does not──▶ rejected     (everything goes again in 1-RTT packets)
///  server  none ──resumed, no repetition──▶ accepted
/// ```
struct EarlyData {
    var state = QUICConnection.EarlyDataState.none
    /// Of 0-RTT packets: a client writes them, a server reads them.
    var keys: PacketKeys?
    /// Server: when reordered 0-RTT packets need no keys any more (RFC 9001 §4.9.3).
    var keysExpire: Timestamp?
    /// Client: what the server allowed when it gave the ticket.
    var remembered: TransportParameters?
    /// Server: whether TLS has read the ClientHello, and with it decided about early data.
    var isDecided = false

    /// Client: how many tickets were handed out; servers give one or two, and not for ever.
    var ticketsTaken = 0

    /// Indicates whether streams can be used although the handshake is not complete.
    var isUsable: Bool { state == .possible || state == .accepted }

    /// Sets a TLS session up to resume an earlier one, or to be resumed.
    mutating func prepare(
        _ handshake: inout TLSConfiguration, _ configuration: QUICConfiguration, isClient: Bool, version: QUICVersion
    ) {
        if isClient {
            // Sessions of one version are not resumed in another (RFC 9369 §5).
            guard let ticket = configuration.sessionTicket, ticket.version == version else { return }
            handshake.ticket = ticket.tls
            handshake.earlyData = configuration.offersEarlyData
            remembered = ticket.parameters
        } else if let tickets = configuration.sessionTickets {
            handshake.ticketKey = tickets.key
            handshake.earlyData = tickets.acceptsEarlyData
        }
    }

    /// Server: what must be equal where a ticket is given and where its early data is accepted.
    ///
    /// That is every limit the client remembers. Empty when none is accepted.
    static func context(
        _ parameters: TransportParameters, _ configuration: QUICConfiguration, at now: Timestamp
    ) -> [UInt8] {
        guard let tickets = configuration.sessionTickets, tickets.acceptsEarlyData, tickets.seen.hasRoom(at: now) else {
            return []
        }
        return parameters.remembered.encoded(grease: 0)
    }
}

// 0-RTT (RFC 9000 §7.4.1, §12.3, §17.2.3; RFC 9001 §4.6, §4.9.3, §5.6).
extension QUICConnection {
    /// Indicates whether streams can be opened and written: the handshake is complete, or early data is possible.
    public var canUseStreams: Bool { phase == .established || phase == .handshaking && early.isUsable }

    /// Indicates whether the session resumes an earlier one; true of a client before the server has agreed.
    public var isResumed: Bool { tls.isResumed }

    /// The state of early data (RFC 9001 §4.6).
    @nonexhaustive
    public enum EarlyDataState: Hashable, Sendable {
        /// There is none.
        case none
        /// Client: it is sent, and the server has not answered yet.
        case possible
        /// The server reads it.
        case accepted
        /// Client: the server threw it away.
        case rejected
    }

    /// The state of early data.
    public var earlyDataState: EarlyDataState { early.state }

    /// Takes the keys of 0-RTT packets: from now on streams can be used.
    mutating func installEarly(_ secret: TrafficSecret) {
        guard early.state == .none, isClient == (secret.direction == .write) else { return }
        early.keys = PacketKeys(secret, version)
        if isClient {
            guard let remembered = early.remembered else { return }
            early.state = .possible
            streams.receivedPeerLimits(PeerStreamLimits(remembered))
        } else {
            early.state = .accepted
        }
        events.append(.earlyDataPossible)
    }

    /// Answers TLS, which asks whether early data may flow.
    mutating func decideEarlyData(at now: Timestamp) {
        guard !isClient else { return tls.allowEarlyData(isFresh: true) }
        let isFresh = configuration.sessionTickets?.seen.insert(tls.clientRandom ?? [], at: now) ?? false
        tls.allowEarlyData(isFresh: isFresh)
    }

    /// Follows what TLS has found out about early data.
    mutating func followEarlyData(at now: Timestamp) {
        if isClient {
            guard early.state == .possible else { return }
            if tls.isEarlyDataRejected {
                rejectEarlyData(at: now)
            } else if tls.isEarlyDataAccepted {
                early.state = .accepted
            }
            // Once there are better keys (RFC 9001 §4.9.3).
            if spaces[.application].writeKeys != nil { early.keys = nil }
        } else if early.isDecided, early.keys == nil, !heldPackets.isEmpty {
            // Nobody will ever read them; what is in them comes again.
            heldPackets.removeAll { $0.isEarly }
        }
    }

    /// The server has not read a byte: everything starts over in 1-RTT packets, once the new limits are known.
    private mutating func rejectEarlyData(at now: Timestamp) {
        early.state = .rejected
        early.keys = nil
        recovery.withdraw(.application)
        streams.withdraw()
        events.append(.earlyDataRejected)
    }

    /// Holds the server to what it allowed before (RFC 9000 §7.4.1).
    ///
    /// - Throws: PROTOCOL_VIOLATION when it accepted early data and now allows less.
    func checkRemembered(_ parameters: TransportParameters) throws(TransportError) {
        guard let remembered = early.remembered, tls.isEarlyDataAccepted else { return }
        guard parameters.allowsAll(of: remembered) else {
            throw TransportError(.protocolViolation, "less is allowed than early data was promised")
        }
    }

    /// Offers what 0-RTT packets carried again: they got lost with the Initial beside them, or a Retry came.
    mutating func repeatEarlyData(at now: Timestamp) {
        guard isClient, early.keys != nil else { return }
        recovery.resend(.application)
        processLost(at: now)
    }

    /// Indicates whether a 0-RTT packet would carry anything.
    var hasEarlyFrames: Bool {
        isClient && early.keys != nil && spaces[.application].writeKeys == nil && early.isUsable && streams.hasPending
    }

    /// The keys to read a 0-RTT packet with; nil when there are none, yet or any more.
    mutating func earlyReadKeys(at now: Timestamp) -> PacketKeys? {
        if let expiry = early.keysExpire, expiry <= now { early.keys = nil }
        return isClient ? nil : early.keys
    }
}

extension PeerStreamLimits {
    /// Creates the limits that transport parameters set.
    init(_ parameters: TransportParameters) {
        self.init()
        maxData = parameters.initialMaxData
        maxStreamDataBidiLocal = parameters.initialMaxStreamDataBidiLocal
        maxStreamDataBidiRemote = parameters.initialMaxStreamDataBidiRemote
        maxStreamDataUni = parameters.initialMaxStreamDataUni
        maxStreamsBidi = parameters.initialMaxStreamsBidi
        maxStreamsUni = parameters.initialMaxStreamsUni
    }
}

extension Frame {
    /// Indicates whether the frame may stand in a 0-RTT packet (RFC 9000 §12.4 table 3, §12.5).
    var isAllowedEarly: Bool {
        switch self {
        case .acknowledgement, .crypto, .handshakeDone, .newToken, .pathResponse, .retireConnectionID,
            .observedAddress:
            false
        default: true
        }
    }
}
