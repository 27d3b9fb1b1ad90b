public import KithWire

/// One QUIC connection, as a pure state machine: datagrams and the time go in, datagrams and events come out.
///
/// It does no I/O and reads no clock. After every call: take ``nextTransmit(into:at:)`` until nil, take
/// ``nextEvent()`` until nil, and call ``timedOut(at:)`` at ``nextDeadline``.
///
/// ```
///  handshaking ──TLS complete──▶ established ──close by us──▶ closing ──3 PTO──▶ drained
///       │                            │  └──close by the peer, reset──▶ draining ──3 PTO──▶ drained
///       └───────── close, refusal ───┴──idle time-out──▶ drained
/// ```
///
/// RFC 9000, 9001, 9002 and 9221. The folder's other files hold its parts: receiving, frames, the handshake,
/// sending, timers, closing, paths.
public struct QUICConnection: ~Copyable {
    enum Phase: Hashable {
        case handshaking, established, closing, draining, drained
    }

    let configuration: QUICConfiguration
    /// Whether this end dialed.
    public let isClient: Bool
    let tls: TLSSession
    var phase = Phase.handshaking
    var isHandshakeConfirmed = false
    let created: Timestamp

    var spaces = ContiguousArray<PacketSpaceState>.fresh
    var keys = KeyPhases()
    var recovery: Recovery
    var streams: StreamTable

    // Who is who.
    var originalDestination: ConnectionID
    let firstLocalID: ConnectionID
    var localIDs: LocalConnectionIDs
    var peerIDs: PeerConnectionIDs
    var hasPeerSource = false
    var retrySource: ConnectionID?
    var token: [UInt8] = []
    var hasReceivedPacket = false
    var peerParameters: TransportParameters?

    // Where.
    var path: PathState
    var candidate: PathCandidate?
    var pathResponses: [PathAnswer] = []
    var datagramSize = 1200
    var sizeProbe = SizeProbe()
    var consecutiveProbes = 0
    var numberSkips: NumberSkips

    // What waits to be sent or told.
    var isHandshakeDonePending = false
    var isPingPending = false
    var outgoingDatagrams = DatagramQueue()
    var events = EventQueue()
    var waitingDatagramEvents = 0
    var heldPackets: [HeldPacket] = []
    var ackBlocks: [AckBlock] = []
    var slots: [PacketSlot] = []
    var isTLSReady = false

    // Time.
    var idleTimeout: Int64 = 0
    var lastActivity: Timestamp
    var hasSentSinceReceipt = false
    var lastKeepAlive = Timestamp(nanoseconds: .min)
    var pacedUntil: Timestamp?
    var closing = ClosingState()

    var traffic = Traffic()
    var log: EventLog?

    init(
        _ configuration: QUICConfiguration, isClient: Bool, remote: NetworkAddress, original: ConnectionID,
        peer: ConnectionID, at now: Timestamp
    ) throws(KithError) {
        self.configuration = configuration
        self.isClient = isClient
        created = now
        lastActivity = now
        originalDestination = original
        firstLocalID = ConnectionID(random: configuration.random())
        localIDs = LocalConnectionIDs(firstLocalID)
        peerIDs = PeerConnectionIDs(peer)
        path = PathState(remote: remote, isValidated: isClient)
        var recovering = RecoveryConfiguration()
        recovering.controller = configuration.congestionController
        recovering.marksECN = configuration.usesECN
        recovering.seed = configuration.random()
        recovery = Recovery(recovering, isClient: isClient)
        numberSkips = NumberSkips(random: configuration.random())
        streams = StreamTable(configuration.streamConfiguration, isClient: isClient)
        var parameters = configuration.transportParameters(source: firstLocalID)
        if !isClient {
            parameters.originalDestination = original
            parameters.statelessResetToken = Self.resetToken(for: firstLocalID, key: configuration.statelessResetKey)
        }
        var handshake = TLSConfiguration(
            role: isClient ? .client : .server, credentials: configuration.credentials, alpn: configuration.alpn,
            transportParameters: parameters.encoded(grease: configuration.random()), verify: configuration.verify)
        handshake.serverName = configuration.serverName
        handshake.requirePeerCredential = configuration.requirePeerCredential
        handshake.keyExchange = configuration.offersPostQuantumKeyShare ? .postQuantum : .classical
        do {
            tls = try TLSSession(handshake)
        } catch {
            throw KithError(
                .invalid, "The credentials or protocols of this connection cannot be used: \(error.reason)",
                cause: error)
        }
        idleTimeout = max(0, configuration.maxIdleTimeout.inNanoseconds)
        slots.reserveCapacity(Self.maximumSegments)
        if let sink = configuration.qlog {
            log = EventLog(sink: sink, isClient: isClient, original: original, at: now)
        }
        let (read, write) = PacketKeys.initial(destination: original.bytes, isClient: isClient)
        spaces[.initial].readKeys = read
        spaces[.initial].writeKeys = write
        events.append(.connectionIDAdded(firstLocalID))
        if !isClient { events.append(.connectionIDAdded(original)) }
    }

    /// Starts a connection to the server at `remote`; the first flight is ready to be sent.
    ///
    /// - Throws: `KithError/Code/invalid` when the credentials cannot be used.
    public static func client(
        _ configuration: QUICConfiguration, remote: NetworkAddress, at now: Timestamp
    ) throws(KithError) -> QUICConnection {
        let destination = ConnectionID(random: configuration.random())
        var connection = try QUICConnection(
            configuration, isClient: true, remote: remote, original: destination, peer: destination, at: now)
        connection.driveHandshake(at: now)
        return connection
    }

    /// Starts the answering end for a client's first datagram, which is then given to ``receive(_:from:ecn:at:)``.
    ///
    /// `initial` is the header of that datagram: its form is ``DatagramHeader/Form/initial``, and the datagram has at
    /// least 1200 bytes.
    ///
    /// - Throws: `KithError/Code/invalid` when the credentials cannot be used.
    public static func server(
        _ configuration: QUICConfiguration, remote: NetworkAddress, initial: DatagramHeader, at now: Timestamp
    ) throws(KithError) -> QUICConnection {
        try QUICConnection(
            configuration, isClient: false, remote: remote, original: initial.destination, peer: initial.source,
            at: now)
    }

    static func resetToken(for id: ConnectionID, key: [UInt8]) -> ResetToken? {
        ResetToken(KeySchedule.statelessResetToken(key: key, connectionID: id.bytes))
    }
}

/// Counters of a connection's life.
struct Traffic {
    var bytesSent: UInt64 = 0
    var bytesReceived: UInt64 = 0
    var datagramsSent: UInt64 = 0
    var datagramsReceived: UInt64 = 0
    var packetsReceived: UInt64 = 0
    var lastReceived: Timestamp?
    var packetsDropped: UInt64 = 0
}

/// A packet that came before the keys to read it.
struct HeldPacket {
    /// How many are kept; more are dropped, the peer sends them again.
    static let limit = 16
    var bytes: [UInt8]
    var remote: NetworkAddress
    var ecn: UInt8
    var space: PacketSpace
}
