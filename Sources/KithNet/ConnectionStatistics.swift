public import KithWire

/// What a connection has done so far, and how its path behaves.
public struct ConnectionStatistics: Hashable, Sendable {
    /// Where the other device's packets come from now.
    public var remoteAddress: NetworkAddress
    /// The smoothed round-trip time.
    public var roundTrip: Duration
    /// The shortest round-trip time seen on this path.
    public var minimumRoundTrip: Duration
    /// How many bytes may be under way at once.
    public var congestionWindow: Int
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
    /// How long ago the newest packet came.
    public var quiet: Duration
    /// How long ago the handshake completed.
    public var age: Duration
}
