/// The part of a datagram readable without keys: enough to find its connection, or to answer without one.
public struct DatagramHeader: Hashable, Sendable {
    /// The kind of a datagram's first packet.
    @frozen
    public enum Form: Hashable, Sendable {
        /// It asks for a connection, or continues to.
        case initial
        /// Early data.
        case zeroRTT
        /// A later packet of the handshake.
        case handshake
        /// The server wants the client's address proven first.
        case retry
        /// The server lists the versions it speaks.
        case versionNegotiation
        /// A packet of an established connection, or a stateless reset.
        case short
        /// A long header of a version this engine does not speak.
        case unknownVersion
    }

    /// The kind of the first packet.
    public var form: Form
    /// The version in a long header; 0 in a short one.
    public var version: UInt32
    /// The Destination Connection ID.
    public var destination: ConnectionID
    /// The sender's own id; empty in a short header.
    public var source: ConnectionID
    /// The range of an Initial's token in the datagram; empty when there is none.
    public var token: Range<Int>

    /// Reads the front of `datagram`; nil when it cannot be QUIC.
    ///
    /// - Parameters:
    ///   - datagram: the bytes as received; they are not changed.
    ///   - localConnectionIDLength: how long the ids of this endpoint are, which a short header does not say.
    public init?(_ datagram: UnsafeRawBufferPointer, localConnectionIDLength: Int = ConnectionID.localLength) {
        guard let parsed = unsafe try? Self.parse(datagram, localConnectionIDLength) else { return nil }
        self = parsed
    }

    private init(
        form: Form, version: UInt32, destination: ConnectionID, source: ConnectionID, token: Range<Int> = 0..<0
    ) {
        self.form = form
        self.version = version
        self.destination = destination
        self.source = source
        self.token = token
    }

    private static func parse(_ datagram: UnsafeRawBufferPointer, _ localLength: Int) throws(Truncated)
        -> DatagramHeader?
    {
        var reader = unsafe PacketReader(datagram)
        let first = try reader.byte()
        if first & 0x80 == 0 {
            let destination = unsafe ConnectionID(copying: try reader.bytes(localLength))
            return DatagramHeader(form: .short, version: 0, destination: destination, source: ConnectionID())
        }
        let version = try reader.uint32()
        guard
            let destination = try PacketHeader.connectionID(&reader),
            let source = try PacketHeader.connectionID(&reader)
        else { return nil }
        var token = 0..<0
        let form: Form
        if version == QUICVersion.negotiation {
            form = .versionNegotiation
        } else if let known = QUICVersion(rawValue: version) {
            switch known.kind(typeBits: first >> 4) {
            case .zeroRTT: form = .zeroRTT
            case .handshake: form = .handshake
            case .retry: form = .retry
            case .initial, .short, .versionNegotiation:
                form = .initial
                let length = try reader.varint()
                guard length <= UInt64(reader.remaining) else { return nil }
                let start = datagram.count - reader.remaining
                token = start..<start + Int(length)
            }
        } else {
            form = .unknownVersion
        }
        return DatagramHeader(form: form, version: version, destination: destination, source: source, token: token)
    }
}
