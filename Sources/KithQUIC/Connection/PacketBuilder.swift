/// One packet under construction: whatever this end sends on a connection is made by one.
///
/// ``QUICConnection/startPacket(_:isEarly:to:fixedBit:room:in:)`` writes the header, the caller writes frames through
/// ``writer``, ``QUICConnection/packetSent(_:isInFlight:isMarkable:at:)`` notes what it carries. It is sealed alone, or
/// with others of its batch.
struct PacketBuilder {
    /// Its number space.
    let space: PacketSpace
    /// Indicates whether it is a 0-RTT packet.
    let isEarly: Bool
    let number: UInt64
    let numberLength: Int
    let headerLength: Int
    /// The offset of a long header's Length field.
    let lengthOffset: Int?
    /// Its bytes, from the first of the header; the tag's room is not among them.
    var writer: PacketWriter
    /// The content it carries, to be sent again or forgotten.
    var content = SentContent()
    var isAckEliciting = false
    var hasAck = false

    /// Indicates whether no frame has been written.
    @inline(__always)
    var isEmpty: Bool { writer.count == headerLength }

    /// The number of bytes of frames in it.
    @inline(__always)
    var payloadLength: Int { writer.count - headerLength }

    /// Its size with the tag.
    @inline(__always)
    var size: Int { writer.count + CipherSuite.tagLength }

    /// Writes a PING, when nothing else asks for an answer.
    @inline(__always)
    mutating func askForAnswer() {
        guard !isAckEliciting, writer.room > 0 else { return }
        writer.ping()
        content.control.insert(.ping)
        isAckEliciting = true
    }

    /// Pads it to what header protection needs: it samples 16 bytes from 4 bytes after the number's start
    /// (RFC 9001 §5.4.2).
    @inline(__always)
    mutating func end() { writer.pad(to: headerLength + 4) }

    /// Pads it to the end of its buffer.
    mutating func fill() { writer.pad(to: writer.capacity) }

    /// Its place in a batch that begins at `start` bytes before it.
    @inline(__always)
    func slot(at start: Int) -> PacketSlot {
        PacketSlot(
            offset: start, headerLength: headerLength, packetNumberLength: numberLength, payloadLength: payloadLength,
            packetNumber: number)
    }
}

extension QUICConnection {
    /// Starts a packet with the space's next number at the front of `buffer`.
    ///
    /// - Parameters:
    ///   - space: its number space.
    ///   - isEarly: whether it is a 0-RTT packet.
    ///   - destination: the peer's id it is sent to, if not that of the path in use.
    ///   - fixedBit: of a short header (RFC 9287).
    ///   - room: how many bytes must be left after a long header, whose length is the peer's choice in part.
    ///   - buffer: where it goes, with the room for its tag.
    /// - Returns: nil when the header leaves less.
    @inline(__always)
    func startPacket(
        _ space: PacketSpace, isEarly: Bool = false, to destination: ConnectionID? = nil, fixedBit: UInt8 = 0x40,
        room: Int = 32, in buffer: UnsafeMutableRawBufferPointer
    ) -> PacketBuilder? {
        var writer = unsafe PacketWriter(
            UnsafeMutableRawBufferPointer(rebasing: buffer[..<(buffer.count - CipherSuite.tagLength)]))
        let number = recovery.nextPacketNumber(space)
        let numberLength = PacketNumber.encodedLength(
            number, largestAcknowledged: recovery.largestAcknowledged(space))
        let destination = destination ?? peerIDs.current
        var lengthOffset: Int?
        if space == .application, !isEarly {
            writer.shortHeader(
                destination: destination, keyPhase: keys.isOdd, number: number, numberLength: numberLength,
                fixedBit: fixedBit)
        } else {
            let kind: PacketHeader.Kind = isEarly ? .zeroRTT : space == .initial ? .initial : .handshake
            let needed = PacketWriter.longHeaderLength(
                kind, destination: destination, source: firstLocalID, token: token, numberLength: numberLength)
            guard writer.room >= needed + room else { return nil }
            lengthOffset = writer.longHeader(
                kind, version, destination: destination, source: firstLocalID, token: token, number: number,
                numberLength: numberLength)
        }
        return PacketBuilder(
            space: space, isEarly: isEarly, number: number, numberLength: numberLength, headerLength: writer.count,
            lengthOffset: lengthOffset, writer: writer)
    }

    /// Notes that a packet is on its way.
    ///
    /// One that is not `isInFlight` counts neither against the window of the path in use nor as activity; one that is not
    /// `isMarkable` goes by itself, unmarked.
    @inline(__always)
    mutating func packetSent(
        _ packet: borrowing PacketBuilder, isInFlight: Bool, isMarkable: Bool = true, at now: Timestamp
    ) {
        if packet.hasAck { spaces[packet.space.rawValue].received.acknowledgementSent() }
        // Sending something that wants an answer restarts the idle timer once per silence (RFC 9000 §10.1).
        if packet.isAckEliciting, isInFlight, !hasSentSinceReceipt {
            hasSentSinceReceipt = true
            lastActivity = now
        }
        recovery.sent(
            packet.space, size: packet.size, isAckEliciting: packet.isAckEliciting, isInFlight: isInFlight,
            isMarkable: isMarkable && recovery.isMarkingECN, content: packet.content, at: now)
        log?.packetSent(packet.space, number: packet.number, size: packet.size, isEarly: packet.isEarly, at: now)
    }

    /// Protects one packet where it stands.
    mutating func seal(_ packet: borrowing PacketBuilder, _ writeKeys: PacketKeys) {
        if let lengthOffset = packet.lengthOffset {
            packet.writer.patchLength(
                packet.numberLength + packet.payloadLength + CipherSuite.tagLength, at: lengthOffset)
        }
        unsafe writeKeys.protect(
            packet.writer.base, headerLength: packet.headerLength, packetNumberLength: packet.numberLength,
            payloadLength: packet.payloadLength, packetNumber: packet.number)
        if packet.space == .application, !packet.isEarly { keys.sealed += 1 }
    }
}
