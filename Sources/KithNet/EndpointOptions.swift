public import KithIdentity
public import KithQUIC
public import KithWire

extension Endpoint {
    /// The options by which an endpoint listens, dials and limits its peers.
    public struct Options: Sendable {
        /// The UDP port; 0 lets the system choose.
        public var port: UInt16 = 0
        /// The addresses to listen on; empty means every interface, IPv4 and IPv6, on one port.
        public var bindAddresses: [NetworkAddress] = []
        /// The application protocols offered, best first (RFC 7301).
        public var alpn: [String] = ["kith/1"]
        /// The time a silent connection lives, and so the time it outlives its network.
        ///
        /// The smaller of both ends' values counts. A minute without a network is survived with some to spare.
        public var idleTimeout: Duration = .seconds(90)
        /// The interval at which a quiet connection proves it is alive; `nil` lets it go idle.
        public var keepAlive: Duration? = .seconds(10)
        /// The time a handshake may take.
        public var handshakeTimeout: Duration = .seconds(10)
        /// The time one address of a peer is tried before the next joins the race.
        public var raceStagger: Duration = .milliseconds(75)
        /// Established connections at once; beyond it a new one is refused.
        public var maxConnections: Int = 1024
        /// Incoming handshakes under way at once; beyond it the first packet is dropped.
        public var maxHalfOpen: Int = 256
        /// Incoming handshakes under way at once, beyond which clients must prove their address first (RFC 9000 §8.1.2).
        ///
        /// They are then answered with a Retry, for which nothing is kept, and so are all once half of
        /// ``maxHandshakesPerSecond`` is used up. Peers from before show the token they were given and are spared it.
        public var retryAbove: Int = 32
        /// Incoming handshakes under way at once with one host that has proven its address.
        public var maxHalfOpenPerHost: Int = 32
        /// Retries sent in a second; beyond it the first packets of others are dropped, a device's among those of a flood.
        ///
        /// One is an eighth of the packet it answers, and costs a few microseconds.
        public var maxRetriesPerSecond: Int = 100_000
        /// Incoming handshakes that may begin in a second; beyond it the first packet is dropped.
        public var maxHandshakesPerSecond: Int = 200
        /// Bidirectional streams a peer may hold open, per connection.
        public var maxIncomingStreams: Int = 2048
        /// True if peers from before may ask before the handshake is complete (0-RTT), and are asked so.
        ///
        /// Only ``Endpoint/connectEarly(to:at:timeout:)`` sends early data; see ``QUICStream/isEarly`` for the other end.
        public var earlyData = true
        /// The number of peers whose session tickets and address tokens are kept; the longest unused are dropped.
        public var rememberedPeers: Int = 256
        /// The bytes from ``Endpoint/takeSessionCache()`` of the endpoint before, with the same key; good for two days.
        ///
        /// Keep it secret, and use it once: a ticket that serves twice tells who watches that it is the same device
        /// (RFC 8446 §C.4). Bytes of another kind are ignored.
        public var sessionCache: [UInt8] = []
        /// Decides about a device that connects from an address, during every handshake, resumed or not, on the event loop.
        ///
        /// The address is nil when it comes through a relay.
        public var admit: @Sendable (DeviceID, NetworkAddress?) -> Admission = { _, _ in .full }
        /// The number of bytes of all streams a device with ``Admission/limited`` may send ahead.
        ///
        /// It applies to everybody until they have proven their key.
        public var limitedWindow: Int = 32 << 10
        /// The number of streams a device with ``Admission/limited`` may have open.
        public var limitedStreams: Int = 8
        /// The number of connections one device may have at once; beyond it the oldest that is not in use gives way.
        public var maxConnectionsPerPeer: Int = 8
        /// Indicates whether peers that are not devices may connect.
        public var foreign: ForeignPeers = .refuse
        /// The requested size of each socket's kernel buffers, in bytes.
        public var socketBuffer: Int = 4 << 20
        /// The congestion controller of the connections.
        public var congestionController: CongestionControllerKind = .bbr
        /// The AEAD of the connections, where both ends have a choice.
        public var cipherPreference: CipherPreference = .automatic
        /// Indicates whether connections are dialed with X25519MLKEM768 first, a first flight of two datagrams.
        public var offersPostQuantumKeyShare = true
        /// Opens the qlog of one connection, asked with the client's first destination id, the same at both ends.
        ///
        /// The function it returns receives one record per call (RFC 7464 framing), from the event loop. `nil` costs
        /// nothing.
        public var qlog: (@Sendable (_ original: ConnectionID, _ isDialed: Bool) -> (@Sendable ([UInt8]) -> Void)?)?
        /// Receives the lines of the TLS key log, from the event loop.
        ///
        /// Dangerous: whoever has them can read everything, and impersonate either end. `nil` makes none.
        public var keyLog: (@Sendable (String) -> Void)?
        /// The largest datagram sent, 1200…65,507 bytes.
        ///
        /// The packet size of the path is discovered after the handshake (RFC 8899); this only bounds it.
        public var udpPayloadSize: Int = 65_507

        /// Indicates whether it tells devices it is connected to where it can be reached, and looks for better paths.
        package var findsPaths = false

        /// The time after which a connection that nobody uses is closed; nil keeps it.
        ///
        /// Streams in the background (``QUICStream/isInBackground()``) do not keep it open.
        package var idleClosing: Duration?

        /// The thread it runs on, when it is not to have one of its own.
        package var loop: EndpointLoop?
        /// Indicates whether it follows the local network by itself; else ``Endpoint/networkChanged()`` tells it.
        package var watchesNetwork = true
        /// Indicates whether a peer's machine is asked whether its port is still open: see `PortWatch`.
        package var asksMachines = true
        /// Takes every connection that is established, on the event loop, in place of ``Endpoint/established``.
        package var onConnection: (@Sendable (Connection) -> Void)?
        /// Gets the key of a device that answers where another one is dialed, on the event loop.
        package var onOtherKey: (@Sendable (DeviceID) -> Void)?

        /// Changes the engine's configuration beyond these options, for tests.
        package var adjust: (@Sendable (inout QUICConfiguration) -> Void)?

        /// Makes the options a device normally runs with.
        public init() {}
    }

    /// The decision on a device that connects.
    @nonexhaustive
    public enum Admission: Hashable, Sendable {
        /// It is refused during the handshake, and learns nothing but that.
        case refused
        /// It may connect, and send little ahead, until ``Connection/liftLimits()``.
        case limited
        /// It may connect.
        case full
    }

    /// The treatment of a peer that presents a certificate, or nothing, in place of a device key.
    @nonexhaustive
    public enum ForeignPeers: Hashable, Sendable {
        /// Refuse it during the handshake.
        case refuse
        /// Let it in, as ``Connection/Peer/certificates(_:)``. Its certificate proves possession of a key, nothing more.
        case acceptCertificates
    }
}
