/// The behaviour of one end of a connection: who it is, whom it trusts, and every limit it sets.
public struct QUICConfiguration: Sendable {
    /// The credentials this end proves itself with, best first.
    public var credentials: [Credential]
    /// The application protocols it speaks, best first; one must be common to both ends.
    public var alpn: [String]
    /// The name a client asks for (SNI); nil sends none.
    public var serverName: String?
    /// Decides whether a peer that has proven `PeerCredential` may connect; called during the handshake, must not wait.
    public var verify: @Sendable (PeerCredential) -> Bool = { _ in false }
    /// Indicates whether the peer must prove itself; a client always requires it of the server.
    public var requirePeerCredential = true
    /// True if a client offers X25519MLKEM768 first, so that traffic recorded today resists decryption in the future.
    ///
    /// The first flight then has two datagrams. It holds an X25519 share as well, so that a server that knows no better
    /// needs no round trip more; a server accepts either.
    public var offersPostQuantumKeyShare = true
    /// The AEAD that protects packets, where both ends have a choice.
    public var cipherPreference = CipherPreference.automatic

    /// The versions spoken, best first; not empty.
    ///
    /// A client dials with the first and offers the others, in the handshake and after a Version Negotiation.
    public var versions: [QUICVersion] = [.one, .two]
    /// Server: whether it moves a client to the first of its own ``versions`` that the client offers (RFC 9368 §2.3).
    ///
    /// Otherwise it stays with the client's choice.
    public var prefersOwnVersion = false
    /// Server: makes the token every client is given for its next connection, a NEW_TOKEN; nil gives none.
    public var addressTokens: AddressTokens?
    /// Client: the token an earlier connection to the same server was given; empty for none.
    public var addressToken: [UInt8] = []
    /// Server: makes the tickets by which clients resume, and decides about early data; nil gives none.
    public var sessionTickets: SessionTickets?
    /// Client: the ticket an earlier connection to the same server was given, to be used once; nil for none.
    public var sessionTicket: SessionTicket?
    /// Client: whether a ticket that allows it makes early data possible, ``QUICConnection/Event/earlyDataPossible``.
    ///
    /// Whoever sees early data can send it again, to this server or another with the same key (RFC 9001 §9.2).
    public var offersEarlyData = false
    /// After how many packets the keys of 1-RTT packets are updated; nil as late as the cipher allows (RFC 9001 §6.6).
    public var packetsPerKey: UInt64?

    /// The time a silent connection lives; zero for ever.
    ///
    /// The smaller of both ends' values counts.
    public var maxIdleTimeout: Duration = .seconds(30)
    /// After how much silence to send something; nil never.
    public var keepAlive: Duration?
    /// The time the handshake may take.
    public var handshakeTimeout: Duration = .seconds(10)

    /// The number of bytes of one stream the peer may send ahead, at first.
    public var streamWindow = 1 << 20
    /// The bound of ``streamWindow``'s growth.
    public var maxStreamWindow = 16 << 20
    /// The number of bytes of all streams the peer may send ahead, at first.
    public var connectionWindow = 3 << 19
    /// The bound of ``connectionWindow``'s growth.
    public var maxConnectionWindow = 64 << 20
    /// The number of bytes of all streams that may wait for their readers before that slows the connection down.
    ///
    /// Readers that stand still do not stop the others.
    public var unreadAllowance = 16 << 20
    /// The tighter limits a peer is held to until ``QUICConnection/liftRestraint()``; nil for none.
    ///
    /// A peer proves its key only after the limits have been announced: a server that does not know yet who asks
    /// promises little.
    public var restraint: Restraint?
    /// The number of written and unacknowledged bytes one stream holds before `write` takes no more.
    public var sendCapacity = 1 << 20
    /// The number of bidirectional streams the peer may have open.
    public var maxIncomingBidirectionalStreams = 128
    /// The number of unidirectional streams the peer may have open.
    public var maxIncomingUnidirectionalStreams = 128

    /// The largest DATAGRAM frame accepted; 0 turns datagrams off.
    public var maxDatagramFrameSize = 65535
    /// The most datagrams that may wait to be sent, and the most that may wait to be read.
    ///
    /// Beyond it a new one is refused or dropped.
    public var maxQueuedDatagrams = 256

    /// The largest UDP payload to send once the path has shown that it carries it; 1200…65527.
    public var udpPayloadSize = 1452
    /// The largest UDP payload the driver's buffers take; the peer is told.
    public var maxReceivedPayloadSize = 65527
    /// The rule by which the sending rate is found.
    public var congestionController = CongestionControllerKind.bbr
    /// True if packets say that the network may mark them instead of dropping them (ECN), where a path keeps the marks.
    public var usesECN = true
    /// The most paths held at once, the one in use included; 2…64.
    ///
    /// The peer may hold as many as it has ids for: it is given a few more than that.
    public var maxPaths = 8 {
        didSet { maxPaths = min(max(maxPaths, 2), 64) }
    }
    /// The most small probes and answers to them sent in a second (``QUICConnection/probeCandidate(_:at:)``).
    public var maxProbesPerSecond = 500
    /// Decides which of several validated paths a client uses.
    public var pathChooser: any PathChooser = ShortestPathChooser()
    /// Indicates whether a server asks its ``pathChooser``, too, where ``eitherEndMoves`` is agreed.
    ///
    /// It never returns to a path its client has left by itself; when both move at once, the client's choice holds.
    public var serverChoosesPath = false
    /// Indicates whether clients are asked not to move to other addresses (`disable_active_migration`, RFC 9000 §18.2).
    public var disablesActiveMigration = false
    /// Indicates whether a server may move to another address as a client may, if both ends say so.
    ///
    /// If both have agreed by a transport parameter (0x4B495448, empty), a client follows its server by the rules for
    /// servers. RFC 9000 §9 lets only clients move: Documentation/Deviations.md.
    public var eitherEndMoves = false
    /// This end's part in address discovery (draft-ietf-quic-address-discovery); nil for none.
    ///
    /// Where the peer has the other part, or both, ``QUICConnection/Event/observedAddress(_:path:)`` tells what it reports.
    public var addressDiscovery: AddressDiscoveryRole?
    /// The secret of this endpoint's stateless resets: 32 bytes that outlive connections.
    public var statelessResetKey: [UInt8]
    /// Takes one qlog record (JSON text sequence, RFC 7464) per call; nil costs nothing.
    public var qlog: (@Sendable ([UInt8]) -> Void)?
    /// Opens a log of its own for each connection, as ``qlog``, when that is nil; nil logs nothing.
    ///
    /// `original` is the client's first destination, the same at both ends: the usual name of a connection's log.
    public var openQLog: (@Sendable (_ original: ConnectionID, _ isClient: Bool) -> (@Sendable ([UInt8]) -> Void)?)?
    /// Takes a line of the key log (the format of `SSLKEYLOGFILE`) per call; nil keeps the secrets secret.
    ///
    /// Dangerous: whoever has the lines can read everything the connection carried, and write in either end's name.
    public var keyLog: (@Sendable (String) -> Void)?
    /// The source of randomness that needs no secrecy towards this process; tests seed it.
    public var random: @Sendable () -> UInt64

    /// Makes a configuration that trusts nobody yet: set ``verify``.
    public init(credentials: [Credential], alpn: [String]) {
        self.credentials = credentials
        self.alpn = alpn
        random = { UInt64.random(in: .min ... .max) }
        statelessResetKey = (0..<32).map { _ in UInt8.random(in: .min ... .max) }
    }

    /// The limits a peer is held to at first.
    public struct Restraint: Hashable, Sendable {
        /// The number of bytes of all streams it may send ahead; readers that stand still add nothing to it.
        public var connectionWindow: Int
        /// The number of bidirectional streams it may have open.
        public var maxIncomingBidirectionalStreams: Int

        /// Makes a restraint.
        public init(connectionWindow: Int, maxIncomingBidirectionalStreams: Int) {
            self.connectionWindow = connectionWindow
            self.maxIncomingBidirectionalStreams = maxIncomingBidirectionalStreams
        }
    }

    /// The part the stream table needs.
    var streamConfiguration: StreamConfiguration {
        var configuration = StreamConfiguration()
        configuration.streamWindow = UInt64(max(0, streamWindow))
        configuration.maxStreamWindow = UInt64(max(streamWindow, maxStreamWindow))
        configuration.connectionWindow = UInt64(max(0, connectionWindow))
        configuration.maxConnectionWindow = UInt64(max(connectionWindow, maxConnectionWindow))
        configuration.unreadAllowance = UInt64(max(0, unreadAllowance))
        configuration.maxStreamsBidirectional = UInt64(max(0, maxIncomingBidirectionalStreams))
        configuration.maxStreamsUnidirectional = UInt64(max(0, maxIncomingUnidirectionalStreams))
        configuration.sendCapacity = sendCapacity
        if let restraint {
            configuration.connectionWindow = min(
                configuration.connectionWindow, UInt64(max(0, restraint.connectionWindow)))
            configuration.maxConnectionWindow = configuration.connectionWindow
            configuration.unreadAllowance = 0
            configuration.maxStreamsBidirectional = min(
                configuration.maxStreamsBidirectional, UInt64(max(0, restraint.maxIncomingBidirectionalStreams)))
        }
        return configuration
    }

    /// The transport parameters that say all this to the peer.
    func transportParameters(source: ConnectionID) -> TransportParameters {
        var parameters = TransportParameters()
        let streams = streamConfiguration
        parameters.maxIdleTimeout = UInt64(max(0, maxIdleTimeout.inNanoseconds) / 1_000_000)
        parameters.maxUDPPayloadSize = UInt64(min(max(maxReceivedPayloadSize, 1200), 65527))
        parameters.initialMaxData = streams.connectionWindow
        parameters.initialMaxStreamDataBidiLocal = streams.streamWindow
        parameters.initialMaxStreamDataBidiRemote = streams.streamWindow
        parameters.initialMaxStreamDataUni = streams.streamWindow
        parameters.initialMaxStreamsBidi = min(streams.maxStreamsBidirectional, 1 << 60)
        parameters.initialMaxStreamsUni = min(streams.maxStreamsUnidirectional, 1 << 60)
        parameters.activeConnectionIDLimit = UInt64(PeerConnectionIDs.limit(paths: maxPaths))
        parameters.initialSource = source
        parameters.disableActiveMigration = disablesActiveMigration
        parameters.maxDatagramFrameSize = UInt64(max(0, maxDatagramFrameSize))
        parameters.greaseQUICBit = true
        parameters.eitherEndMoves = eitherEndMoves
        parameters.addressDiscovery = addressDiscovery
        return parameters
    }
}
