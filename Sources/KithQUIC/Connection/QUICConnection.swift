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
    /// Indicates whether this end dialed.
    public let isClient: Bool
    let tls: TLSSession
    var phase = Phase.handshaking
    var isHandshakeConfirmed = false
    let created: Timestamp

    var spaces = ContiguousArray<PacketSpaceState>.fresh
    var keys = KeyPhases()
    var recovery: Recovery
    var streams: StreamTable

    // Which QUIC.
    var negotiation: VersionNegotiation
    /// The version packets are sent in.
    var version: QUICVersion { negotiation.version }

    // Who is who.
    var originalDestination: ConnectionID
    /// The id that Initial keys derive from; until the end a server's route for repeated first datagrams.
    var initialDestination: ConnectionID
    let firstLocalID: ConnectionID
    var localIDs: LocalConnectionIDs
    var peerIDs: PeerConnectionIDs
    var hasPeerSource = false
    var retrySource: ConnectionID?
    var token: [UInt8] = []
    var early = EarlyData()
    var hasReceivedPacket = false
    let localParameters: TransportParameters
    var peerParameters: TransportParameters?

    // Where.
    var path: PathState
    var otherPaths: [PathState] = []
    var pathAnswers: [PathAnswer] = []
    var probes = CandidateProbes()
    var discovery = AddressReports()
    /// The path that everything is also sent along while the one in use is silent.
    var redundantPath: PathAddress?
    /// The number of the first packet sent so.
    var redundantFrom: UInt64 = 0
    /// The time at which a path next needs attention without any traffic.
    var pathDeadline = Timestamp.distantFuture
    /// While nothing else has happened since a PLPMTUD probe was written.
    var beforePLPMTUDProbe: BeforePLPMTUDProbe?
    var optimisticAckDefence: OptimisticAckDefence

    // What waits to be sent or reported.
    var isHandshakeDonePending = false
    var isNewTokenPending = false
    var receivedTokens = 0
    /// The value in place of the fixed bit of short headers (RFC 9287).
    var quicBit: UInt8 = 0x40
    /// Chance for the QUIC bits of the next runs of packets: the system is asked once for sixty-four of them.
    var quicBits = (bits: UInt64(0), count: 0)
    var isPingPending = false
    /// Streams come before datagrams in the next packet, where both wait.
    var streamsGoFirst = false
    var outgoingDatagrams = DatagramQueue()
    var events = EventQueue()
    var waitingDatagramEvents = 0
    var heldPackets: [HeldPacket] = []
    var ackRanges: [AckRange] = []
    var slots: [PacketSlot] = []
    var isTLSReady = false

    // Time.
    var idleTimeout: Int64 = 0
    var lastActivity: Timestamp
    var hasSentSinceReceipt = false
    /// The silence after which a PING is sent; nil for never.
    public var keepAlive: Duration?
    var lastKeepAlive = Timestamp(nanoseconds: .min)
    var pacedUntil: Timestamp?
    var closing = ClosingState()

    var traffic = Traffic()
    var log: EventLog?

    /// The values one attempt begins with.
    struct Opening {
        var address: PathAddress
        var version: QUICVersion
        /// The client's first destination, before any Retry.
        var original: ConnectionID
        /// The destination of the client's Initials now.
        var destination: ConnectionID
        /// The peer's id, or what stands for it.
        var peer: ConnectionID
        var isAddressValidated = false
    }

    init(
        _ configuration: QUICConfiguration, isClient: Bool, _ opening: Opening, at now: Timestamp
    ) throws(KithError) {
        self.configuration = configuration
        self.isClient = isClient
        created = now
        lastActivity = now
        negotiation = VersionNegotiation(opening.version)
        originalDestination = opening.original
        initialDestination = opening.destination
        firstLocalID = ConnectionID(random: configuration.random())
        localIDs = LocalConnectionIDs(firstLocalID)
        peerIDs = PeerConnectionIDs(opening.peer, limit: PeerConnectionIDs.limit(paths: configuration.maxPaths))
        path = PathState(opening.address, isValidated: isClient || opening.isAddressValidated)
        if isClient { token = configuration.addressToken }
        var recovering = RecoveryConfiguration()
        recovering.controller = configuration.congestionController
        recovering.marksECN = configuration.usesECN
        recovering.seed = configuration.random()
        recovery = Recovery(recovering, isClient: isClient)
        optimisticAckDefence = OptimisticAckDefence(random: configuration.random())
        streams = StreamTable(configuration.streamConfiguration, isClient: isClient)
        var parameters = configuration.transportParameters(source: firstLocalID)
        if isClient {
            parameters.versions = negotiation.information(configuration)
        } else {
            parameters.originalDestination = opening.original
            if opening.destination != opening.original { parameters.retrySource = opening.destination }
            parameters.statelessResetToken = Self.resetToken(for: firstLocalID, key: configuration.statelessResetKey)
        }
        localParameters = parameters
        var handshake = TLSConfiguration(
            role: isClient ? .client : .server, credentials: configuration.credentials, alpn: configuration.alpn,
            transportParameters: parameters.encoded(grease: configuration.random()), verify: configuration.verify)
        handshake.serverName = configuration.serverName
        handshake.requirePeerCredential = configuration.requirePeerCredential
        handshake.asksForParameters = !isClient
        early.prepare(&handshake, configuration, isClient: isClient, version: opening.version)
        handshake.ciphers = configuration.cipherPreference
        handshake.wantsKeyLog = configuration.keyLog != nil
        handshake.keyExchange = configuration.offersPostQuantumKeyShare ? .postQuantum : .classical
        do {
            tls = try TLSSession(handshake)
        } catch {
            throw KithError(
                .invalid, "The credentials or protocols of this connection cannot be used: \(error.reason)",
                cause: error)
        }
        idleTimeout = max(0, configuration.maxIdleTimeout.inNanoseconds)
        keepAlive = configuration.keepAlive
        slots.reserveCapacity(Self.maximumSegments)
        if let sink = configuration.qlog ?? configuration.openQLog?(opening.original, isClient) {
            log = EventLog(sink: sink, isClient: isClient, original: opening.original, at: now)
        }
        installInitialKeys()
        events.append(.connectionIDAdded(firstLocalID))
        if !isClient { events.append(.connectionIDAdded(initialDestination)) }
    }

    /// Starts a connection to the server at `remote`; the first flight is ready to be sent.
    ///
    /// `local` is the link it leaves by.
    ///
    /// - Throws: `KithError/Code/invalid` when the credentials cannot be used.
    public static func client(
        _ configuration: QUICConfiguration, remote: NetworkAddress, local: LocalLink = 0, at now: Timestamp
    ) throws(KithError) -> QUICConnection {
        var connection = try QUICConnection(
            configuration, isClient: true,
            .dialing(
                PathAddress(remote: remote, local: local), version: configuration.versions.first ?? .one,
                random: configuration.random()), at: now)
        connection.driveHandshake(at: now)
        return connection
    }

    /// Starts the answering end for a client's first datagram, which is then given to ``receive(_:from:to:ecn:at:)``.
    ///
    /// `initial` is the header of that datagram: its form is ``DatagramHeader/Form/initial``, its version one of the
    /// configuration's, and the datagram has at least 1200 bytes.
    ///
    /// - Parameters:
    ///   - configuration: how this end behaves.
    ///   - remote: where the datagram came from.
    ///   - local: the link it came by.
    ///   - initial: its header.
    ///   - proof: what its token proves about the client's address; refuse ``AddressTokens/Proof/invalid`` instead.
    ///   - now: when it came.
    /// - Returns: the connection, which has not read the datagram yet.
    /// - Throws: `KithError/Code/invalid` when the credentials cannot be used, or the version is not spoken.
    public static func server(
        _ configuration: QUICConfiguration, remote: NetworkAddress, local: LocalLink = 0, initial: DatagramHeader,
        proof: AddressTokens.Proof = .none, at now: Timestamp
    ) throws(KithError) -> QUICConnection {
        guard let version = QUICVersion(rawValue: initial.version), configuration.versions.contains(version) else {
            throw KithError(.invalid, "QUIC version \(initial.version) is not spoken here.")
        }
        var original = initial.destination
        if case .retried(let first) = proof { original = first }
        return try QUICConnection(
            configuration, isClient: false,
            Opening(
                address: PathAddress(remote: remote, local: local), version: version, original: original,
                destination: initial.destination, peer: initial.source,
                isAddressValidated: proof != .none && proof != .invalid), at: now)
    }

    /// Makes the keys of Initial packets from the id the client addresses, by the version spoken now (RFC 9001 §5.2).
    mutating func installInitialKeys() {
        let (read, write) = PacketKeys.initial(destination: initialDestination.bytes, isClient: isClient, version)
        spaces[.initial].readKeys = read
        spaces[.initial].writeKeys = write
    }

    static func resetToken(for id: ConnectionID, key: [UInt8]) -> ResetToken? {
        ResetToken(KeySchedule.statelessResetToken(key: key, connectionID: id.bytes))
    }
}

extension QUICConnection.Opening {
    /// The start of a client's attempt: it makes an id up for the server.
    static func dialing(_ address: PathAddress, version: QUICVersion, random: UInt64) -> Self {
        let destination = ConnectionID(random: random)
        return Self(
            address: address, version: version, original: destination, destination: destination, peer: destination)
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
    /// The number of packets kept; more are dropped, and the peer sends them again.
    ///
    /// An initial window as our own, and the rest of a handshake: what a peer sends in good faith before its Finished is
    /// here, where packets overtake each other (RFC 9001 §5.7). What is dropped it would count as congestion.
    static let limit = 40
    var bytes: [UInt8]
    var address: PathAddress
    var ecn: UInt8
    var space: PacketSpace
    /// Indicates whether it is a 0-RTT packet.
    var isEarly = false
}
