/// Answers an endpoint gives without a connection.
public enum StatelessPackets {
    /// Writes a Version Negotiation packet, the answer to ``DatagramHeader/Form/unknownVersion`` in a datagram of at
    /// least 1200 bytes (RFC 9000 §6.1).
    ///
    /// - Returns: how many bytes were written; 64 are enough room.
    public static func versionNegotiation(
        for header: DatagramHeader, into buffer: UnsafeMutableRawBufferPointer, random: UInt64
    ) -> Int {
        guard buffer.count >= 15 + header.source.count + header.destination.count else { return 0 }
        var writer = unsafe PacketWriter(buffer)
        writer.byte(0xC0 | UInt8(truncatingIfNeeded: random))
        writer.uint32(Version.negotiation)
        writer.byte(UInt8(header.source.count))
        writer.connectionID(header.source)
        writer.byte(UInt8(header.destination.count))
        writer.connectionID(header.destination)
        writer.uint32(Version.one)
        // A reserved version, so that clients keep ignoring what they do not know (§6.3).
        writer.uint32(UInt32(truncatingIfNeeded: random >> 8) & 0xF0F0_F0F0 | 0x0A0A_0A0A)
        return writer.count
    }

    /// Writes a stateless reset, the answer to ``DatagramHeader/Form/short`` with an unknown destination (§10.3).
    ///
    /// Always smaller than what it answers, so that two endpoints cannot keep each other busy. Limit its rate.
    ///
    /// - Parameters:
    ///   - header: of the datagram answered.
    ///   - datagramSize: its size.
    ///   - key: the endpoint's ``QUICConfiguration/statelessResetKey``.
    ///   - buffer: 64 bytes are enough room.
    ///   - random: fills the part that looks like a packet.
    /// - Returns: how many bytes were written; 0 when the datagram is too small to be answered.
    public static func statelessReset(
        for header: DatagramHeader, datagramSize: Int, key: [UInt8], into buffer: UnsafeMutableRawBufferPointer,
        random: () -> UInt64
    ) -> Int {
        let size = min(datagramSize - 1, 42, buffer.count)
        guard header.form == .short, size >= 21,
            let token = QUICConnection.resetToken(for: header.destination, key: key)
        else { return 0 }
        var writer = unsafe PacketWriter(buffer)
        writer.byte(0x40 | UInt8(truncatingIfNeeded: random()) & 0x3F)
        while writer.count < size - 16 { writer.byte(UInt8(truncatingIfNeeded: random())) }
        writer.bytes(token.bytes)
        return writer.count
    }

    /// Writes an Initial packet that refuses a new connection with a transport error code.
    ///
    /// - Returns: how many bytes were written; 128 are enough room. 0 when `header` is no Initial.
    public static func refuse(
        _ header: DatagramHeader, code: UInt64 = 0x2, into buffer: UnsafeMutableRawBufferPointer
    ) -> Int {
        guard header.form == .initial, header.version == Version.one, buffer.count >= 128 else { return 0 }
        let keys = PacketKeys.initial(destination: header.destination.bytes, isClient: false).write
        var writer = unsafe PacketWriter(buffer)
        let lengthOffset = writer.longHeader(
            .initial, destination: header.source, source: header.destination, token: [], number: 0, numberLength: 2)
        let headerLength = writer.count
        writer.connectionClose(code: code, frameType: 0, reason: [])
        let payloadLength = writer.count - headerLength
        writer.patchLength(2 + payloadLength + CipherSuite.tagLength, at: lengthOffset)
        unsafe keys.protect(
            writer.base, headerLength: headerLength, packetNumberLength: 2, payloadLength: payloadLength,
            packetNumber: 0)
        return writer.count + CipherSuite.tagLength
    }
}
