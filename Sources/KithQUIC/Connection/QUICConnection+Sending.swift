import KithWire

// Datagrams out: handshake packets coalesced one datagram at a time, 1-RTT packets in batches of equal size.
extension QUICConnection {
    /// The most datagrams one call makes: what one UDP_SEGMENT send takes.
    static var maximumSegments: Int { 64 }

    /// Writes the next datagrams to send.
    ///
    /// - Parameters:
    ///   - buffer: at least 1500 bytes; 64 KiB lets a whole batch be made.
    ///   - now: the time they will be sent.
    /// - Returns: where they go; nil when nothing can be sent before another event.
    public mutating func nextTransmit(into buffer: UnsafeMutableRawBufferPointer, at now: Timestamp) -> Transmit? {
        precondition(buffer.count >= 1500, "a transmit buffer holds at least one datagram")
        switch phase {
        case .drained, .draining: return nil
        case .closing: return unsafe closing.isPending ? writeClose(buffer, at: now) : nil
        case .handshaking, .established: break
        }
        pacedUntil = nil
        beforePLPMTUDProbe = nil
        if isPathDatagramDue(at: now), let transmit = unsafe writePathDatagram(buffer, at: now) {
            return transmit
        }
        let allowance = path.allowance
        guard allowance >= 1200 else {
            recovery.isAmplificationBlocked = true
            return nil
        }
        let length: Int
        if spaces[.initial].writeKeys != nil || spaces[.handshake].writeKeys != nil {
            length = unsafe writeHandshakeDatagram(buffer, at: now)
            if length > 0 { return noteSent(length, segment: length, at: now) }
            guard canUseStreams else { return nil }
        }
        if path.isValidated, isHandshakeConfirmed {
            while let size = recovery.path.mtu.wanted(at: now), size > buffer.count {
                recovery.path.mtu.refused(size, at: now)
            }
            if let size = recovery.path.mtu.wanted(at: now),
                let transmit = unsafe writePLPMTUDProbe(buffer, size: size, at: now)
            {
                return transmit
            }
        }
        // An address not proven yet gets no more than its share, whole datagrams or none.
        return unsafe writeBatch(UnsafeMutableRawBufferPointer(rebasing: buffer.prefix(allowance)), at: now)
    }

    private mutating func noteSent(_ length: Int, segment: Int, at now: Timestamp) -> Transmit {
        path.bytesSent += UInt64(length)
        traffic.bytesSent += UInt64(length)
        traffic.datagramsSent += UInt64((length + segment - 1) / segment)
        // One send carries one mark: what follows may be marked otherwise (RFC 9000 §13.4.1).
        let ecn: UInt8 = recovery.isMarkingECN ? 2 : 0
        recovery.batchEnded()
        var transmit = Transmit(
            remote: path.remote, local: path.address.local, length: length, segmentSize: segment, ecn: ecn)
        if redundantPath != nil { transmit.copy = noteCopy(length) }
        return transmit
    }

    // MARK: - 1-RTT

    /// Fills the buffer with packets of equal size, and protects them all at once.
    private mutating func writeBatch(_ buffer: UnsafeMutableRawBufferPointer, at now: Timestamp) -> Transmit? {
        guard let base = buffer.baseAddress, spaces[.application].writeKeys != nil else { return nil }
        updateKeysIfWorn(at: now)
        if !isOpen { return nil }
        // Peers that said they do not mind see any value there, so that nobody on the path learns to (RFC 9287).
        if peerParameters?.greaseQUICBit ?? false {
            if quicBits.count == 0 { quicBits = (configuration.random(), 64) }
            quicBit = quicBits.bits & 1 == 0 ? 0 : 0x40
            quicBits = (quicBits.bits >> 1, quicBits.count - 1)
        }
        guard let writeKeys = spaces[.application].writeKeys else { return nil }
        let size = min(datagramSize, buffer.count)
        let isProbing = spaces[.application].probes > 0
        var budget = 0
        if isProbing {
            budget = size * spaces[.application].probes
        } else if hasApplicationFrames {
            switch recovery.permission(at: now) {
            case .bytes(let count): budget = count
            case .paced(let until): pacedUntil = until
            case .congestionBlocked: break
            }
        } else {
            recovery.applicationLimited()
        }
        let mayCarryData = budget > 0
        slots.removeAll(keepingCapacity: true)
        var offset = 0
        var isStarved = false
        while slots.count < Self.maximumSegments, buffer.count - offset >= size {
            let mayElicit = budget > 0
            guard mayElicit || (offset == 0 && spaces[.application].received.shouldAcknowledgeNow(at: now)) else {
                break
            }
            let datagram = unsafe UnsafeMutableRawBufferPointer(start: base + offset, count: size)
            let written = unsafe writePacket(datagram, at: offset, mayElicit: mayElicit, isProbe: isProbing, at: now)
            guard written > 0 else {
                isStarved = true
                break
            }
            offset += written
            budget -= written
            if isProbing { spaces[.application].probes -= 1 }
            if written < size {
                isStarved = mayElicit
                break
            }
        }
        if mayCarryData, !isProbing, isStarved { recovery.applicationLimited() }
        if isProbing, offset == 0 { spaces[.application].probes = 0 }
        guard offset > 0 else { return nil }
        unsafe slots.withUnsafeBufferPointer { unsafe writeKeys.protect(base, $0) }
        keys.sealed += UInt64(slots.count)
        return noteSent(offset, segment: min(size, offset), at: now)
    }

    /// Indicates whether a 1-RTT packet would carry anything besides an acknowledgement.
    private var hasApplicationFrames: Bool {
        streams.hasPending && canUseStreams || isHandshakeDonePending || isPingPending
            || outgoingDatagrams.count > 0 || !localIDs.pending.isEmpty || !peerIDs.pending.isEmpty
            || spaces[.application].cryptoSend.hasPending || isNewTokenPending || discovery.isReportPending
    }

    /// Writes one unprotected 1-RTT packet of at most `buffer.count` bytes with room for its tag.
    ///
    /// - Returns: its size with the tag; 0 when there was nothing to say.
    @inline(__always)
    private mutating func writePacket(
        _ buffer: UnsafeMutableRawBufferPointer, at offset: Int, mayElicit: Bool, isProbe: Bool, at now: Timestamp
    ) -> Int {
        guard var packet = unsafe startPacket(.application, fixedBit: quicBit, in: buffer) else { return 0 }
        // Where nothing comes back, what this end knows may not have arrived either.
        if isProbe || spaces[.application].received.hasUnacknowledged { writeAck(&packet, at: now) }
        if mayElicit {
            writeControl(&packet, at: now)
            // Where both wait, each is first in every second packet: neither stops the other.
            let hasBoth = outgoingDatagrams.count > 0 && canUseStreams && streams.hasPending
            if hasBoth { streamsGoFirst.toggle() }
            if hasBoth, streamsGoFirst { writeStreams(&packet) }
            writeDatagrams(&packet)
            if canUseStreams, !(hasBoth && streamsGoFirst) { writeStreams(&packet) }
            // The next datagram waits for a packet of its own. Packets of one size are sent as one; a little padding is
            // cheaper than a send for each.
            if outgoingDatagrams.count > 0, packet.isAckEliciting, packet.writer.room <= datagramSize / 8 {
                packet.fill()
            }
            if isProbe || isPingPending { packet.askForAnswer() }
            if packet.isAckEliciting { isPingPending = false }
        }
        guard !packet.isEmpty else { return 0 }
        packet.end()
        slots.append(packet.slot(at: offset))
        packetSent(packet, isInFlight: packet.isAckEliciting, at: now)
        if optimisticAckDefence.isDue(after: packet.number, random: configuration.random) {
            recovery.skipPacketNumber(.application)
        }
        return packet.size
    }

    @inline(__always)
    private mutating func writeStreams(_ packet: inout PacketBuilder) {
        let written = unsafe streams.writeFrames(into: packet.writer.free, content: &packet.content)
        guard written > 0 else { return }
        packet.writer.advance(written)
        packet.isAckEliciting = true
    }

    @inline(__always)
    private mutating func writeAck(_ packet: inout PacketBuilder, at now: Timestamp) {
        let index = packet.space.rawValue
        let written = unsafe spaces[index].received.writeAck(into: packet.writer.free, delayExponent: 3, at: now)
        guard written > 0 else { return }
        packet.writer.advance(written)
        packet.hasAck = true
        packet.content.largestAcknowledged = spaces[index].received.largest
    }

    /// Writes the frames that are neither acknowledgements nor streams.
    @inline(__always)
    private mutating func writeControl(_ packet: inout PacketBuilder, at now: Timestamp) {
        writeHandshakeDone(&packet)
        if spaces[.application].cryptoSend.hasPending { writeCrypto(&packet) }
        if !localIDs.pending.isEmpty || !peerIDs.pending.isEmpty || isNewTokenPending || discovery.isReportPending {
            writeRareControl(&packet, at: now)
        }
    }

    @inline(__always)
    private mutating func writeDatagrams(_ packet: inout PacketBuilder) {
        while let datagram = outgoingDatagrams.first {
            let length = PacketWriter.datagramLength(datagram.count)
            if length > packet.writer.room {
                // It fits no packet since the path shrank: datagrams may be lost. Otherwise the next packet takes it.
                if datagram.count > maxDatagramSize ?? 0 {
                    outgoingDatagrams.removeFirst()
                    continue
                }
                break
            }
            packet.writer.datagram(datagram)
            outgoingDatagrams.removeFirst()
            packet.isAckEliciting = true
        }
    }

    private mutating func writeRareControl(_ packet: inout PacketBuilder, at now: Timestamp) {
        if discovery.isReportPending, writeObservedAddress(&packet, of: path.address, at: now) {
            discovery.isReportPending = false
        }
        if isNewTokenPending, packet.writer.room >= 4 + AddressTokens.maximumLength {
            isNewTokenPending = false
            if let token = configuration.addressTokens?.laterToken(for: path.remote, at: now) {
                packet.writer.newToken(token)
                packet.content.add(.newToken)
                packet.isAckEliciting = true
            }
        }
        while packet.writer.room >= 54, let (sequence, id) = localIDs.takePending() {
            guard let token = Self.resetToken(for: id, key: configuration.statelessResetKey) else { continue }
            packet.writer.newConnectionID(sequence: sequence, retirePriorTo: 0, id: id, token: token)
            packet.content.add(.newConnectionID(sequence: sequence))
            packet.isAckEliciting = true
        }
        while packet.writer.room >= 9, let sequence = peerIDs.takePending() {
            packet.writer.retireConnectionID(sequence)
            packet.content.add(.retireConnectionID(sequence: sequence))
            packet.isAckEliciting = true
        }
    }

    private mutating func writeCrypto(_ packet: inout PacketBuilder) {
        let index = packet.space.rawValue
        while packet.writer.room > 16 {
            // Two bytes of length and up to four of offset: handshakes are smaller than that allows.
            guard let range = spaces[index].cryptoSend.take(upTo: packet.writer.room - 11) else { return }
            packet.writer.cryptoHeader(offset: range.offset, length: range.length)
            let target = unsafe UnsafeMutableRawBufferPointer(rebasing: packet.writer.free[..<range.length])
            unsafe spaces[index].cryptoSend.copy(offset: range.offset, into: target)
            packet.writer.advance(range.length)
            packet.content.add(crypto: range.offset, length: range.length)
            packet.isAckEliciting = true
        }
    }

    @inline(__always)
    private mutating func writeHandshakeDone(_ packet: inout PacketBuilder) {
        guard isHandshakeDonePending, packet.writer.room >= 1 else { return }
        packet.writer.handshakeDone()
        packet.content.control.insert(.handshakeDone)
        packet.isAckEliciting = true
        isHandshakeDonePending = false
    }

    /// Sends a packet of a size not known to get through (RFC 8899).
    private mutating func writePLPMTUDProbe(
        _ buffer: UnsafeMutableRawBufferPointer, size: Int, at now: Timestamp
    ) -> Transmit? {
        guard let writeKeys = spaces[.application].writeKeys, case .bytes = recovery.permission(at: now) else {
            return nil
        }
        guard
            var packet = unsafe startPacket(
                .application, fixedBit: quicBit, in: UnsafeMutableRawBufferPointer(rebasing: buffer[..<size]))
        else { return nil }
        packet.askForAnswer()
        packet.fill()
        packet.content.control.insert(.pathProbe)
        packet.content.add(.plpmtudProbe(size, path: recovery.path.number))
        seal(packet, writeKeys)
        beforePLPMTUDProbe = state(beforePLPMTUDProbeOf: size)
        recovery.path.mtu.sent()
        packetSent(packet, isInFlight: true, at: now)
        return noteSent(size, segment: size, at: now)
    }

    // MARK: - The handshake

    /// Writes one datagram of Initial, Handshake and 1-RTT packets, as far as there is anything to say.
    private mutating func writeHandshakeDatagram(_ buffer: UnsafeMutableRawBufferPointer, at now: Timestamp) -> Int {
        let size = 1200
        var packets: [PacketBuilder] = []
        var offset = 0
        var mustPad = false
        // Handshakes are small and are not paced: waiting would only make them later.
        let isAllowed = recovery.permission(at: now) != .congestionBlocked
        for space in PacketSpace.allCases
        where spaces[space.rawValue].writeKeys != nil || space == .application && hasEarlyFrames {
            let rest = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[offset..<size])
            guard rest.count >= 128 else { break }
            guard let packet = unsafe writeOpenPacket(rest, space, mayElicit: isAllowed, at: now) else { continue }
            // A client's Initials, and a server's that elicit answers, come in full datagrams (RFC 9000 §14.1).
            if space == .initial, isClient || packet.isAckEliciting { mustPad = true }
            offset += packet.size
            packets.append(packet)
            // Anything but an acknowledgement of 1-RTT goes in the batches that follow.
        }
        guard let last = packets.indices.last else { return 0 }
        if mustPad {
            packets[last].fill()
            offset = size
        }
        for packet in packets {
            guard let writeKeys = packet.isEarly ? early.keys : spaces[packet.space.rawValue].writeKeys else {
                continue
            }
            seal(packet, writeKeys)
            // Padding counts as in flight too (RFC 9002 §2).
            packetSent(packet, isInFlight: packet.isAckEliciting || mustPad, at: now)
        }
        if isClient, packets.contains(where: { $0.space == .handshake }), !spaces[.initial].isDiscarded {
            discard(.initial, at: now)
        }
        return offset
    }

    /// Writes a packet that is protected once its datagram is complete.
    private mutating func writeOpenPacket(
        _ buffer: UnsafeMutableRawBufferPointer, _ space: PacketSpace, mayElicit isAllowed: Bool, at now: Timestamp
    ) -> PacketBuilder? {
        let isProbe = spaces[space.rawValue].probes > 0
        let mayElicit = isAllowed || isProbe
        // Every probe carries what is missing: of two, one may get through.
        if isProbe, !spaces[space.rawValue].cryptoSend.hasPending { spaces[space.rawValue].cryptoSend.rewind() }
        let hasCrypto = spaces[space.rawValue].cryptoSend.hasPending && mayElicit
        let isEarly = space == .application && spaces[.application].writeKeys == nil
        let hasControl = space == .application && mayElicit && isHandshakeDonePending
        if isEarly, !mayElicit { return nil }
        guard
            isEarly || hasCrypto || hasControl || isProbe
                || spaces[space.rawValue].received.shouldAcknowledgeNow(at: now),
            var packet = unsafe startPacket(space, isEarly: isEarly, fixedBit: quicBit, in: buffer)
        else { return nil }
        if !isEarly, spaces[space.rawValue].received.hasUnacknowledged { writeAck(&packet, at: now) }
        if isEarly {
            writeStreams(&packet)
        } else if mayElicit {
            writeCrypto(&packet)
            if hasControl { writeHandshakeDone(&packet) }
        }
        if isProbe {
            packet.askForAnswer()
            spaces[space.rawValue].probes -= 1
        }
        guard !packet.isEmpty else { return nil }
        packet.end()
        return packet
    }

    // MARK: - Closing

    /// Writes the CONNECTION_CLOSE at every level the peer may be able to read (RFC 9000 §10.2.3).
    private mutating func writeClose(_ buffer: UnsafeMutableRawBufferPointer, at now: Timestamp) -> Transmit? {
        closing.isPending = false
        let size = min(1200, path.allowance)
        guard size >= 128 else { return nil }
        var offset = 0
        for space in PacketSpace.allCases {
            guard let writeKeys = spaces[space.rawValue].writeKeys, size - offset >= 128 else { continue }
            if space == .application, phaseBeforeClose == .handshaking, isClient == false { continue }
            // A client's Initial fills its datagram when it has room for nothing else.
            let isOnlyInitial =
                isClient && space == .initial && spaces[.handshake].writeKeys == nil
                && spaces[.application].writeKeys == nil
            let isLast = isOnlyInitial || space == .application || size - offset < 256
            let end = isLast ? size : min(offset + 360, size)
            guard
                var packet = unsafe startPacket(
                    space, room: 48, in: UnsafeMutableRawBufferPointer(rebasing: buffer[offset..<end]))
            else { continue }
            writeCloseFrame(&packet)
            if isOnlyInitial { packet.fill() } else { packet.end() }
            seal(packet, writeKeys)
            packetSent(packet, isInFlight: false, at: now)
            offset += packet.size
        }
        guard offset > 0 else { return nil }
        return noteSent(offset, segment: offset, at: now)
    }

    /// Indicates whether 1-RTT was usable when the connection was closed.
    private var phaseBeforeClose: Phase { tls.isComplete ? .established : .handshaking }

    private func writeCloseFrame(_ packet: inout PacketBuilder) {
        switch closing.frame {
        case .none: preconditionFailure("closing begins with a frame to send")
        case .transport(let error):
            packet.writer.connectionClose(
                code: error.code, frameType: error.frameType, reason: Array(error.reason.utf8))
        case .application(let code, let reason):
            if packet.space == .application {
                packet.writer.applicationClose(code: code, reason: reason)
            } else {
                // What the application says is for the peer alone, and these packets are not yet (RFC 9000 §10.2.3).
                packet.writer.connectionClose(
                    code: TransportError.Code.applicationError.rawValue, frameType: 0, reason: [])
            }
        }
    }
}
