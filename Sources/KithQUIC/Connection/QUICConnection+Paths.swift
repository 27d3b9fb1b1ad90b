import KithWire

// A peer whose address changes (RFC 9000 §9). Traffic moves to the new address once that has answered a challenge.
extension QUICConnection {
    static var maximumChallenges: Int { 3 }

    /// The newest packet came from another address than the ones before.
    mutating func peerMoved(to remote: NetworkAddress, size: Int, at now: Timestamp) {
        guard !isClient, isHandshakeConfirmed else { return }
        if let candidate, candidate.path.remote == remote { return }
        // A second change replaces the first: only the newest can be right.
        var path = PathState(remote: remote, isValidated: false)
        path.bytesReceived = UInt64(size)
        candidate = PathCandidate(path: path, challenge: configuration.random(), nextAttempt: now)
    }

    mutating func receivedPathResponse(_ data: UInt64, at now: Timestamp) {
        guard var found = candidate, found.attempts > 0, found.challenge == data else { return }
        found.path.isValidated = true
        let old = path.remote
        path = found.path
        candidate = nil
        // A new port of one host is a rebound NAT: the network in between is the same (RFC 9000 §9.4).
        if old.ip != path.remote.ip { recovery.pathChanged(at: now) }
        events.append(.pathChanged(path.remote))
    }

    /// Writes the datagram another path is owed: a challenge, or an answer to one.
    mutating func writePathDatagram(_ buffer: UnsafeMutableRawBufferPointer, at now: Timestamp) -> Transmit? {
        guard let keys = spaces[.application].writeKeys, phase == .established else { return nil }
        if var attempt = candidate, attempt.nextAttempt <= now {
            guard attempt.attempts < Self.maximumChallenges else {
                candidate = nil
                return nil
            }
            attempt.attempts += 1
            attempt.nextAttempt = now.advanced(nanoseconds: recovery.probeTimeout << Int64(attempt.attempts))
            let size = min(1200, attempt.path.allowance)
            attempt.path.bytesSent += UInt64(max(0, size))
            candidate = attempt
            guard size >= 64 else { return nil }
            return unsafe writeProbing(buffer, to: attempt.path.remote, size: size, keys, at: now) { writer, content in
                writer.pathChallenge(attempt.challenge)
                content.add(.pathChallenge(attempt.challenge))
            }
        }
        guard let answer = pathResponses.first else { return nil }
        pathResponses.removeFirst()
        guard answer.size >= 64 else { return nil }
        return unsafe writeProbing(buffer, to: answer.remote, size: answer.size, keys, at: now) { writer, _ in
            writer.pathResponse(answer.data)
        }
    }

    private mutating func writeProbing(
        _ buffer: UnsafeMutableRawBufferPointer, to remote: NetworkAddress, size: Int, _ keys: PacketKeys,
        at now: Timestamp, _ frames: (inout PacketWriter, inout SentContent) -> Void
    ) -> Transmit? {
        var writer = unsafe PacketWriter(UnsafeMutableRawBufferPointer(rebasing: buffer[..<size]))
        var content = SentContent()
        let number = recovery.nextPacketNumber(.application)
        let numberLength = PacketNumber.encodedLength(
            number, largestAcknowledged: recovery.largestAcknowledged(.application))
        writer.shortHeader(
            destination: peerIDs.current, keyPhase: self.keys.isOdd, number: number, numberLength: numberLength)
        let headerLength = writer.count
        frames(&writer, &content)
        writer.pad(to: size - CipherSuite.tagLength)
        unsafe keys.protect(
            writer.base, headerLength: headerLength, packetNumberLength: numberLength,
            payloadLength: writer.count - headerLength, packetNumber: number)
        self.keys.sealed += 1
        // Not counted against the window of the path in use.
        recovery.sent(
            .application, size: size, isAckEliciting: true, isInFlight: false, content: content, at: now)
        traffic.datagramsSent += 1
        traffic.bytesSent += UInt64(size)
        log?.packetSent(.application, number: number, size: size, at: now)
        return Transmit(remote: remote, length: size, segmentSize: size, ecn: 0)
    }
}
