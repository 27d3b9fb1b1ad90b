import KithQUIC
public import KithWire

/// The statistics of a connection and its path so far.
public struct ConnectionStatistics: Hashable, Sendable {
    /// The address the other device's packets come from now; nil while they come through a relay.
    public var remoteAddress: NetworkAddress?
    /// The smoothed round-trip time.
    public var roundTrip: Duration
    /// The shortest round-trip time seen on this path.
    public var minimumRoundTrip: Duration
    /// The number of bytes that may be in flight at once.
    public var congestionWindow: Int
    /// The largest UDP payload sent now, as found out about the path (RFC 8899).
    public var udpPayloadSize: Int
    /// Bytes of UDP payload sent.
    public var bytesSent: UInt64
    /// Bytes of UDP payload received.
    public var bytesReceived: UInt64
    /// QUIC packets sent.
    public var packetsSent: UInt64
    /// QUIC packets received and accepted.
    public var packetsReceived: UInt64
    /// QUIC packets we sent and declared lost.
    public var packetsLost: UInt64
    /// Streams open now, both ends' together.
    public var openStreams: Int
    /// The ways to the other device that are held now, the one in use first.
    public var paths: [Path]
    /// Indicates whether the session resumes an earlier one, so that neither end had to show its key again.
    public var isResumed: Bool
    /// Indicates whether the dialed end has taken what came in the first flight (0-RTT).
    public var isEarlyDataAccepted: Bool
    /// The cipher suite of the packets, by its name in TLS, such as `TLS_AES_128_GCM_SHA256`; nil before it is agreed.
    public var cipherSuite: String?
    /// The time since the newest packet came.
    public var quiet: Duration
    /// The time since the handshake completed.
    public var age: Duration

    /// One way to the other device.
    public struct Path: Hashable, Sendable {
        /// The other end of it; nil when it goes by a relay.
        public var remoteAddress: NetworkAddress?
        /// The number of the relay it goes by; nil for a direct one.
        public var relay: UInt32?
        /// Indicates whether packets go this way now.
        public var isActive: Bool
        /// Indicates whether the other device has proven that it receives there.
        public var isValidated: Bool
        /// The round-trip time; nil before anything was measured.
        public var roundTrip: Duration?
        /// Bytes of UDP payload sent this way.
        public var bytesSent: UInt64
        /// Bytes of UDP payload received this way.
        public var bytesReceived: UInt64

        init(_ status: PathStatus) {
            remoteAddress = RelayedAddresses.outside(status.address.remote)
            relay = status.address.local.kind == .relay ? status.address.local.number : nil
            isActive = status.isActive
            isValidated = status.isValidated
            roundTrip = status.roundTrip.map { .nanoseconds($0) }
            bytesSent = status.bytesSent
            bytesReceived = status.bytesReceived
        }
    }
}
