import KithWire

// Encoders of the frames the connection itself sends. Stream frames and the windows are written by the stream
// table, ACK frames by the list of received packets.
extension PacketWriter {
    /// Writes PING.
    mutating func ping() { byte(UInt8(FrameType.ping)) }

    /// Writes HANDSHAKE_DONE.
    mutating func handshakeDone() { byte(UInt8(FrameType.handshakeDone)) }

    /// The bytes a CRYPTO frame needs besides its data.
    static func cryptoOverhead(offset: UInt64, length: Int) -> Int {
        1 + varintLength(offset) + varintLength(UInt64(length))
    }

    /// Writes the head of a CRYPTO frame; `length` bytes of data follow.
    mutating func cryptoHeader(offset: UInt64, length: Int) {
        byte(UInt8(FrameType.crypto))
        varint(offset)
        varint(UInt64(length))
    }

    /// Writes NEW_CONNECTION_ID.
    mutating func newConnectionID(sequence: UInt64, retirePriorTo: UInt64, id: ConnectionID, token: ResetToken) {
        byte(UInt8(FrameType.newConnectionID))
        varint(sequence)
        varint(retirePriorTo)
        byte(UInt8(id.count))
        connectionID(id)
        bytes(token.bytes)
    }

    /// Writes NEW_TOKEN.
    mutating func newToken(_ token: [UInt8]) {
        byte(UInt8(FrameType.newToken))
        varint(UInt64(token.count))
        bytes(token)
    }

    /// Writes RETIRE_CONNECTION_ID.
    mutating func retireConnectionID(_ sequence: UInt64) {
        byte(UInt8(FrameType.retireConnectionID))
        varint(sequence)
    }

    /// Writes PATH_CHALLENGE.
    mutating func pathChallenge(_ data: UInt64) {
        byte(UInt8(FrameType.pathChallenge))
        uint64(data)
    }

    /// Writes PATH_RESPONSE.
    mutating func pathResponse(_ data: UInt64) {
        byte(UInt8(FrameType.pathResponse))
        uint64(data)
    }

    /// Writes CONNECTION_CLOSE of the transport, its reason cut to what fits.
    mutating func connectionClose(code: UInt64, frameType: UInt64, reason: [UInt8]) {
        byte(UInt8(FrameType.connectionClose))
        varint(code)
        varint(frameType)
        closeReason(reason)
    }

    /// Writes CONNECTION_CLOSE of the application, its reason cut to what fits.
    mutating func applicationClose(code: UInt64, reason: [UInt8]) {
        byte(UInt8(FrameType.applicationClose))
        varint(code)
        closeReason(reason)
    }

    private mutating func closeReason(_ reason: [UInt8]) {
        let count = min(reason.count, max(0, room - 2), 1024)
        varint(UInt64(count))
        bytes([UInt8](reason.prefix(count)))
    }

    /// The most bytes an OBSERVED_ADDRESS frame takes.
    static let maximumObservedAddress = 4 + 8 + 16 + 2

    /// Writes OBSERVED_ADDRESS.
    mutating func observedAddress(sequence: UInt64, _ address: NetworkAddress) {
        varint(address.isIPv6 ? FrameType.observedIPv6 : FrameType.observedIPv4)
        varint(sequence)
        bytes(address.ip)
        byte(UInt8(address.port >> 8))
        byte(UInt8(truncatingIfNeeded: address.port))
    }

    /// Writes DATAGRAM with its length.
    mutating func datagram(_ payload: [UInt8]) {
        byte(UInt8(FrameType.datagramLength))
        varint(UInt64(payload.count))
        bytes(payload)
    }

    /// The bytes a DATAGRAM frame of `count` bytes takes.
    static func datagramLength(_ count: Int) -> Int { 1 + varintLength(UInt64(count)) + count }
}
