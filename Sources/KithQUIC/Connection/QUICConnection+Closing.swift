/// The state of a connection's end, and what the peer has to be told about it.
struct ClosingState {
    /// The frame to send.
    enum Frame {
        case none
        case transport(TransportError)
        case application(code: UInt64, reason: [UInt8])
    }

    var frame = Frame.none
    /// Indicates whether the frame has to be sent, again.
    var isPending = false
    /// The time to forget everything.
    var end: Timestamp?
    private var receivedCount = 0
    private var answerAt = 1

    init() {}

    /// A peer that goes on sending is told again, ever more rarely (RFC 9000 §10.2.1).
    mutating func received() {
        receivedCount += 1
        if receivedCount >= answerAt {
            isPending = true
            answerAt *= 2
        }
    }
}

// The end of a connection (RFC 9000 §10).
extension QUICConnection {
    /// Closes the connection for the application; both ends' streams are gone.
    ///
    /// Data not acknowledged yet is lost. Nothing happens when the connection has ended before.
    public mutating func close(code: UInt64, reason: String = "", at now: Timestamp) {
        guard isOpen else { return }
        let bytes = Array(reason.utf8.prefix(1024))
        closing.frame = .application(code: min(code, (1 << 62) - 1), reason: bytes)
        startClosing(.application(code: code, reason: bytes, isRemote: false), at: now)
    }

    /// Ends the connection for the application without a word to the peer, which is not there.
    ///
    /// Nothing happens when the connection has ended before.
    public mutating func abandon(code: UInt64, at now: Timestamp) {
        finish(.application(code: code, reason: [], isRemote: false), at: now)
    }

    /// Closes the connection because of a violation or a fault.
    mutating func close(for error: TransportError, at now: Timestamp) {
        guard isOpen else { return }
        closing.frame = .transport(error)
        startClosing(
            .transport(
                code: error.code, frameType: error.frameType, reason: Array(error.reason.utf8), isRemote: false),
            at: now)
    }

    private mutating func startClosing(_ reason: CloseReason, at now: Timestamp) {
        report(reason, at: now)
        phase = .closing
        closing.isPending = true
        closing.end = now.advanced(nanoseconds: 3 * recovery.probeTimeout)
    }

    /// The peer has ended the connection: nothing is sent any more.
    mutating func enterDraining(_ reason: CloseReason, at now: Timestamp) {
        guard isOpen else { return }
        report(reason, at: now)
        phase = .draining
        closing.end = now.advanced(nanoseconds: 3 * recovery.probeTimeout)
    }

    /// Ends the connection without a word to the peer.
    mutating func finish(_ reason: CloseReason, at now: Timestamp) {
        guard isOpen else { return }
        report(reason, at: now)
        becomeDrained()
    }

    private mutating func report(_ reason: CloseReason, at now: Timestamp) {
        // What the streams still have to tell comes before the end.
        while let event = streams.nextEvent() { events.append(Self.event(event)) }
        events.append(.closed(reason))
        log?.closed(reason, at: now)
        heldPackets = []
        otherPaths = []
        pathAnswers = []
        pathDeadline = .distantFuture
    }

    /// Forgets the connection.
    mutating func becomeDrained() {
        guard phase != .drained else { return }
        for id in localIDs.all { events.append(.connectionIDRetired(id)) }
        // Until then a repeated first datagram of the client finds its connection.
        if !isClient { events.append(.connectionIDRetired(initialDestination)) }
        phase = .drained
        closing.isPending = false
        closing.end = nil
        events.append(.drained)
    }
}
