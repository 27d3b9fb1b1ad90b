import KithWire

// TLS in and out, keys, transport parameters, Retry and NEW_TOKEN (RFC 9001 §4, RFC 9000 §7, §8.1, §17.2.5).
extension QUICConnection {
    /// Gives TLS the handshake bytes that arrived, and takes secrets and bytes to send from it.
    mutating func driveHandshake(at now: Timestamp) {
        isTLSReady = false
        guard isOpen else { return }
        var alert: TLSAlert?
        do throws(TLSAlert) {
            if !hasReceivedPacket { try advanceTLS(at: now) }
            drainTLS(at: now)
            for space in PacketSpace.allCases {
                while spaces[space.rawValue].cryptoReceive.readableCount > 0 {
                    try provide(space)
                    try advanceTLS(at: now)
                    drainTLS(at: now)
                    guard isOpen else { return }
                }
            }
        } catch {
            alert = error
        }
        drainTLS(at: now)
        guard isOpen else { return }
        followEarlyData(at: now)
        if let alert {
            close(for: TransportError(code: alert.transportErrorCode, alert.reason), at: now)
            return
        }
        if peerParameters == nil, let bytes = tls.peerTransportParameters {
            do throws(TransportError) {
                try apply(try TransportParameters.decode(bytes, fromServer: isClient))
            } catch {
                close(for: error, at: now)
                return
            }
        }
        if phase == .handshaking, tls.isComplete { completeHandshake(at: now) }
    }

    /// Lets TLS go on; a server looks at what the client said about itself before it answers.
    private mutating func advanceTLS(at now: Timestamp) throws(TLSAlert) {
        try tls.advance()
        if tls.isAskingAboutEarlyData {
            decideEarlyData(at: now)
            try tls.advance()
        }
        guard tls.isAskingForParameters else { return }
        early.isDecided = true
        if let bytes = tls.peerTransportParameters {
            do throws(TransportError) {
                let parameters = try TransportParameters.decode(bytes, fromServer: false)
                let choice = try negotiation.choice(parameters.versions, configuration)
                if choice != version {
                    negotiation.move(to: choice, keeping: spaces[.initial].readKeys)
                    installInitialKeys()
                }
            } catch {
                return close(for: error, at: now)
            }
        }
        var parameters = localParameters
        parameters.versions = negotiation.information(configuration)
        // Sessions of one version are not resumed in another (RFC 9369 §5).
        try tls.answer(
            parameters: parameters.encoded(grease: configuration.random()),
            scope: Array("kith".utf8) + [UInt8(version.code)],
            context: EarlyData.context(parameters, configuration, at: now))
        try tls.advance()
        if tls.isAskingAboutEarlyData {
            decideEarlyData(at: now)
            try tls.advance()
        }
    }

    private mutating func provide(_ space: PacketSpace) throws(TLSAlert) {
        let level: EncryptionLevel = space == .initial ? .initial : space == .handshake ? .handshake : .oneRTT
        // Handshake bytes are few; the copy keeps TLS away from our buffers.
        var bytes = [UInt8](repeating: 0, count: spaces[space.rawValue].cryptoReceive.readableCount)
        _ = unsafe bytes.withUnsafeMutableBytes { unsafe spaces[space.rawValue].cryptoReceive.read(into: $0) }
        try tls.provide(level, bytes)
    }

    private mutating func drainTLS(at now: Timestamp) {
        while let secret = tls.nextSecret() { install(secret) }
        while let output = tls.nextOutput() {
            let space: PacketSpace =
                output.level == .initial ? .initial : output.level == .handshake ? .handshake : .application
            let taken = unsafe output.bytes.withUnsafeBytes { unsafe spaces[space.rawValue].cryptoSend.append($0) }
            precondition(taken == output.bytes.count, "the handshake's send buffer has no bound")
        }
        if let keyLog = configuration.keyLog { while let line = tls.nextKeyLogLine() { keyLog(line) } }
        while let ticket = tls.nextTicket() {
            // Before the parameters are known there is nothing to remember with it; a server sends them first.
            guard let peerParameters, early.ticketsTaken < 4 else { continue }
            early.ticketsTaken += 1
            events.append(.sessionTicket(SessionTicket(version: version, parameters: peerParameters, tls: ticket)))
        }
    }

    private mutating func install(_ secret: TrafficSecret) {
        let space: PacketSpace
        switch secret.level {
        case .handshake: space = .handshake
        case .oneRTT: space = .application
        case .zeroRTT: return installEarly(secret)
        case .initial: return
        }
        guard !spaces[space.rawValue].isDiscarded else { return }
        switch secret.direction {
        case .read: spaces[space.rawValue].readKeys = PacketKeys(secret, version)
        case .write: spaces[space.rawValue].writeKeys = PacketKeys(secret, version)
        }
        if space == .handshake, secret.direction == .write { recovery.handshakeKeysAvailable() }
    }

    private mutating func completeHandshake(at now: Timestamp) {
        guard peerParameters != nil else {
            let code = TransportError.alert(TLSAlert.missingExtension)
            close(for: TransportError(code: code, "no transport parameters"), at: now)
            return
        }
        phase = .established
        if !isClient, early.keys != nil { early.keysExpire = now.advanced(nanoseconds: 3 * recovery.probeTimeout) }
        path.isValidated = true
        recovery.isAmplificationBlocked = false
        events.append(.connected)
        log?.connected(at: now)
        issueConnectionIDs()
        startPathMTUDiscovery()
        reportAddress()
        if !isClient {
            // For a server complete is confirmed (RFC 9001 §4.1.2).
            isHandshakeDonePending = true
            isNewTokenPending = configuration.addressTokens != nil
            confirmHandshake(at: now)
        }
    }

    /// Notes that both ends have completed the handshake; Handshake keys go.
    mutating func confirmHandshake(at now: Timestamp) {
        guard !isHandshakeConfirmed else { return }
        isHandshakeConfirmed = true
        if !spaces[.initial].isDiscarded { discard(.initial, at: now) }
        discard(.handshake, at: now)
        recovery.handshakeConfirmed()
        events.append(.handshakeConfirmed)
    }

    /// Drops the keys of a space and everything about it (RFC 9001 §4.9).
    mutating func discard(_ space: PacketSpace, at now: Timestamp) {
        recovery.discard(space, at: now)
        spaces[space.rawValue] = PacketSpaceState(space)
        spaces[space.rawValue].isDiscarded = true
        heldPackets.removeAll { $0.space == space }
    }

    /// Keeps as many ids with the peer as it wants, within ours.
    mutating func issueConnectionIDs() {
        guard let peerParameters else { return }
        let wanted = Int(
            min(peerParameters.activeConnectionIDLimit, UInt64(PeerConnectionIDs.limit(paths: configuration.maxPaths))))
        while localIDs.count < wanted {
            let id = ConnectionID(random: configuration.random())
            localIDs.issue(id)
            events.append(.connectionIDAdded(id))
        }
    }

    private mutating func apply(_ parameters: TransportParameters) throws(TransportError) {
        // The ids seen on the wire must be the ones the handshake authenticates (RFC 9000 §7.3).
        var agrees = parameters.initialSource == peerIDs.handshakeID
        if isClient {
            agrees =
                agrees && parameters.originalDestination == originalDestination
                && parameters.retrySource == retrySource
        }
        guard agrees else {
            throw TransportError(.transportParameter, "the connection ids do not agree with the handshake")
        }
        if isClient {
            try negotiation.check(parameters.versions, configuration)
            try checkRemembered(parameters)
        }
        peerParameters = parameters
        recovery.peerMaxAckDelay = .milliseconds(Int64(parameters.maxAckDelay))
        streams.receivedPeerLimits(PeerStreamLimits(parameters))
        if early.state == .rejected { streams.dropUnlimited() }
        if let token = parameters.statelessResetToken { peerIDs.setFirstToken(token) }
        let theirs = Int64(clamping: parameters.maxIdleTimeout).multipliedReportingOverflow(by: 1_000_000)
        if parameters.maxIdleTimeout > 0, !theirs.overflow {
            idleTimeout = idleTimeout == 0 ? theirs.partialValue : min(idleTimeout, theirs.partialValue)
        }
    }

    // MARK: - Retry and NEW_TOKEN

    /// Takes a Retry in: the server wants our address proven by its token (RFC 9000 §17.2.5.2).
    mutating func receiveRetry(_ packet: UnsafeRawBufferPointer, _ header: PacketHeader, at now: Timestamp) {
        guard isClient, phase == .handshaking, !hasReceivedPacket, retrySource == nil, unsafe header.token.count > 16,
            header.version == version, header.source != peerIDs.current,
            unsafe RetryIntegrity.isValid(original: originalDestination.bytes, retry: packet, version)
        else { return }
        retrySource = header.source
        token = unsafe [UInt8](header.token.dropLast(16))
        guard token.count <= 512 else {
            close(for: TransportError(.internalError, "a Retry token too long to return"), at: now)
            return
        }
        peerIDs.replaceFirst(header.source)
        recovery.retried(at: now)
        processLost(at: now)
        repeatEarlyData(at: now)
        spaces[.initial].cryptoSend.rewind()
        initialDestination = header.source
        installInitialKeys()
    }

    /// Takes NEW_TOKEN in: what the next connection to this server proves its address with (RFC 9000 §8.1.3).
    mutating func receiveNewToken(_ bytes: UnsafeRawBufferPointer) throws(TransportError) {
        guard isClient else {
            throw TransportError(.protocolViolation, frameType: FrameType.newToken, "NEW_TOKEN from a client")
        }
        // A few are of use; longer ones leave no room in the datagram that shows them.
        guard receivedTokens < 8, bytes.count <= 512 else { return }
        receivedTokens += 1
        unsafe events.append(.newToken([UInt8](bytes)))
    }
}
