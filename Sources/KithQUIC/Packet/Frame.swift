import KithWire

/// One QUIC frame as it stands in a decrypted packet (RFC 9000 §19, RFC 9221, draft-ietf-quic-address-discovery).
///
/// Its byte runs are views into the packet: it lives no longer than that, and making one allocates nothing.
@safe enum Frame {
    case padding(Int)
    case ping
    case acknowledgement(AcknowledgementFrame)
    case resetStream(id: UInt64, code: UInt64, finalSize: UInt64)
    case stopSending(id: UInt64, code: UInt64)
    case crypto(offset: UInt64, bytes: UnsafeRawBufferPointer)
    case newToken(UnsafeRawBufferPointer)
    case stream(id: UInt64, offset: UInt64, bytes: UnsafeRawBufferPointer, isFinished: Bool)
    case maxData(UInt64)
    case maxStreamData(id: UInt64, limit: UInt64)
    case maxStreams(isBidirectional: Bool, limit: UInt64)
    case dataBlocked(UInt64)
    case streamDataBlocked(id: UInt64, limit: UInt64)
    case streamsBlocked(isBidirectional: Bool, limit: UInt64)
    case newConnectionID(sequence: UInt64, retirePriorTo: UInt64, id: ConnectionID, token: ResetToken)
    case retireConnectionID(UInt64)
    case pathChallenge(UInt64)
    case pathResponse(UInt64)
    case connectionClose(code: UInt64, frameType: UInt64, reason: UnsafeRawBufferPointer)
    case applicationClose(code: UInt64, reason: UnsafeRawBufferPointer)
    case handshakeDone
    case datagram(UnsafeRawBufferPointer)
    case observedAddress(sequence: UInt64, NetworkAddress)
}

/// An ACK frame whose ranges are still encoded; their bounds have been checked.
@safe struct AcknowledgementFrame {
    /// The largest packet number acknowledged.
    var largest: UInt64
    /// The delay as sent: not yet scaled by the peer's exponent.
    var delay: UInt64
    /// The number of packets directly before `largest` that are acknowledged with it.
    var firstRange: UInt64
    /// The remaining gap and range pairs, encoded.
    var ranges: UnsafeRawBufferPointer
    /// The numbers of packets that arrived with each mark; nil when the frame carries no counts.
    var counts: ECNCounts?

    /// Calls `body` with each range of packet numbers, the largest first.
    @inline(__always)
    func forEachRange(_ body: (_ smallest: UInt64, _ largest: UInt64) -> Void) {
        var smallest = largest - firstRange
        body(smallest, largest)
        var reader = unsafe PacketReader(ranges)
        // Checked when parsed: it ends where the ranges do.
        while let gap = try? reader.varint(), let length = try? reader.varint() {
            let top = smallest - gap - 2
            smallest = top - length
            body(smallest, top)
        }
    }
}

/// Frame type numbers (RFC 9000 §19).
enum FrameType {
    static let padding: UInt64 = 0x00
    static let ping: UInt64 = 0x01
    static let acknowledgement: UInt64 = 0x02
    static let acknowledgementECN: UInt64 = 0x03
    static let resetStream: UInt64 = 0x04
    static let stopSending: UInt64 = 0x05
    static let crypto: UInt64 = 0x06
    static let newToken: UInt64 = 0x07
    static let stream: UInt64 = 0x08
    static let maxData: UInt64 = 0x10
    static let maxStreamData: UInt64 = 0x11
    static let maxStreamsBidirectional: UInt64 = 0x12
    static let maxStreamsUnidirectional: UInt64 = 0x13
    static let dataBlocked: UInt64 = 0x14
    static let streamDataBlocked: UInt64 = 0x15
    static let streamsBlockedBidirectional: UInt64 = 0x16
    static let streamsBlockedUnidirectional: UInt64 = 0x17
    static let newConnectionID: UInt64 = 0x18
    static let retireConnectionID: UInt64 = 0x19
    static let pathChallenge: UInt64 = 0x1A
    static let pathResponse: UInt64 = 0x1B
    static let connectionClose: UInt64 = 0x1C
    static let applicationClose: UInt64 = 0x1D
    static let handshakeDone: UInt64 = 0x1E
    static let datagram: UInt64 = 0x30
    static let datagramLength: UInt64 = 0x31
    static let observedIPv4: UInt64 = 0x9F_81A6
    static let observedIPv6: UInt64 = 0x9F_81A7
}

extension Frame {
    /// Reads the next frame.
    ///
    /// - Throws: FRAME_ENCODING_ERROR for an unknown type or a malformed frame; PROTOCOL_VIOLATION for a
    ///   type not written in its shortest form (RFC 9000 §12.4).
    @inline(__always)
    static func read(_ reader: inout PacketReader) throws(TransportError) -> Frame {
        let start = unsafe reader.position
        let type: UInt64
        do {
            type = try reader.varint()
        } catch {
            throw TransportError(.frameEncoding, "no frame type")
        }
        if type >= FrameType.stream && type <= FrameType.stream | 7 {
            do {
                return try readStream(&reader, type: type)
            } catch {
                throw TransportError(.frameEncoding, frameType: type, "malformed frame")
            }
        }
        guard unsafe reader.position - start == PacketWriter.varintLength(type) else {
            throw TransportError(.protocolViolation, frameType: type, "frame type not in its shortest form")
        }
        let frame: Frame?
        do {
            frame = try readOther(&reader, type: type)
        } catch {
            frame = nil
        }
        guard let frame else { throw TransportError(.frameEncoding, frameType: type, "unknown or malformed frame") }
        return frame
    }

    @inline(__always)
    private static func readStream(_ reader: inout PacketReader, type: UInt64) throws(Truncated) -> Frame {
        let id = try reader.varint()
        let offset = type & 4 != 0 ? try reader.varint() : 0
        let bytes = unsafe type & 2 != 0 ? try reader.prefixedBytes() : try reader.bytes(reader.remaining)
        guard offset + UInt64(bytes.count) < 1 << 62 else { throw Truncated() }
        return unsafe .stream(id: id, offset: offset, bytes: bytes, isFinished: type & 1 != 0)
    }

    /// Reads every frame that is not STREAM; nil for an unknown type or a field out of range.
    private static func readOther(_ reader: inout PacketReader, type: UInt64) throws(Truncated) -> Frame? {
        switch type {
        case FrameType.padding: return .padding(1 + reader.skipZeros())
        case FrameType.ping: return .ping
        case FrameType.acknowledgement, FrameType.acknowledgementECN:
            return try readAcknowledgement(&reader, hasCounts: type == FrameType.acknowledgementECN)
        case FrameType.resetStream:
            return .resetStream(id: try reader.varint(), code: try reader.varint(), finalSize: try reader.varint())
        case FrameType.stopSending: return .stopSending(id: try reader.varint(), code: try reader.varint())
        case FrameType.crypto:
            let offset = try reader.varint()
            let bytes = unsafe try reader.prefixedBytes()
            guard offset + UInt64(bytes.count) < 1 << 62 else { return nil }
            return unsafe .crypto(offset: offset, bytes: bytes)
        case FrameType.newToken:
            let token = unsafe try reader.prefixedBytes()
            return unsafe token.isEmpty ? nil : .newToken(token)
        case FrameType.maxData: return .maxData(try reader.varint())
        case FrameType.maxStreamData: return .maxStreamData(id: try reader.varint(), limit: try reader.varint())
        case FrameType.maxStreamsBidirectional, FrameType.maxStreamsUnidirectional:
            let limit = try reader.varint()
            guard limit <= 1 << 60 else { return nil }
            return .maxStreams(isBidirectional: type == FrameType.maxStreamsBidirectional, limit: limit)
        case FrameType.dataBlocked: return .dataBlocked(try reader.varint())
        case FrameType.streamDataBlocked:
            return .streamDataBlocked(id: try reader.varint(), limit: try reader.varint())
        case FrameType.streamsBlockedBidirectional, FrameType.streamsBlockedUnidirectional:
            let limit = try reader.varint()
            guard limit <= 1 << 60 else { return nil }
            return .streamsBlocked(isBidirectional: type == FrameType.streamsBlockedBidirectional, limit: limit)
        case FrameType.newConnectionID: return try readNewConnectionID(&reader)
        case FrameType.retireConnectionID: return .retireConnectionID(try reader.varint())
        case FrameType.pathChallenge: return .pathChallenge(try reader.uint64())
        case FrameType.pathResponse: return .pathResponse(try reader.uint64())
        case FrameType.connectionClose:
            let code = try reader.varint()
            let frameType = try reader.varint()
            return unsafe .connectionClose(code: code, frameType: frameType, reason: try reader.prefixedBytes())
        case FrameType.applicationClose:
            return unsafe .applicationClose(code: try reader.varint(), reason: try reader.prefixedBytes())
        case FrameType.handshakeDone: return .handshakeDone
        case FrameType.datagram: return unsafe .datagram(try reader.bytes(reader.remaining))
        case FrameType.datagramLength: return unsafe .datagram(try reader.prefixedBytes())
        case FrameType.observedIPv4, FrameType.observedIPv6:
            return try readObservedAddress(&reader, isIPv6: type == FrameType.observedIPv6)
        default: return nil
        }
    }

    private static func readObservedAddress(
        _ reader: inout PacketReader, isIPv6: Bool
    ) throws(Truncated) -> Frame? {
        let sequence = try reader.varint()
        let ip = unsafe [UInt8](try reader.bytes(isIPv6 ? 16 : 4))
        let port = UInt16(try reader.byte()) << 8 | UInt16(try reader.byte())
        guard let address = NetworkAddress(ip: ip, port: port) else { return nil }
        return .observedAddress(sequence: sequence, address)
    }

    private static func readNewConnectionID(_ reader: inout PacketReader) throws(Truncated) -> Frame? {
        let sequence = try reader.varint()
        let retirePriorTo = try reader.varint()
        let length = Int(try reader.byte())
        guard length >= 1, length <= ConnectionID.maximumLength, retirePriorTo <= sequence else { return nil }
        let id = unsafe ConnectionID(copying: try reader.bytes(length))
        let token = unsafe ResetToken(copying: try reader.bytes(16))
        return .newConnectionID(sequence: sequence, retirePriorTo: retirePriorTo, id: id, token: token)
    }

    private static func readAcknowledgement(
        _ reader: inout PacketReader, hasCounts: Bool
    ) throws(Truncated) -> Frame? {
        let largest = try reader.varint()
        let delay = try reader.varint()
        let rangeCount = try reader.varint()
        let firstRange = try reader.varint()
        // A range takes two bytes at least: a count beyond that is a lie, found before the walk.
        guard firstRange <= largest, rangeCount <= UInt64(reader.remaining / 2) else { return nil }
        var smallest = largest - firstRange
        let start = unsafe reader.position
        for _ in 0..<rangeCount {
            let gap = try reader.varint()
            let length = try reader.varint()
            guard gap + 2 <= smallest, length <= smallest - gap - 2 else { return nil }
            smallest -= gap + 2 + length
        }
        let ranges = unsafe UnsafeRawBufferPointer(start: start, count: reader.position - start)
        var counts: ECNCounts?
        if hasCounts {
            let ect0 = try reader.varint()
            let ect1 = try reader.varint()
            counts = ECNCounts(ect0: ect0, ect1: ect1, ce: try reader.varint())
        }
        return unsafe .acknowledgement(
            AcknowledgementFrame(
                largest: largest, delay: delay, firstRange: firstRange, ranges: ranges, counts: counts))
    }

    /// Indicates whether a packet with this frame asks for an acknowledgement (RFC 9002 §2).
    @inline(__always)
    var isAckEliciting: Bool {
        switch self {
        case .padding, .acknowledgement, .connectionClose, .applicationClose: false
        default: true
        }
    }

    /// Indicates whether the frame may stand in an Initial or Handshake packet (RFC 9000 §12.4 table 3).
    var isAllowedInHandshake: Bool {
        switch self {
        case .padding, .ping, .acknowledgement, .crypto, .connectionClose: true
        default: false
        }
    }

    /// Indicates whether a packet of only such frames keeps the path unchanged (RFC 9000 §9.1).
    @inline(__always)
    var isProbing: Bool {
        switch self {
        case .padding, .pathChallenge, .pathResponse, .newConnectionID, .observedAddress: true
        default: false
        }
    }
}
