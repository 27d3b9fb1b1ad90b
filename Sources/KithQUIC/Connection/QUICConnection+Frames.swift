import KithWire

/// A summary of the frames of one packet.
struct FrameSummary {
    var isAckEliciting = false
    /// Indicates whether there are only frames that may probe another path.
    var isProbing = true
    /// Indicates whether a challenge of ours, perhaps, is answered.
    var hasPathResponse = false
    /// Indicates whether there is something that had come before.
    var hasRepetition = false
    /// Indicates whether there is something new besides acknowledgements.
    var bringsNew = false

    /// Indicates whether the sender does not know what of it has arrived.
    var isRepetition: Bool { hasRepetition && !bringsNew }
}

// Frames in (RFC 9000 §12.4, §19).
extension QUICConnection {
    /// Carries out the frames of one packet.
    mutating func processFrames(
        _ payload: UnsafeRawBufferPointer, _ space: PacketSpace, isEarly: Bool = false, destination: ConnectionID,
        from address: PathAddress, at now: Timestamp
    ) throws(TransportError) -> FrameSummary {
        var reader = unsafe PacketReader(payload)
        var summary = FrameSummary()
        while !reader.isAtEnd {
            let frame = try Frame.read(&reader)
            if frame.isAckEliciting { summary.isAckEliciting = true }
            if !frame.isProbing { summary.isProbing = false }
            if isEarly, !frame.isAllowedEarly { throw Self.misplaced(0) }
            switch frame {
            case .stream(let id, let offset, let bytes, let isFinished):
                guard space == .application else { throw Self.misplaced(FrameType.stream) }
                var isNew = false
                try stream(FrameType.stream) { connection throws(StreamViolation) in
                    unsafe isNew = try connection.streams.receivedStream(
                        StreamID(rawValue: id), offset: offset, bytes: bytes, isFinished: isFinished)
                }
                if isNew { summary.bringsNew = true } else { summary.hasRepetition = true }
            case .acknowledgement(let acknowledgement):
                try receivedAcknowledgement(acknowledgement, space, at: now)
            case .padding, .ping: break
            case .crypto(let offset, let bytes):
                summary.bringsNew = true
                unsafe try receivedCrypto(offset: offset, bytes, space)
            case .connectionClose(let code, let frameType, let reason):
                unsafe enterDraining(
                    .transport(code: code, frameType: frameType, reason: Self.reason(reason), isRemote: true), at: now)
                return summary
            default:
                guard space == .application else { throw Self.misplaced(0) }
                if case .pathResponse = frame { summary.hasPathResponse = true }
                if case .dataBlocked(let limit) = frame, streams.peerBlockedAt == limit {
                    summary.hasRepetition = true
                } else {
                    summary.bringsNew = true
                }
                try applicationFrame(frame, destination: destination, from: address, at: now)
                guard isOpen else { return summary }
            }
        }
        return summary
    }

    private static func misplaced(_ type: UInt64) -> TransportError {
        TransportError(.protocolViolation, frameType: type, "a frame not allowed in this kind of packet")
    }

    /// A peer's words are cut before they are kept.
    private static func reason(_ bytes: UnsafeRawBufferPointer) -> [UInt8] { unsafe [UInt8](bytes.prefix(1024)) }

    @inline(__always)
    private mutating func stream(
        _ type: UInt64, _ body: (inout QUICConnection) throws(StreamViolation) -> Void
    ) throws(TransportError) {
        do {
            try body(&self)
        } catch {
            throw TransportError(code: error.transportErrorCode, frameType: type, "stream violation")
        }
    }

    /// Carries out a frame that only 1-RTT packets may carry.
    private mutating func applicationFrame(
        _ frame: Frame, destination: ConnectionID, from address: PathAddress, at now: Timestamp
    ) throws(TransportError) {
        switch frame {
        case .resetStream(let id, let code, let finalSize):
            try stream(FrameType.resetStream) { connection throws(StreamViolation) in
                try connection.streams.receivedReset(StreamID(rawValue: id), code: code, finalSize: finalSize)
            }
        case .stopSending(let id, let code):
            try stream(FrameType.stopSending) { connection throws(StreamViolation) in
                try connection.streams.receivedStopSending(StreamID(rawValue: id), code: code)
            }
        case .maxData(let limit): streams.receivedMaxData(limit)
        case .maxStreamData(let id, let limit):
            try stream(FrameType.maxStreamData) { connection throws(StreamViolation) in
                try connection.streams.receivedMaxStreamData(StreamID(rawValue: id), limit)
            }
        case .maxStreams(let isBidirectional, let limit):
            streams.receivedMaxStreams(isBidirectional ? .bidirectional : .unidirectional, limit)
        case .dataBlocked(let limit): streams.receivedDataBlocked(limit)
        case .streamDataBlocked(let id, let limit):
            try stream(FrameType.streamDataBlocked) { connection throws(StreamViolation) in
                try connection.streams.receivedStreamDataBlocked(StreamID(rawValue: id), limit)
            }
        case .streamsBlocked(let isBidirectional, let limit):
            streams.receivedStreamsBlocked(isBidirectional ? .bidirectional : .unidirectional, limit)
        case .newConnectionID(let sequence, let retirePriorTo, let id, let token):
            if try peerIDs.add(sequence: sequence, retirePriorTo: retirePriorTo, id: id, token: token) {
                try replaceRetiredIDs()
            }
            if !isClient { leaveFirstID() }
        case .retireConnectionID(let sequence):
            if let id = try localIDs.retire(sequence, receivedOn: destination) {
                events.append(.connectionIDRetired(id))
                issueConnectionIDs()
            }
        case .pathChallenge(let data): receivedPathChallenge(data, on: address)
        case .pathResponse(let data): receivedPathResponse(data, at: now)
        case .applicationClose(let code, let reason):
            unsafe enterDraining(.application(code: code, reason: Self.reason(reason), isRemote: true), at: now)
        case .handshakeDone:
            guard isClient else {
                throw TransportError(
                    .protocolViolation, frameType: FrameType.handshakeDone, "HANDSHAKE_DONE from a client")
            }
            if phase == .established { confirmHandshake(at: now) }
        case .newToken(let token): unsafe try receiveNewToken(token)
        case .datagram(let bytes): unsafe try receivedDatagram(bytes)
        case .observedAddress(let sequence, let observed):
            try receivedObservedAddress(observed, sequence: sequence, on: address, at: now)
        case .padding, .ping, .acknowledgement, .crypto, .stream, .connectionClose:
            preconditionFailure("handled where every packet's frames are")
        }
    }

    private mutating func receivedDatagram(_ bytes: UnsafeRawBufferPointer) throws(TransportError) {
        let limit = configuration.maxDatagramFrameSize
        guard limit > 0, PacketWriter.datagramLength(bytes.count) <= limit + 8 else {
            throw TransportError(.protocolViolation, frameType: FrameType.datagram, "a datagram larger than allowed")
        }
        guard waitingDatagramEvents < configuration.maxQueuedDatagrams else { return }
        waitingDatagramEvents += 1
        unsafe events.append(.datagram([UInt8](bytes)))
    }

    private mutating func receivedCrypto(
        offset: UInt64, _ bytes: UnsafeRawBufferPointer, _ space: PacketSpace
    ) throws(TransportError) {
        guard offset + UInt64(bytes.count) <= spaces[space.rawValue].cryptoReceive.readOffset + 65536 else {
            throw TransportError(.cryptoBufferExceeded, frameType: FrameType.crypto, "too many handshake bytes ahead")
        }
        do {
            unsafe try spaces[space.rawValue].cryptoReceive.receive(offset: offset, bytes: bytes, isFinished: false)
        } catch {
            throw TransportError(.cryptoBufferExceeded, frameType: FrameType.crypto, "handshake bytes too fragmented")
        }
        if spaces[space.rawValue].cryptoReceive.readableCount > 0 { isTLSReady = true }
    }

    // MARK: - Acknowledgements

    @inline(__always)
    private mutating func receivedAcknowledgement(
        _ frame: AcknowledgementFrame, _ space: PacketSpace, at now: Timestamp
    ) throws(TransportError) {
        var ranges: [AckRange] = []
        swap(&ranges, &ackRanges)
        ranges.removeAll(keepingCapacity: true)
        frame.forEachRange { smallest, largest in ranges.append(AckRange(smallest: smallest, largest: largest)) }
        defer { swap(&ranges, &ackRanges) }
        let exponent = space == .application ? peerParameters?.ackDelayExponent ?? 3 : 3
        let delay = space == .initial ? 0 : Self.nanoseconds(delay: frame.delay, exponent: exponent)
        do {
            try recovery.receivedAck(
                space, ranges: ranges, delay: delay, ecn: frame.counts, at: now)
        } catch {
            throw TransportError(
                .protocolViolation, frameType: FrameType.acknowledgement, "acknowledged a packet never sent")
        }
        path.consecutiveProbes = 0
        if recovery.isBlackHole { fallBackToSmallest(at: now) }
        if space == .handshake, isClient { recovery.addressValidated() }
        processAcknowledged(at: now)
        processLost(at: now)
        if space == .application {
            // What is kept for repetition covers two windows, so that it never limits a long fat path, nor one where packets
            // overtake each other. On a short one 8 MiB are more than any link needs (10 ms: 6 Gbit/s).
            let wanted = 2 * recovery.congestionWindow
            let bound = recovery.rtt.minimum < .milliseconds(10) ? 8 << 20 : 16 << 20
            streams.sendCapacity = min(max(configuration.sendCapacity, wanted), bound)
        }
        log?.metrics(recovery, at: now)
    }

    private static func nanoseconds(delay: UInt64, exponent: UInt64) -> Int64 {
        // Longer than a minute is nonsense, and would overflow.
        Int64(min(delay, 60_000_000) << exponent) * 1000
    }

    /// Forgets what the peer is now known to have.
    mutating func processAcknowledged(at now: Timestamp) {
        while let (space, content) = recovery.nextAcknowledged() {
            if let largest = content.largestAcknowledged {
                spaces[space.rawValue].received.acknowledgementAcknowledged(upTo: largest)
            }
            if let crypto = content.crypto {
                spaces[space.rawValue].cryptoSend.acknowledged(
                    offset: crypto.lowerBound, length: crypto.count, isFinished: false)
            }
            if space == .application { streams.acknowledged(content) }
            for item in content.items {
                switch item {
                case .crypto(let offset, let length):
                    spaces[space.rawValue].cryptoSend.acknowledged(offset: offset, length: length, isFinished: false)
                case .retireConnectionID: peerIDs.retirementAcknowledged()
                case .plpmtudProbe(let size, let path): plpmtudProbeArrived(size, path: path, at: now)
                default: break
                }
            }
        }
    }

    /// Queues again what packets carried that were lost.
    mutating func processLost(at now: Timestamp) {
        while let (space, content) = recovery.nextLost() {
            if let crypto = content.crypto {
                spaces[space.rawValue].cryptoSend.lost(
                    offset: crypto.lowerBound, length: crypto.count, isFinished: false)
            }
            if space == .application { streams.lost(content) }
            if content.control.contains(.handshakeDone) { isHandshakeDonePending = true }
            for item in content.items {
                switch item {
                case .crypto(let offset, let length):
                    spaces[space.rawValue].cryptoSend.lost(offset: offset, length: length, isFinished: false)
                case .newConnectionID(let sequence): localIDs.announceAgain(sequence)
                case .newToken: isNewTokenPending = true
                case .retireConnectionID(let sequence): peerIDs.retirementLost(sequence)
                case .observedAddress(let address): discovery.lost(on: address, inUse: path.address)
                case .plpmtudProbe(let size, let path): plpmtudProbeLost(size, path: path, at: now)
                default: break
                }
            }
            log?.packetLost(space, at: now)
        }
    }
}
