// What the peer's frames do to streams.
extension StreamTable {
    /// Takes a STREAM frame in (RFC 9000 §19.8).
    ///
    /// - Returns: whether it brought anything that had not come before.
    @discardableResult
    package mutating func receivedStream(
        _ id: StreamID, offset: UInt64, bytes: UnsafeRawBufferPointer, isFinished: Bool
    ) throws(StreamViolation) -> Bool {
        guard id.direction == .bidirectional || !isOurs(id) else { throw .streamState }
        guard offset <= Self.largestOffset - UInt64(bytes.count) else { throw .flowControl }
        guard let slot = try receiving(id) else { return false }
        switch streams[slot].receiveState {
        case .done, .reset: return false
        case .open, .stopped: break
        }
        let end = offset + UInt64(bytes.count)
        let before = streams[slot].receive.highestOffset
        try account(slot, from: before, to: max(before, end))
        if streams[slot].receiveState == .stopped {
            // Counted, and thrown away.
            if isFinished {
                try streams[slot].receive.setFinalSize(end)
            } else if let size = streams[slot].receive.finalSize, end > size {
                throw .finalSize
            }
            unsafe try streams[slot].receive.receive(
                offset: end, bytes: UnsafeRawBufferPointer(start: nil, count: 0), isFinished: false)
            streams[slot].receive.discard()
            consumed(max(before, end) - before, slot, isStreamOpen: false)
            closeStopped(slot)
            removeIfOver(slot)
            return end > before
        }
        let isNew = unsafe try streams[slot].receive.receive(offset: offset, bytes: bytes, isFinished: isFinished)
        streams[slot].isBusy = true
        if streams[slot].receive.isReadable, !streams[slot].isReadableTold {
            streams[slot].isReadableTold = true
            events.append(.readable(id))
        }
        return isNew
    }

    /// Charges new bytes to both windows (RFC 9000 §4.1).
    private mutating func account(_ slot: Int, from before: UInt64, to end: UInt64) throws(StreamViolation) {
        guard end > before else { return }
        guard end <= streams[slot].receiveWindow.limit,
            end - before <= receiveWindow.limit - receiveWindow.arrived
        else { throw .flowControl }
        receiveWindow.arrive(end - before)
        moveConnectionWindow()
    }

    /// A stopped stream is done once the peer has said how much it sent in all.
    mutating func closeStopped(_ slot: Int) {
        guard streams[slot].receiveState == .stopped, streams[slot].receive.isComplete else { return }
        streams[slot].receiveState = .done
        streams[slot].pending.remove(.stopSending)
    }

    /// Takes a RESET_STREAM frame in (RFC 9000 §19.4).
    package mutating func receivedReset(
        _ id: StreamID, code: UInt64, finalSize: UInt64
    ) throws(StreamViolation) {
        guard id.direction == .bidirectional || !isOurs(id) else { throw .streamState }
        guard finalSize <= Self.largestOffset else { throw .flowControl }
        guard let slot = try receiving(id) else { return }
        switch streams[slot].receiveState {
        case .done, .reset: return
        case .open, .stopped: break
        }
        let before = streams[slot].receive.highestOffset
        try account(slot, from: before, to: max(before, finalSize))
        // A FIN and everything before it arrived earlier: the reset comes too late to matter (RFC 9000 §3.2). Without
        // the FIN it is a reset even when no byte is missing, or cut-off data would pass for whole.
        let isWhole = streams[slot].receiveState == .open && streams[slot].receive.isComplete
        try streams[slot].receive.setFinalSize(finalSize)
        if isWhole { return }
        let unread = finalSize - streams[slot].receive.readOffset
        let wasStopped = streams[slot].receiveState == .stopped
        streams[slot].receive.discard()
        streams[slot].receiveState = wasStopped ? .done : .reset(code)
        streams[slot].pending.subtract([.maxStreamData, .stopSending])
        consumed(unread, slot, isStreamOpen: false)
        if !wasStopped { events.append(.reset(id, code: code)) }
        removeIfOver(slot)
    }

    /// Takes a STOP_SENDING frame in: our direction is reset with the peer's code (RFC 9000 §3.5).
    package mutating func receivedStopSending(_ id: StreamID, code: UInt64) throws(StreamViolation) {
        guard id.direction == .bidirectional || isOurs(id) else { throw .streamState }
        guard let slot = try receiving(id) else { return }
        guard streams[slot].sendState == .open, streams[slot].stoppedBy == nil else { return }
        streams[slot].stoppedBy = code
        events.append(.stopped(id, code: code))
        abandonSending(slot, code: code)
    }

    /// Takes a MAX_DATA frame in.
    package mutating func receivedMaxData(_ limit: UInt64) {
        guard sendWindow.raise(to: limit) else { return }
        let waiting = waitingForConnection
        waitingForConnection.removeAll(keepingCapacity: true)
        for slot in waiting {
            streams[slot].isWaitingForConnection = false
            schedule(slot)
        }
    }

    /// Takes a MAX_STREAM_DATA frame in.
    package mutating func receivedMaxStreamData(_ id: StreamID, _ limit: UInt64) throws(StreamViolation) {
        guard id.direction == .bidirectional || isOurs(id) else { throw .streamState }
        guard let slot = try receiving(id) else { return }
        if streams[slot].sendWindow.raise(to: limit) { schedule(slot) }
    }

    /// Takes a MAX_STREAMS frame in.
    package mutating func receivedMaxStreams(_ direction: StreamDirection, _ limit: UInt64) {
        let kind = index(direction)
        guard limit > ours[kind].limit else { return }
        ours[kind].limit = min(limit, Self.largestCount)
        if ours[kind].isRefused {
            ours[kind].isRefused = false
            events.append(.available(direction))
        }
    }

    /// Takes a DATA_BLOCKED frame in: the newest limit is said again, in case it was lost on the way.
    package mutating func receivedDataBlocked(_ limit: UInt64) {
        peerBlockedAt = limit
        if limit < receiveWindow.limit { pendingControl.insert(.maxData) }
    }

    /// Takes a STREAM_DATA_BLOCKED frame in.
    package mutating func receivedStreamDataBlocked(_ id: StreamID, _ limit: UInt64) throws(StreamViolation) {
        guard id.direction == .bidirectional || !isOurs(id) else { throw .streamState }
        guard let slot = try receiving(id), streams[slot].receiveState == .open else { return }
        peerBlockedStreams.removeAll { $0.id == id }
        if peerBlockedStreams.count == Self.maximumPeerBlocked { peerBlockedStreams.removeFirst() }
        peerBlockedStreams.append((id, limit))
        if limit < streams[slot].receiveWindow.limit, streams[slot].receive.finalSize == nil {
            queue(.maxStreamData, slot)
        }
    }

    /// Says the limits again at which the peer was stopped, if they have moved and nothing beyond them has come.
    ///
    /// - Returns: whether there is one.
    @discardableResult
    package mutating func repeatLimits() -> Bool {
        var isStopped = false
        if let limit = peerBlockedAt {
            if receiveWindow.arrived > limit {
                peerBlockedAt = nil
            } else if receiveWindow.limit > limit {
                pendingControl.insert(.maxData)
                isStopped = true
            }
        }
        for (id, limit) in peerBlockedStreams {
            guard let slot = slots[id.rawValue], streams[slot].receiveState == .open,
                streams[slot].receive.finalSize == nil, streams[slot].receive.highestOffset <= limit
            else {
                peerBlockedStreams.removeAll { $0.id == id }
                continue
            }
            if streams[slot].receiveWindow.limit > limit {
                queue(.maxStreamData, slot)
                isStopped = true
            }
        }
        return isStopped
    }

    /// Takes a STREAMS_BLOCKED frame in.
    package mutating func receivedStreamsBlocked(_ direction: StreamDirection, _ limit: UInt64) {
        if limit < theirs[index(direction)].limit {
            pendingControl.insert(
                direction == .bidirectional ? .maxStreamsBidirectional : .maxStreamsUnidirectional)
        }
    }
}
