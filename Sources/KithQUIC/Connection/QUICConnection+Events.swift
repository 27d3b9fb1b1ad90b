public import KithWire

extension QUICConnection {
    /// An event on a connection.
    @nonexhaustive
    public enum Event: Hashable, Sendable {
        /// Datagrams to this id belong to this connection from now on.
        case connectionIDAdded(ConnectionID)
        /// The id ended; it is never used again.
        case connectionIDRetired(ConnectionID)
        /// A datagram from the peer that ends with this token says that it has forgotten the connection: give such a one
        /// to it, whatever id it seems to be for (RFC 9000 §10.3.1). ``StatelessResetTable`` finds it.
        case resetTokenAdded(ResetToken)
        /// The token means nothing any more; those left when the connection is drained have no event of their own.
        case resetTokenRetired(ResetToken)
        /// Streams may be used before the handshake is complete: the session resumes an earlier one, and `verify` has
        /// agreed to its peer.
        ///
        /// A server may answer at once, but whoever saw the client's packets can repeat them elsewhere: do nothing for
        /// such a stream that must not be done twice (RFC 9001 §9.2). Comes at most once, before ``connected``.
        case earlyDataPossible
        /// Client: the server has not read what was sent early; the same streams send it again, once ``connected``.
        ///
        /// Streams beyond the server's new limit are reset and stopped with code 0 instead.
        case earlyDataRejected
        /// The handshake is complete and the peer verified: streams may be opened.
        case connected
        /// Both ends know that the handshake is complete (RFC 9001 §4.1.2).
        case handshakeConfirmed
        /// The peer opened a stream; comes before any other event of it.
        case streamOpened(StreamID)
        /// There are bytes, or the end, to read; comes again only after a read emptied the stream.
        case readable(StreamID)
        /// There is room after a write that was not taken whole.
        case writable(StreamID)
        /// The peer abandoned its direction of the stream.
        case streamReset(StreamID, code: UInt64)
        /// The peer wants no more bytes of the stream; our direction has been reset.
        case sendStopped(StreamID, code: UInt64)
        /// All our bytes and the end have been acknowledged.
        case streamFinished(StreamID)
        /// A stream of that direction can be opened after `openStream` answered nil.
        case streamsAvailable(StreamDirection)
        /// A datagram came.
        case datagram([UInt8])
        /// The connection goes along another path now, which has been validated.
        case pathChanged(PathAddress)
        /// A path that is not in use has been validated, and is held ready.
        case pathValidated(PathAddress)
        /// A probe of the peer's came from an address that this end does not probe itself, and was answered there.
        case peerReflexiveAddress(PathAddress)
        /// The peer reports that packets along a path come from this address: this end's, as the network shows it.
        ///
        /// It is the peer's word (``QUICConfiguration/addressDiscovery``). Comes again only when it changes.
        case observedAddress(NetworkAddress, path: PathAddress)
        /// Nobody answered along a path; it is no longer held.
        case pathFailed(PathAddress)
        /// A probe time-out has passed, and nothing has come since something was sent along the path in use: the peer
        /// may be gone.
        ///
        /// Comes before the probes are sent, and with each time-out until something is heard.
        case peerSilent(PathAddress)
        /// The server gave a token to put into ``QUICConfiguration/addressToken`` of the next connection to it.
        case newToken([UInt8])
        /// The server gave a ticket to put into ``QUICConfiguration/sessionTicket`` of one later connection to it.
        case sessionTicket(SessionTicket)
        /// The connection ended; comes exactly once.
        case closed(CloseReason)
        /// Nothing more will be sent or is waited for: forget the connection.
        case drained
    }

    /// The reasons a connection ends.
    @nonexhaustive
    public enum CloseReason: Hashable, Sendable {
        /// An application closed it.
        case application(code: UInt64, reason: [UInt8], isRemote: Bool)
        /// A transport closed it (RFC 9000 §20.1); 0x100 plus the alert stands for TLS, 0x131 for a refused peer.
        case transport(code: UInt64, frameType: UInt64, reason: [UInt8], isRemote: Bool)
        /// Nothing was heard for the idle time-out.
        case idleTimeout
        /// The handshake did not complete in time.
        case handshakeTimeout
        /// The peer has forgotten the connection (RFC 9000 §10.3).
        case statelessReset
        /// The peer speaks none of the configuration's versions.
        case versionMismatch
    }

    /// The next thing the driver should know; nil when there is none.
    public mutating func nextEvent() -> Event? {
        if let event = events.next() {
            if case .datagram = event { waitingDatagramEvents -= 1 }
            return event
        }
        if let (address, path) = discovery.nextNews() { return .observedAddress(address, path: path) }
        if let change = peerIDs.nextTokenChange() {
            switch change {
            case .added(let token): return .resetTokenAdded(token)
            case .retired(let token): return .resetTokenRetired(token)
            }
        }
        guard phase == .established || phase == .handshaking, let event = streams.nextEvent() else { return nil }
        return Self.event(event)
    }

    static func event(_ event: StreamEvent) -> Event {
        switch event {
        case .opened(let id): .streamOpened(id)
        case .readable(let id): .readable(id)
        case .writable(let id): .writable(id)
        case .reset(let id, let code): .streamReset(id, code: code)
        case .stopped(let id, let code): .sendStopped(id, code: code)
        case .finished(let id): .streamFinished(id)
        case .available(let direction): .streamsAvailable(direction)
        }
    }
}

/// Events in order; keeps its memory when emptied.
struct EventQueue {
    private var items: [QUICConnection.Event] = []
    private var head = 0

    var isEmpty: Bool { head == items.count }

    mutating func append(_ event: QUICConnection.Event) { items.append(event) }

    mutating func next() -> QUICConnection.Event? {
        guard head < items.count else { return nil }
        // Taken out, so that whoever gets a datagram has its only copy, and may change it in place.
        var event = QUICConnection.Event.drained
        swap(&event, &items[head])
        head += 1
        if head == items.count {
            items.removeAll(keepingCapacity: true)
            head = 0
        }
        return event
    }
}

/// Datagrams waiting to be sent.
struct DatagramQueue {
    private var items: [[UInt8]] = []
    private var head = 0

    var count: Int { items.count - head }
    var first: [UInt8]? { head < items.count ? items[head] : nil }
    /// The number of places held, for tests of bounds.
    var held: Int { items.count }

    mutating func append(_ datagram: [UInt8]) { items.append(datagram) }

    mutating func removeFirst() {
        // Not kept until the last one is gone: with a standing backlog that is never.
        items[head] = []
        head += 1
        if head == items.count {
            items.removeAll(keepingCapacity: true)
            head = 0
        } else if head >= 64, head * 2 >= items.count {
            items.removeFirst(head)
            head = 0
        }
    }
}
