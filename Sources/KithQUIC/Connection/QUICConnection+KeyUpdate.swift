// The key phases of 1-RTT packets (RFC 9001 §6).
extension QUICConnection {
    /// Moves to fresh keys now, ahead of the cipher's limit.
    ///
    /// - Returns: false when it must not be done yet: the handshake is not confirmed, nothing sent with the current
    ///   keys has been acknowledged, or the last update is less than three probe time-outs old (RFC 9001 §6.1, §6.5).
    public mutating func updateKeys(at now: Timestamp) -> Bool {
        guard phase == .established, mayUpdateKeys, let current = spaces[.application].readKeys else { return false }
        updateKeys(read: keys.nextRead ?? current.updated(), firstReceived: nil, isRemote: false, at: now)
        return true
    }

    private var mayUpdateKeys: Bool {
        guard isHandshakeConfirmed, keys.previousRead == nil,
            let acknowledged = recovery.largestAcknowledged(.application)
        else { return false }
        return acknowledged >= keys.firstSent
    }

    /// Starts a key update before the keys have protected too much, and closes when it cannot be done in time
    /// (RFC 9001 §6.6).
    @inline(__always)
    mutating func updateKeysIfWorn(at now: Timestamp) {
        guard let current = spaces[.application].readKeys else { return }
        let limit = current.suite.confidentialityLimit
        guard keys.sealed > min(configuration.packetsPerKey ?? .max, limit / 2) else { return }
        if updateKeys(at: now) { return }
        if keys.sealed + UInt64(Self.maximumSegments) >= limit {
            close(for: TransportError(.aeadLimitReached, "the keys are worn and cannot be changed"), at: now)
        }
    }

    /// Opens a 1-RTT packet with the keys of its phase, and follows the peer to the next one (RFC 9001 §6.2, §6.3).
    @inline(__always)
    mutating func openApplication(
        _ packet: UnsafeMutableRawBufferPointer, _ current: PacketKeys, headerLength: Int, number: UInt64, isOdd: Bool,
        at now: Timestamp
    ) -> Int? {
        if isOdd == keys.isOdd {
            let length = unsafe current.open(packet, headerLength: headerLength, packetNumber: number)
            if length != nil { keys.opened(number) }
            return length
        }
        return unsafe openOtherPhase(packet, current, headerLength: headerLength, number: number, at: now)
    }

    private mutating func openOtherPhase(
        _ packet: UnsafeMutableRawBufferPointer, _ current: PacketKeys, headerLength: Int, number: UInt64,
        at now: Timestamp
    ) -> Int? {
        // Overtaken by the update: keys of the phase before.
        if let previous = keys.previousRead, keys.firstReceived.map({ number < $0 }) ?? true {
            return unsafe previous.open(packet, headerLength: headerLength, packetNumber: number)
        }
        guard isOpen, phase == .established else { return nil }
        let next = keys.nextRead ?? current.updated()
        keys.nextRead = next
        // Opening destroys what does not open, and the keys of the phase before may have to be tried.
        let copy = unsafe keys.previousRead == nil ? [] : [UInt8](packet)
        if let length = unsafe next.open(packet, headerLength: headerLength, packetNumber: number) {
            updateKeys(read: next, firstReceived: number, isRemote: true, at: now)
            return length
        }
        if let previous = keys.previousRead {
            unsafe packet.copyBytes(from: copy)
            if unsafe previous.open(packet, headerLength: headerLength, packetNumber: number) != nil {
                // New packets with old keys (RFC 9001 §6.4).
                close(for: TransportError(.keyUpdate, "old keys after newer ones"), at: now)
            } else {
                // What may hold a reset token is left as it came.
                unsafe packet.copyBytes(from: copy)
            }
        }
        return nil
    }

    /// Moves both directions to the next key phase.
    private mutating func updateKeys(read next: PacketKeys, firstReceived: UInt64?, isRemote: Bool, at now: Timestamp) {
        keys.previousRead = spaces[.application].readKeys
        keys.previousExpiry = now.advanced(nanoseconds: 3 * recovery.probeTimeout)
        spaces[.application].readKeys = next
        spaces[.application].writeKeys = spaces[.application].writeKeys.map { $0.updated() }
        keys.advance(firstReceived: firstReceived, firstSent: recovery.nextPacketNumber(.application))
        log?.keyUpdated(isRemote: isRemote, at: now)
    }
}
