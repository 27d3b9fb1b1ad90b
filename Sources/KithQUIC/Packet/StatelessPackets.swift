public import KithWire

/// Answers an endpoint gives without a connection.
public enum StatelessPackets {
    /// The size of the largest stateless reset written here, in bytes.
    package static let largestReset = 42

    /// Writes a Version Negotiation packet, the answer to ``DatagramHeader/Form/unknownVersion`` in a datagram of at
    /// least 1200 bytes (RFC 9000 §6.1).
    ///
    /// - Returns: how many bytes were written; 64 are enough room.
    public static func versionNegotiation(
        for header: DatagramHeader, versions: [QUICVersion] = [.one, .two], into buffer: UnsafeMutableRawBufferPointer,
        random: UInt64
    ) -> Int {
        guard buffer.count >= 11 + 4 * versions.count + header.source.count + header.destination.count else { return 0 }
        var writer = unsafe PacketWriter(buffer)
        writer.byte(0xC0 | UInt8(truncatingIfNeeded: random))
        writer.uint32(QUICVersion.negotiation)
        writer.byte(UInt8(header.source.count))
        writer.connectionID(header.source)
        writer.byte(UInt8(header.destination.count))
        writer.connectionID(header.destination)
        for version in versions { writer.uint32(version.rawValue) }
        // A reserved version, so that clients keep ignoring what they do not know (§6.3).
        writer.uint32(QUICVersion.reserved(UInt32(truncatingIfNeeded: random >> 8)))
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
        let size = min(datagramSize - 1, largestReset, buffer.count)
        guard header.form == .short, size >= 21,
            let token = QUICConnection.resetToken(for: header.destination, key: key)
        else { return 0 }
        var writer = unsafe PacketWriter(buffer)
        writer.byte(0x40 | UInt8(truncatingIfNeeded: random()) & 0x3F)
        while writer.count < size - 16 { writer.byte(UInt8(truncatingIfNeeded: random())) }
        writer.bytes(token.bytes)
        return writer.count
    }

    /// Writes a Retry packet, which makes a client come again with a token that proves its address (RFC 9000 §8.1.2).
    ///
    /// Nothing is kept: the token carries all that the second attempt needs. Remember neither the client nor `source`.
    ///
    /// - Parameters:
    ///   - header: of the client's first datagram.
    ///   - remote: where it came from.
    ///   - tokens: seals the token, and opens it when it comes back.
    ///   - buffer: 256 bytes are enough room.
    ///   - now: the time the token's life begins.
    ///   - random: becomes the id the client addresses next.
    /// - Returns: how many bytes were written; 0 when `header` is not an Initial, or there is no room.
    public static func retry(
        for header: DatagramHeader, from remote: NetworkAddress, tokens: AddressTokens,
        into buffer: UnsafeMutableRawBufferPointer, at now: Timestamp, random: UInt64
    ) -> Int {
        guard header.form == .initial, let version = QUICVersion(rawValue: header.version) else { return 0 }
        let source = ConnectionID(random: random)
        let token = tokens.retryToken(original: header.destination, source: source, for: remote, at: now)
        guard buffer.count >= 7 + 2 * ConnectionID.maximumLength + token.count + RetryIntegrity.tagLength else {
            return 0
        }
        var writer = unsafe PacketWriter(buffer)
        writer.byte(0xC0 | version.typeBits(.retry) << 4 | UInt8(truncatingIfNeeded: random & 0x0F))
        writer.uint32(version.rawValue)
        writer.byte(UInt8(header.source.count))
        writer.connectionID(header.source)
        writer.byte(UInt8(source.count))
        writer.connectionID(source)
        writer.bytes(token)
        let tag = unsafe RetryIntegrity.tag(
            original: header.destination.bytes, retry: UnsafeRawBufferPointer(rebasing: buffer[..<writer.count]),
            version)
        writer.bytes(tag)
        return writer.count
    }

    /// Writes an Initial packet that refuses a new connection with a transport error code.
    ///
    /// - Returns: how many bytes were written; 128 are enough room. 0 when `header` is not an Initial.
    public static func refuse(
        _ header: DatagramHeader, code: UInt64 = 0x2, into buffer: UnsafeMutableRawBufferPointer
    ) -> Int {
        guard header.form == .initial, let version = QUICVersion(rawValue: header.version), buffer.count >= 128 else {
            return 0
        }
        let keys = PacketKeys.initial(destination: header.destination.bytes, isClient: false, version).write
        var writer = unsafe PacketWriter(buffer)
        let lengthOffset = writer.longHeader(
            .initial, version, destination: header.source, source: header.destination, token: [], number: 0,
            numberLength: 2)
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
