public import KithWire

// What the application does with streams and datagrams.
extension QUICConnection {
    /// Opens a stream; nil when the peer's limit is reached, or before ``canUseStreams``.
    ///
    /// ``Event/streamsAvailable(_:)`` tells when it is worth another try.
    public mutating func openStream(_ direction: StreamDirection) -> StreamID? {
        guard canUseStreams else { return nil }
        return streams.open(direction)
    }

    /// Queues bytes to be sent, as many as there is room for.
    ///
    /// - Returns: how many were taken; fewer than given means that ``Event/writable(_:)`` will come.
    public mutating func write(_ bytes: UnsafeRawBufferPointer, to stream: StreamID) throws(StreamError) -> Int {
        guard isOpen else { throw .unknown }
        return unsafe try streams.write(bytes, to: stream)
    }

    /// Moves received bytes to the caller.
    public mutating func read(
        _ stream: StreamID, into buffer: UnsafeMutableRawBufferPointer
    ) throws(StreamError) -> ReadResult {
        unsafe try streams.read(stream, into: buffer)
    }

    /// Ends this end's direction after what was written.
    public mutating func finish(_ stream: StreamID) throws(StreamError) {
        try streams.finish(stream)
    }

    /// Abandons this end's direction; bytes not delivered yet may never be.
    public mutating func reset(_ stream: StreamID, code: UInt64) throws(StreamError) {
        try streams.reset(stream, code: code)
    }

    /// Asks the peer to abandon its direction.
    public mutating func stopSending(_ stream: StreamID, code: UInt64) throws(StreamError) {
        try streams.stopSending(stream, code: code)
    }

    /// Holds the peer to nothing but the limits of the configuration from now on, ``QUICConfiguration/restraint`` or not.
    public mutating func liftRestraint() {
        guard isOpen, configuration.restraint != nil else { return }
        var configuration = configuration
        configuration.restraint = nil
        streams.raise(to: configuration.streamConfiguration)
    }

    /// Sets how urgent a stream is: 0 goes first, 255 last, 128 is usual.
    public mutating func setPriority(_ stream: StreamID, _ urgency: UInt8) {
        streams.setPriority(stream, urgency)
    }

    /// The largest datagram that can be sent now; nil when the peer takes none.
    public var maxDatagramSize: Int? {
        guard let limit = peerParameters?.maxDatagramFrameSize, limit > 0 else { return nil }
        // Header with its longest number, tag, frame type and length.
        let room = datagramSize - 1 - peerIDs.current.count - 4 - CipherSuite.tagLength - 3
        return max(0, min(room, Int(clamping: limit) - 3))
    }

    /// Queues a datagram, which may be lost on the way.
    ///
    /// - Returns: false when it is too large, the peer takes none, or too many wait already.
    public mutating func sendDatagram(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard takesDatagram(of: bytes.count) else { return false }
        unsafe outgoingDatagrams.append([UInt8](bytes))
        return true
    }

    /// Queues a datagram, which may be lost on the way; the array is kept, not copied.
    ///
    /// - Returns: false when it is too large, the peer takes none, or too many wait already.
    public mutating func sendDatagram(_ bytes: [UInt8]) -> Bool {
        guard takesDatagram(of: bytes.count) else { return false }
        outgoingDatagrams.append(bytes)
        return true
    }

    private func takesDatagram(of count: Int) -> Bool {
        guard phase == .established, let limit = maxDatagramSize else { return false }
        return count <= limit && outgoingDatagrams.count < configuration.maxQueuedDatagrams
    }

    /// The number of datagrams that wait to be sent.
    package var queuedDatagrams: Int { outgoingDatagrams.count }
    /// The rate at which packets leave now, in bytes per second.
    package var pacingRate: Int64 { recovery.pacingRate }
}

// What the application can ask.
extension QUICConnection {
    /// Indicates whether the handshake is complete and the connection has not ended.
    public var isConnected: Bool { phase == .established }
    /// Indicates whether the connection has ended.
    public var isClosed: Bool { !isOpen }
    /// Indicates whether there is nothing left to do for it.
    public var isDrained: Bool { phase == .drained }
    /// The peer's address.
    public var remote: NetworkAddress { path.remote }
    /// The credential the peer has proven itself with; ``PeerCredential/none`` before ``Event/connected``.
    public var peerCredential: PeerCredential { tls.peerCredential }
    /// The application protocol both agreed on.
    public var negotiatedALPN: String? { tls.negotiatedALPN }

    /// The TLS number of the key exchange group: 0x001d is X25519, 0x11ec X25519MLKEM768; nil before one is chosen.
    public var keyExchangeGroup: UInt16? { tls.keyExchangeGroup }
    /// The cipher suite of 1-RTT packets; nil before they can be read.
    package var cipherSuite: CipherSuite? { spaces[.application].readKeys?.suite }

    /// Bytes both ends can compute and nobody else (RFC 8446 §7.5); nil before the handshake is complete.
    public func exportKeyingMaterial(label: String, context: [UInt8], count: Int) -> [UInt8]? {
        guard tls.isComplete else { return nil }
        return tls.exportKeyingMaterial(label: label, context: context, count: count)
    }

    /// Bytes sent and neither acknowledged nor given up (RFC 9002 §B.2).
    package var bytesInFlight: Int { recovery.bytesInFlight }

    /// The bytes of all datagrams sent and received so far.
    package var bytesCarried: UInt64 { traffic.bytesSent &+ traffic.bytesReceived }

    /// The statistics of the connection and its path so far.
    public var statistics: QUICStatistics {
        QUICStatistics(
            latestRTT: recovery.rtt.latest, smoothedRTT: recovery.rtt.smoothed, minimumRTT: recovery.rtt.minimum,
            congestionWindow: recovery.congestionWindow, bytesInFlight: recovery.bytesInFlight,
            pacingRate: recovery.pacingRate, udpPayloadSize: datagramSize, bytesSent: traffic.bytesSent,
            bytesReceived: traffic.bytesReceived, datagramsSent: traffic.datagramsSent,
            datagramsReceived: traffic.datagramsReceived, packetsSent: recovery.statistics.packetsSent,
            packetsReceived: traffic.packetsReceived, lastReceived: traffic.lastReceived,
            packetsLost: recovery.statistics.packetsLost,
            openStreams: streams.openCount)
    }
}

/// The statistics of a connection and its path; times in nanoseconds.
public struct QUICStatistics: Hashable, Sendable {
    /// The newest round-trip time.
    public var latestRTT: Int64
    /// The smoothed round-trip time.
    public var smoothedRTT: Int64
    /// The smallest round-trip time seen.
    public var minimumRTT: Int64
    /// The number of bytes that may be in flight at once.
    public var congestionWindow: Int
    /// The number of bytes in flight.
    public var bytesInFlight: Int
    /// The rate packets leave at, in bytes per second.
    public var pacingRate: Int64
    /// The largest UDP payload sent now.
    public var udpPayloadSize: Int
    /// UDP payload bytes sent.
    public var bytesSent: UInt64
    /// UDP payload bytes received.
    public var bytesReceived: UInt64
    /// Datagrams sent.
    public var datagramsSent: UInt64
    /// Datagrams received.
    public var datagramsReceived: UInt64
    /// Packets sent.
    public var packetsSent: UInt64
    /// Packets received and authentic.
    public var packetsReceived: UInt64
    /// The time the newest of them came.
    public var lastReceived: Timestamp?
    /// Packets declared lost.
    public var packetsLost: UInt64
    /// Streams open now, both ends' together.
    public var openStreams: Int
}

/// The bytes ``QUICConnection/nextTransmit(into:at:)`` wrote, and where to send them.
public struct Transmit: Hashable, Sendable {
    /// The peer's address.
    public var remote: NetworkAddress
    /// The link to send by.
    public var local: LocalLink
    /// The number of bytes written.
    public var length: Int
    /// The size of every datagram in them but the last, which may be shorter.
    public var segmentSize: Int
    /// The two ECN bits to send with.
    public var ecn: UInt8
    /// Another path along which the same bytes are to be sent, too (``QUICConnection/sendOnBoth(_:at:)``).
    public var copy: PathAddress?
}
