public import KithWire

// Datagrams in: coalesced packets apart, protection off, duplicates out (RFC 9000 §12, §5.2; RFC 9001 §5).
extension QUICConnection {
    /// Takes one UDP datagram in, decrypting it in place.
    ///
    /// - Parameters:
    ///   - datagram: its bytes; they are garbage afterwards.
    ///   - remote: the sender's address.
    ///   - local: the link it came by.
    ///   - ecn: the two ECN bits of the IP header.
    ///   - now: when it arrived.
    public mutating func receive(
        _ datagram: UnsafeMutableRawBufferPointer, from remote: NetworkAddress, to local: LocalLink = 0, ecn: UInt8,
        at now: Timestamp
    ) {
        guard phase != .drained, unsafe !datagram.isEmpty else { return }
        guard isExpected(remote) else { return }
        beforePLPMTUDProbe = nil
        let address = PathAddress(remote: remote, local: local)
        traffic.datagramsReceived += 1
        traffic.bytesReceived += UInt64(datagram.count)
        noteReceived(datagram.count, on: address)
        switch phase {
        case .closing:
            closing.received()
            return
        case .draining, .drained: return
        case .handshaking, .established: break
        }
        // The path's own delay, for what queues and slow readers add would have windows grow without end; half of the
        // smoothed one at least, for packets that overtake others make the smallest a lie; and never less than the
        // scheduling of both ends takes.
        let delay = max(recovery.rtt.hasSample ? recovery.rtt.minimum : 0, recovery.rtt.smoothed / 2)
        streams.advance(to: now, rtt: max(delay, .milliseconds(1)))
        var offset = 0
        while offset < datagram.count, isOpen {
            let rest = unsafe UnsafeMutableRawBufferPointer(rebasing: datagram[offset...])
            guard
                let header = unsafe PacketHeader.read(
                    UnsafeRawBufferPointer(rest), localConnectionIDLength: ConnectionID.localLength)
            else {
                if offset == 0 { unsafe checkStatelessReset(rest, at: now) }
                break
            }
            let packet = unsafe UnsafeMutableRawBufferPointer(rebasing: rest[..<header.length])
            unsafe receivePacket(packet, header, wholeDatagram: datagram.count, from: address, ecn: ecn, at: now)
            offset += header.length
        }
        if isTLSReady { driveHandshake(at: now) }
        if !heldPackets.isEmpty { replayHeldPackets(at: now) }
    }

    /// Indicates whether packets are still processed.
    @inline(__always)
    var isOpen: Bool { phase == .handshaking || phase == .established }

    private mutating func receivePacket(
        _ packet: UnsafeMutableRawBufferPointer, _ header: PacketHeader, wholeDatagram: Int,
        from address: PathAddress, ecn: UInt8, at now: Timestamp
    ) {
        let space: PacketSpace
        switch header.kind {
        case .short: space = .application
        case .initial:
            // A client's Initial comes in a full datagram, a server's carries no token (RFC 9000 §14.1, §17.2.2).
            if unsafe isClient ? !header.token.isEmpty : wholeDatagram < 1200 { return }
            space = .initial
        case .handshake: space = .handshake
        case .zeroRTT:
            if isClient || header.version != negotiation.original { return }
            space = .application
        case .retry:
            unsafe receiveRetry(UnsafeRawBufferPointer(packet), header, at: now)
            return
        case .versionNegotiation:
            receiveVersionNegotiation(header, at: now)
            return
        }
        if spaces[space.rawValue].isDiscarded { return }
        // A server reads no 1-RTT packet before the client's Finished (RFC 9001 §5.7).
        let isZeroRTT = header.kind == .zeroRTT
        let isEarly = space == .application && !isClient && phase == .handshaking && !isZeroRTT
        var known = isZeroRTT ? earlyReadKeys(at: now) : spaces[space.rawValue].readKeys
        let isOtherVersion = space != .application && header.version != version
        if isOtherVersion {
            guard space == .initial, let other = initialKeys(of: header.version) else { return }
            known = other
        }
        guard let readKeys = known, !isEarly else {
            if isZeroRTT, early.isDecided || early.keysExpire != nil { return }
            unsafe hold(packet, space, isEarly: isZeroRTT, from: address, ecn: ecn)
            return
        }
        guard let unmasked = unsafe readKeys.unmask(packet, packetNumberOffset: header.numberOffset) else {
            if space == .application, !isZeroRTT { unsafe checkStatelessReset(packet, at: now) }
            return
        }
        let number = PacketNumber.decode(
            UInt64(unmasked.truncatedPacketNumber), length: unmasked.packetNumberLength,
            largestReceived: spaces[space.rawValue].received.largest)
        let headerLength = header.numberOffset + unmasked.packetNumberLength
        let payloadLength: Int?
        if space == .application, !isZeroRTT {
            payloadLength = unsafe openApplication(
                packet, readKeys, headerLength: headerLength, number: number,
                isOdd: unmasked.firstByte & 0x04 != 0, at: now)
        } else {
            payloadLength = unsafe readKeys.open(packet, headerLength: headerLength, packetNumber: number)
        }
        guard let payloadLength else {
            traffic.packetsDropped += 1
            if space == .application, !isZeroRTT, isOpen {
                unsafe checkStatelessReset(packet, at: now)
                countFailure(readKeys, at: now)
            }
            return
        }
        if spaces[space.rawValue].received.isDuplicate(number) { return }
        let payload = unsafe UnsafeRawBufferPointer(rebasing: packet[headerLength..<headerLength + payloadLength])
        guard unmasked.firstByte & (header.kind == .short ? 0x18 : 0x0C) == 0 else {
            close(for: TransportError(.protocolViolation, "reserved bits are set"), at: now)
            return
        }
        guard acceptSource(header, space) else { return }
        if isOtherVersion, isClient {
            // The server speaks a version we offered; the handshake will have to confirm it.
            negotiation.move(to: header.version, keeping: nil)
            installInitialKeys()
        }
        opened(space, header, at: now)
        unsafe process(
            payload, space, number: number, isEarly: isZeroRTT, destination: header.destination, size: packet.count,
            from: address, ecn: ecn, at: now)
    }

    /// The keys to read an Initial of a version other than the one spoken: from a client that has not heard of the
    /// change yet, or the server's first word of it.
    private func initialKeys(of other: QUICVersion) -> PacketKeys? {
        guard isClient else { return other == negotiation.original ? negotiation.originalReadKeys : nil }
        // Acknowledgements of half a ClientHello come in the first version; with the ServerHello it is settled.
        guard spaces[.handshake].readKeys == nil, negotiation.version == negotiation.original,
            configuration.versions.contains(other)
        else { return nil }
        return PacketKeys.initial(destination: initialDestination.bytes, isClient: true, other).read
    }

    /// Ties the connection to the peer's own id (RFC 9000 §7.2); false for a packet with another one.
    private mutating func acceptSource(_ header: PacketHeader, _ space: PacketSpace) -> Bool {
        guard space != .application else { return true }
        if isClient, !hasPeerSource {
            hasPeerSource = true
            peerIDs.replaceFirst(header.source)
            return true
        }
        hasPeerSource = true
        return header.source == peerIDs.handshakeID
    }

    /// Applies the changes an authentic packet makes apart from its frames.
    private mutating func opened(_ space: PacketSpace, _ header: PacketHeader, at now: Timestamp) {
        traffic.packetsReceived += 1
        traffic.lastReceived = now
        hasReceivedPacket = true
        lastActivity = now
        hasSentSinceReceipt = false
        if space == .handshake, !isClient {
            // Only somebody who received our Initial can make a Handshake packet (RFC 9000 §8.1).
            path.isValidated = true
            recovery.isAmplificationBlocked = false
            if !spaces[.initial].isDiscarded { discard(.initial, at: now) }
        }
    }

    private mutating func process(
        _ payload: UnsafeRawBufferPointer, _ space: PacketSpace, number: UInt64, isEarly: Bool,
        destination: ConnectionID, size: Int, from address: PathAddress, ecn: UInt8, at now: Timestamp
    ) {
        log?.packetReceived(space, number: number, size: size, isEarly: isEarly, at: now)
        let summary: FrameSummary
        do throws(TransportError) {
            guard unsafe !payload.isEmpty else { throw TransportError(.protocolViolation, "a packet without frames") }
            summary = unsafe try processFrames(
                payload, space, isEarly: isEarly, destination: destination, from: address, at: now)
            if recovery.spaces[space.rawValue].isIgnored(at: now) {
                throw TransportError(.protocolViolation, "acknowledges nothing")
            }
        } catch {
            close(for: error, at: now)
            return
        }
        guard isOpen || phase == .closing else { return }
        let isNewest = spaces[space.rawValue].received.largest.map { number > $0 } ?? true
        spaces[space.rawValue].received.received(
            number, isAckEliciting: summary.isAckEliciting, isRepetition: summary.isRepetition, ecn: ecn, at: now)
        // Whoever goes on without anything new may lack a limit.
        if summary.isAckEliciting, !summary.bringsNew { streams.repeatLimits() }
        guard space == .application, !isEarly, isOpen else { return }
        if address == path.address {
            path.lastReceived = now
            path.localID = destination
            // A challenge shows that the peer looks at the path, not that it has come over to it.
            if !summary.isProbing { path.awaitsPeer = false }
            if redundantPath != nil { decideRedundancy(by: address, at: now) }
        } else {
            receivedElsewhere(
                address, destination: destination, size: size, isProbe: summary.isProbing,
                isAnswer: summary.hasPathResponse, isNewest: isNewest, at: now)
            if redundantPath != nil { decideRedundancy(by: address, at: now) }
        }
        heardAfterSilence(at: now)
    }

    // MARK: - Packets that cannot be read

    private mutating func hold(
        _ packet: UnsafeMutableRawBufferPointer, _ space: PacketSpace, isEarly: Bool, from address: PathAddress,
        ecn: UInt8
    ) {
        guard space != .initial, heldPackets.count < HeldPacket.limit, packet.count <= 1500 else { return }
        unsafe heldPackets.append(
            HeldPacket(bytes: [UInt8](packet), address: address, ecn: ecn, space: space, isEarly: isEarly))
    }

    private mutating func replayHeldPackets(at now: Timestamp) {
        let canReadApplication = spaces[.application].readKeys != nil && (isClient || phase == .established)
        let canReadHandshake = spaces[.handshake].readKeys != nil || spaces[.handshake].isDiscarded
        var ready: [HeldPacket] = []
        var waiting: [HeldPacket] = []
        for packet in heldPackets {
            let canRead =
                packet.isEarly ? early.keys != nil : packet.space == .handshake ? canReadHandshake : canReadApplication
            if canRead { ready.append(packet) } else { waiting.append(packet) }
        }
        guard !ready.isEmpty else { return }
        heldPackets = waiting
        for packet in ready {
            guard isOpen else { return }
            var bytes = packet.bytes
            unsafe bytes.withUnsafeMutableBytes { buffer in
                guard
                    let header = unsafe PacketHeader.read(
                        UnsafeRawBufferPointer(buffer), localConnectionIDLength: ConnectionID.localLength)
                else { return }
                unsafe receivePacket(
                    buffer, header, wholeDatagram: buffer.count, from: packet.address, ecn: packet.ecn, at: now)
            }
            if isTLSReady { driveHandshake(at: now) }
        }
        // The handshake may have got further by these, and read what still waits.
        if !heldPackets.isEmpty { replayHeldPackets(at: now) }
    }

    /// A datagram that cannot be read may say that the peer has forgotten us (RFC 9000 §10.3.1).
    private mutating func checkStatelessReset(_ packet: UnsafeMutableRawBufferPointer, at now: Timestamp) {
        guard packet.count >= 21, isOpen else { return }
        let token = unsafe ResetToken(copying: UnsafeRawBufferPointer(rebasing: packet[(packet.count - 16)...]))
        guard peerIDs.isReset(token) else { return }
        enterDraining(.statelessReset, at: now)
    }

    /// Bounds how often forgeries may be tried on one key (RFC 9001 §6.6).
    private mutating func countFailure(_ keysUsed: PacketKeys, at now: Timestamp) {
        guard isOpen else { return }
        keys.failures += 1
        if keys.failures >= keysUsed.suite.integrityLimit {
            close(for: TransportError(.aeadLimitReached, "too many forged packets"), at: now)
        }
    }
}
