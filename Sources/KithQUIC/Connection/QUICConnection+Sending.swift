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
        beforeSizeProbe = nil
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
            while let size = sizeProbe.wanted(at: now), size > buffer.count { sizeProbe.refused(size, at: now) }
            if let size = sizeProbe.wanted(at: now), let transmit = unsafe writeSizeProbe(buffer, size: size, at: now) {
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
        return Transmit(
            remote: path.remote, local: path.address.local, length: length, segmentSize: segment, ecn: ecn)
    }

    /// What one packet under construction has become.
    private struct Draft {
        var content = SentContent()
        var isAckEliciting = false
        var hasAck = false
    }

    /// Sending something that wants an answer restarts the idle timer once per silence (RFC 9000 §10.1).
    @inline(__always)
    private mutating func noteElicited(at now: Timestamp) {
        if !hasSentSinceReceipt {
            hasSentSinceReceipt = true
            lastActivity = now
        }
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

    /// Whether a 1-RTT packet would carry anything besides an acknowledgement.
    private var hasApplicationFrames: Bool {
        streams.hasPending && canUseStreams || isHandshakeDonePending || isPingPending
            || outgoingDatagrams.count > 0 || !localIDs.pending.isEmpty || !peerIDs.pending.isEmpty
            || spaces[.application].cryptoSend.hasPending || isNewTokenPending
    }

    /// Writes one unprotected 1-RTT packet of at most `buffer.count` bytes with room for its tag.
    ///
    /// - Returns: its size with the tag; 0 when there was nothing to say.
    @inline(__always)
    private mutating func writePacket(
        _ buffer: UnsafeMutableRawBufferPointer, at offset: Int, mayElicit: Bool, isProbe: Bool, at now: Timestamp
    ) -> Int {
        var writer = unsafe PacketWriter(
            UnsafeMutableRawBufferPointer(rebasing: buffer[..<(buffer.count - CipherSuite.tagLength)]))
        var draft = Draft()
        let number = recovery.nextPacketNumber(.application)
        let numberLength = PacketNumber.encodedLength(
            number, largestAcknowledged: recovery.largestAcknowledged(.application))
        writer.shortHeader(
            destination: peerIDs.current, keyPhase: keys.isOdd, number: number, numberLength: numberLength,
            fixedBit: quicBit)
        let headerLength = writer.count
        if spaces[.application].received.hasUnacknowledged { writeAck(.application, &writer, &draft, at: now) }
        if mayElicit {
            writeControl(&writer, &draft, at: now)
            if canUseStreams {
                let taken = unsafe streams.writeFrames(into: writer.free, content: &draft.content)
                if taken > 0 {
                    draft.isAckEliciting = true
                    writer.advance(taken)
                }
            }
            if isProbe || isPingPending, !draft.isAckEliciting, writer.room > 0 {
                writer.ping()
                draft.content.control.insert(.ping)
                draft.isAckEliciting = true
            }
            if draft.isAckEliciting { isPingPending = false }
        }
        guard writer.count > headerLength else { return 0 }
        // Header protection samples 16 bytes from 4 bytes after the number's start (RFC 9001 §5.4.2).
        writer.pad(to: headerLength + 4)
        let size = writer.count + CipherSuite.tagLength
        slots.append(
            PacketSlot(
                offset: offset, headerLength: headerLength, packetNumberLength: numberLength,
                payloadLength: writer.count - headerLength, packetNumber: number))
        if draft.hasAck { spaces[.application].received.acknowledgementSent() }
        if draft.isAckEliciting { noteElicited(at: now) }
        recovery.sent(
            .application, size: size, isAckEliciting: draft.isAckEliciting, isInFlight: draft.isAckEliciting,
            isMarkable: recovery.isMarkingECN, content: draft.content, at: now)
        log?.packetSent(.application, number: number, size: size, at: now)
        if numberSkips.isDue(after: number, random: configuration.random) { recovery.skipPacketNumber(.application) }
        return size
    }

    @inline(__always)
    private mutating func writeAck(
        _ space: PacketSpace, _ writer: inout PacketWriter, _ draft: inout Draft, at now: Timestamp
    ) {
        let written = unsafe spaces[space.rawValue].received.writeAck(into: writer.free, delayExponent: 3, at: now)
        guard written > 0 else { return }
        writer.advance(written)
        draft.hasAck = true
        draft.content.largestAcknowledged = spaces[space.rawValue].received.largest
    }

    /// Writes the frames that are neither acknowledgements nor streams.
    @inline(__always)
    private mutating func writeControl(_ writer: inout PacketWriter, _ draft: inout Draft, at now: Timestamp) {
        if isHandshakeDonePending, writer.room >= 1 {
            writer.handshakeDone()
            draft.content.control.insert(.handshakeDone)
            draft.isAckEliciting = true
            isHandshakeDonePending = false
        }
        if spaces[.application].cryptoSend.hasPending { writeCrypto(.application, &writer, &draft) }
        if !localIDs.pending.isEmpty || !peerIDs.pending.isEmpty || isNewTokenPending {
            writeRareControl(&writer, &draft, at: now)
        }
        while let datagram = outgoingDatagrams.first {
            let length = PacketWriter.datagramLength(datagram.count)
            if length > writer.room {
                // It fits no packet since the path shrank: datagrams may be lost. Otherwise the next packet takes it.
                if datagram.count > maxDatagramSize ?? 0 {
                    outgoingDatagrams.removeFirst()
                    continue
                }
                break
            }
            writer.datagram(datagram)
            outgoingDatagrams.removeFirst()
            draft.isAckEliciting = true
        }
    }

    private mutating func writeRareControl(_ writer: inout PacketWriter, _ draft: inout Draft, at now: Timestamp) {
        if isNewTokenPending, writer.room >= 4 + AddressTokens.maximumLength {
            isNewTokenPending = false
            if let token = configuration.addressTokens?.laterToken(for: path.remote, at: now) {
                writer.newToken(token)
                draft.content.add(.newToken)
                draft.isAckEliciting = true
            }
        }
        while writer.room >= 54, let (sequence, id) = localIDs.takePending() {
            guard let token = Self.resetToken(for: id, key: configuration.statelessResetKey) else { continue }
            writer.newConnectionID(sequence: sequence, retirePriorTo: 0, id: id, token: token)
            draft.content.add(.newConnectionID(sequence: sequence))
            draft.isAckEliciting = true
        }
        while writer.room >= 9, let sequence = peerIDs.takePending() {
            writer.retireConnectionID(sequence)
            draft.content.add(.retireConnectionID(sequence: sequence))
            draft.isAckEliciting = true
        }
    }

    private mutating func writeCrypto(_ space: PacketSpace, _ writer: inout PacketWriter, _ draft: inout Draft) {
        while writer.room > 16 {
            // Two bytes of length and up to four of offset: handshakes are smaller than that allows.
            guard let range = spaces[space.rawValue].cryptoSend.take(upTo: writer.room - 11) else { return }
            writer.cryptoHeader(offset: range.offset, length: range.length)
            let target = unsafe UnsafeMutableRawBufferPointer(rebasing: writer.free[..<range.length])
            unsafe spaces[space.rawValue].cryptoSend.copy(offset: range.offset, into: target)
            writer.advance(range.length)
            draft.content.add(crypto: range.offset, length: range.length)
            draft.isAckEliciting = true
        }
    }

    /// Sends a packet of a size not known to get through (RFC 8899).
    private mutating func writeSizeProbe(
        _ buffer: UnsafeMutableRawBufferPointer, size: Int, at now: Timestamp
    ) -> Transmit? {
        guard let writeKeys = spaces[.application].writeKeys, case .bytes = recovery.permission(at: now) else {
            return nil
        }
        var writer = unsafe PacketWriter(UnsafeMutableRawBufferPointer(rebasing: buffer[..<size]))
        let number = recovery.nextPacketNumber(.application)
        let numberLength = PacketNumber.encodedLength(
            number, largestAcknowledged: recovery.largestAcknowledged(.application))
        writer.shortHeader(
            destination: peerIDs.current, keyPhase: keys.isOdd, number: number, numberLength: numberLength,
            fixedBit: quicBit)
        let headerLength = writer.count
        writer.ping()
        writer.pad(to: size - CipherSuite.tagLength)
        unsafe writeKeys.protect(
            writer.base, headerLength: headerLength, packetNumberLength: numberLength,
            payloadLength: writer.count - headerLength, packetNumber: number)
        keys.sealed += 1
        beforeSizeProbe = state(beforeSizeProbeOf: size)
        sizeProbe.sent()
        var content = SentContent()
        content.control = [.ping, .pathProbe]
        content.add(.sizeProbe(size))
        noteElicited(at: now)
        recovery.sent(
            .application, size: size, isAckEliciting: true, isInFlight: true, isMarkable: recovery.isMarkingECN,
            content: content, at: now)
        log?.packetSent(.application, number: number, size: size, at: now)
        return noteSent(size, segment: size, at: now)
    }

    // MARK: - The handshake

    /// A long-header packet not protected yet.
    private struct OpenPacket {
        var space: PacketSpace
        var start: Int
        var headerLength: Int
        var numberLength: Int
        var number: UInt64
        var lengthOffset: Int?
        var payloadEnd: Int
        /// Whether it is a 0-RTT packet.
        var isEarly = false
        var draft: Draft
    }

    /// Writes one datagram of Initial, Handshake and 1-RTT packets, as far as there is anything to say.
    private mutating func writeHandshakeDatagram(_ buffer: UnsafeMutableRawBufferPointer, at now: Timestamp) -> Int {
        let size = 1200
        var packets: [OpenPacket] = []
        var offset = 0
        var mustPad = false
        // Handshakes are small and are not paced: waiting would only make them later.
        let isAllowed = recovery.permission(at: now) != .congestionBlocked
        for space in PacketSpace.allCases
        where spaces[space.rawValue].writeKeys != nil || space == .application && hasEarlyFrames {
            let rest = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[offset..<size])
            guard rest.count >= 128 else { break }
            guard let packet = unsafe writeOpenPacket(rest, space, mayElicit: isAllowed, start: offset, at: now) else {
                continue
            }
            // A client's Initials, and a server's that elicit answers, come in full datagrams (RFC 9000 §14.1).
            if space == .initial, isClient || packet.draft.isAckEliciting { mustPad = true }
            offset = packet.payloadEnd + CipherSuite.tagLength
            packets.append(packet)
            // Anything but an acknowledgement of 1-RTT goes in the batches that follow.
        }
        guard let last = packets.indices.last else { return 0 }
        if mustPad, offset < size {
            let end = packets[last].payloadEnd
            let target = size - CipherSuite.tagLength
            unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[end..<target]).initializeMemory(
                as: UInt8.self, repeating: 0)
            packets[last].payloadEnd = target
            offset = size
        }
        for packet in packets { unsafe seal(packet, in: buffer, mustPad: mustPad, at: now) }
        if isClient, packets.contains(where: { $0.space == .handshake }), !spaces[.initial].isDiscarded {
            discard(.initial, at: now)
        }
        return offset
    }

    private mutating func writeOpenPacket(
        _ buffer: UnsafeMutableRawBufferPointer, _ space: PacketSpace, mayElicit isAllowed: Bool, start: Int,
        at now: Timestamp
    ) -> OpenPacket? {
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
                || spaces[space.rawValue].received.shouldAcknowledgeNow(at: now)
        else {
            return nil
        }
        var writer = unsafe PacketWriter(
            UnsafeMutableRawBufferPointer(rebasing: buffer[..<(buffer.count - CipherSuite.tagLength)]))
        let number = recovery.nextPacketNumber(space)
        let numberLength = PacketNumber.encodedLength(
            number, largestAcknowledged: recovery.largestAcknowledged(space))
        var lengthOffset: Int?
        if space == .application, !isEarly {
            writer.shortHeader(
                destination: peerIDs.current, keyPhase: keys.isOdd, number: number, numberLength: numberLength,
                fixedBit: quicBit)
        } else {
            let kind: PacketHeader.Kind = isEarly ? .zeroRTT : space == .initial ? .initial : .handshake
            let needed = PacketWriter.longHeaderLength(
                kind, destination: peerIDs.current, source: firstLocalID, token: token, numberLength: numberLength)
            guard writer.room >= needed + 32 else { return nil }
            lengthOffset = writer.longHeader(
                kind, version, destination: peerIDs.current, source: firstLocalID, token: token, number: number,
                numberLength: numberLength)
        }
        let headerLength = writer.count
        var draft = Draft()
        if !isEarly, spaces[space.rawValue].received.hasUnacknowledged { writeAck(space, &writer, &draft, at: now) }
        if isEarly {
            let taken = unsafe streams.writeFrames(into: writer.free, content: &draft.content)
            if taken > 0 { draft.isAckEliciting = true }
            writer.advance(taken)
        } else if mayElicit {
            writeCrypto(space, &writer, &draft)
            if hasControl, isHandshakeDonePending, writer.room >= 1 {
                writer.handshakeDone()
                draft.content.control.insert(.handshakeDone)
                draft.isAckEliciting = true
                isHandshakeDonePending = false
            }
        }
        if isProbe {
            if !draft.isAckEliciting, writer.room > 0 {
                writer.ping()
                draft.content.control.insert(.ping)
                draft.isAckEliciting = true
            }
            spaces[space.rawValue].probes -= 1
        }
        guard writer.count > headerLength else { return nil }
        writer.pad(to: headerLength + 4)
        return OpenPacket(
            space: space, start: start, headerLength: headerLength, numberLength: numberLength, number: number,
            lengthOffset: lengthOffset.map { $0 + start }, payloadEnd: start + writer.count, isEarly: isEarly,
            draft: draft)
    }

    private mutating func seal(
        _ packet: OpenPacket, in buffer: UnsafeMutableRawBufferPointer, mustPad: Bool, at now: Timestamp
    ) {
        let known = packet.isEarly ? early.keys : spaces[packet.space.rawValue].writeKeys
        guard let writeKeys = known, let base = buffer.baseAddress else { return }
        let payloadLength = packet.payloadEnd - packet.start - packet.headerLength
        if let lengthOffset = packet.lengthOffset {
            let length = packet.numberLength + payloadLength + CipherSuite.tagLength
            unsafe base.storeBytes(
                of: (UInt16(length) | 0x4000).bigEndian, toByteOffset: lengthOffset, as: UInt16.self)
        }
        unsafe writeKeys.protect(
            base + packet.start, headerLength: packet.headerLength, packetNumberLength: packet.numberLength,
            payloadLength: payloadLength, packetNumber: packet.number)
        if packet.space == .application, !packet.isEarly { keys.sealed += 1 }
        if packet.draft.hasAck { spaces[packet.space.rawValue].received.acknowledgementSent() }
        if packet.draft.isAckEliciting { noteElicited(at: now) }
        let size = packet.headerLength + payloadLength + CipherSuite.tagLength
        // Padding counts as in flight too (RFC 9002 §2).
        recovery.sent(
            packet.space, size: size, isAckEliciting: packet.draft.isAckEliciting,
            isInFlight: packet.draft.isAckEliciting || mustPad, isMarkable: recovery.isMarkingECN,
            content: packet.draft.content, at: now)
        log?.packetSent(packet.space, number: packet.number, size: size, isEarly: packet.isEarly, at: now)
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
            let isLast = space == .application || size - offset < 256
            let rest = unsafe UnsafeMutableRawBufferPointer(
                rebasing: buffer[
                    offset..<(isLast ? size - CipherSuite.tagLength : min(offset + 360, size) - CipherSuite.tagLength)])
            var writer = unsafe PacketWriter(rest)
            let number = recovery.nextPacketNumber(space)
            var lengthOffset: Int?
            if space == .application {
                writer.shortHeader(
                    destination: peerIDs.current, keyPhase: keys.isOdd, number: number, numberLength: 4)
            } else {
                let kind: PacketHeader.Kind = space == .initial ? .initial : .handshake
                let needed = PacketWriter.longHeaderLength(
                    kind, destination: peerIDs.current, source: firstLocalID, token: token, numberLength: 4)
                guard writer.room >= needed + 48 else { continue }
                lengthOffset = writer.longHeader(
                    kind, version, destination: peerIDs.current, source: firstLocalID, token: token, number: number,
                    numberLength: 4)
            }
            let headerLength = writer.count
            writeCloseFrame(&writer, space)
            let isOnlyInitial =
                space == .initial && spaces[.handshake].writeKeys == nil && spaces[.application].writeKeys == nil
            if isOnlyInitial, isClient {
                // A client's Initial fills its datagram; this one has room for nothing else.
                let target = size - CipherSuite.tagLength
                unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[(offset + writer.count)..<target])
                    .initializeMemory(
                        as: UInt8.self, repeating: 0)
                writer = unsafe PacketWriter(UnsafeMutableRawBufferPointer(rebasing: buffer[offset..<target]))
                writer.advance(target - offset)
            }
            let payloadLength = writer.count - headerLength
            if let lengthOffset { writer.patchLength(4 + payloadLength + CipherSuite.tagLength, at: lengthOffset) }
            unsafe writeKeys.protect(
                writer.base, headerLength: headerLength, packetNumberLength: 4, payloadLength: payloadLength,
                packetNumber: number)
            let length = writer.count + CipherSuite.tagLength
            recovery.sent(
                space, size: length, isAckEliciting: false, isInFlight: false, isMarkable: recovery.isMarkingECN,
                content: SentContent(), at: now)
            log?.packetSent(space, number: number, size: length, at: now)
            offset += length
        }
        guard offset > 0 else { return nil }
        return noteSent(offset, segment: offset, at: now)
    }

    /// Whether 1-RTT was usable when the connection was closed.
    private var phaseBeforeClose: Phase { tls.isComplete ? .established : .handshaking }

    private func writeCloseFrame(_ writer: inout PacketWriter, _ space: PacketSpace) {
        switch closing.frame {
        case .none: preconditionFailure("closing begins with a frame to send")
        case .transport(let error):
            writer.connectionClose(
                code: error.code, frameType: error.frameType, reason: Array(error.reason.utf8))
        case .application(let code, let reason):
            if space == .application {
                writer.applicationClose(code: code, reason: reason)
            } else {
                // What the application says is for the peer alone, and these packets are not yet (RFC 9000 §10.2.3).
                writer.connectionClose(
                    code: TransportError.Code.applicationError.rawValue, frameType: 0, reason: [])
            }
        }
    }
}
