// What the application does with streams.
extension StreamTable {
    /// Opens a stream, or gives nil while the peer allows no more; then ``StreamEvent/available(_:)`` follows.
    package mutating func open(_ direction: StreamDirection) -> StreamID? {
        let kind = index(direction)
        guard ours[kind].opened < ours[kind].limit else {
            ours[kind].isRefused = true
            if ours[kind].announcedBlocked != ours[kind].limit {
                ours[kind].announcedBlocked = ours[kind].limit
                pendingControl.insert(
                    direction == .bidirectional ? .streamsBlockedBidirectional : .streamsBlockedUnidirectional)
            }
            return nil
        }
        let id = StreamID(index: ours[kind].opened, isClientInitiated: isClient, direction: direction)
        ours[kind].opened += 1
        make(id)
        return id
    }

    private mutating func sending(_ id: StreamID) throws(StreamError) -> Int {
        guard let slot = slot(id) else { throw .unknown }
        guard id.direction == .bidirectional || isOurs(id) else { throw .wrongDirection }
        return slot
    }

    /// Takes bytes to send, as many as there is room for; after fewer than given ``StreamEvent/writable(_:)`` follows.
    package mutating func write(_ bytes: UnsafeRawBufferPointer, to id: StreamID) throws(StreamError) -> Int {
        let slot = try sending(id)
        if let code = streams[slot].stoppedBy { throw .stopped(code) }
        guard streams[slot].sendState == .open, !streams[slot].send.isFinished else { throw .finished }
        streams[slot].send.capacity = sendCapacity
        let count = unsafe streams[slot].send.append(bytes)
        streams[slot].isBusy = true
        if count < bytes.count { streams[slot].wantsWritable = true }
        if count > 0 { wake(slot) }
        return count
    }

    /// Ends our direction after what was written.
    package mutating func finish(_ id: StreamID) throws(StreamError) {
        let slot = try sending(id)
        if let code = streams[slot].stoppedBy { throw .stopped(code) }
        guard streams[slot].sendState == .open else { throw .finished }
        guard !streams[slot].send.isFinished else { return }
        streams[slot].send.finish()
        wake(slot)
    }

    /// Puts a stream with something new in line, or tells the peer that its limit stops us.
    private mutating func wake(_ slot: Int) {
        if streams[slot].canSendFrame {
            schedule(slot)
        } else if streams[slot].send.unsent > 0 {
            announceBlocked(slot)
        }
    }

    /// Abandons our direction; what has not arrived may never.
    package mutating func reset(_ id: StreamID, code: UInt64) throws(StreamError) {
        let slot = try sending(id)
        abandonSending(slot, code: code)
    }

    mutating func abandonSending(_ slot: Int, code: UInt64) {
        guard streams[slot].sendState == .open else { return }
        streams[slot].sendState = .resetPending
        streams[slot].resetCode = code
        streams[slot].resetSize = streams[slot].send.next
        streams[slot].send.discard()
        streams[slot].wantsWritable = false
        streams[slot].pending.remove(.blocked)
        scheduler.remove(slot, in: &streams)
        queue(.reset, slot)
    }

    /// Tells the peer that we will not read what it sends, and drops what has come.
    package mutating func stopSending(_ id: StreamID, code: UInt64) throws(StreamError) {
        guard let slot = slot(id) else { throw .unknown }
        guard id.direction == .bidirectional || !isOurs(id) else { throw .wrongDirection }
        guard streams[slot].receiveState == .open else { return }
        let unread = streams[slot].receive.highestOffset - streams[slot].receive.readOffset
        streams[slot].receive.discard()
        streams[slot].pending.remove(.maxStreamData)
        consumed(unread, slot, isStreamOpen: false)
        streams[slot].receiveState = .stopped
        // Once the peer has said how much there is, nothing is left to stop and the accounts are settled.
        if !streams[slot].receive.isComplete {
            streams[slot].stopCode = code
            queue(.stopSending, slot)
        }
        closeStopped(slot)
        removeIfOver(slot)
    }

    /// Reads bytes in order.
    package mutating func read(
        _ id: StreamID, into target: UnsafeMutableRawBufferPointer
    ) throws(StreamError) -> ReadResult {
        guard let slot = slot(id) else { throw .unknown }
        guard id.direction == .bidirectional || !isOurs(id) else { throw .wrongDirection }
        switch streams[slot].receiveState {
        case .reset(let code): throw .reset(code)
        case .stopped, .done: return ReadResult(count: 0, isFinished: true)
        case .open: break
        }
        let count = unsafe streams[slot].receive.read(into: target)
        if count > 0 { consumed(UInt64(count), slot, isStreamOpen: streams[slot].receive.finalSize == nil) }
        if streams[slot].receive.readableCount == 0 { streams[slot].isReadableTold = false }
        guard streams[slot].receive.isFinished else { return ReadResult(count: count, isFinished: false) }
        streams[slot].receiveState = .done
        streams[slot].pending.remove(.maxStreamData)
        removeIfOver(slot)
        return ReadResult(count: count, isFinished: true)
    }

    /// Moves both windows on after `count` bytes were read or thrown away.
    mutating func consumed(_ count: UInt64, _ slot: Int, isStreamOpen: Bool) {
        guard count > 0 else { return }
        receiveWindow.consume(count)
        if isStreamOpen {
            streams[slot].receiveWindow.consume(count)
            if streams[slot].receiveWindow.needsUpdate {
                streams[slot].receiveWindow.update(at: now, rtt: rtt)
                // The connection must not throttle a single stream: half as much again.
                receiveWindow.widen(to: streams[slot].receiveWindow.window * 3 / 2)
                queue(.maxStreamData, slot)
            }
        }
        moveConnectionWindow()
    }

    /// Allows more bytes on all streams, when that is worth a frame.
    ///
    /// Bytes that wait for a stalled reader do not stop the others (RFC 9000 §4.1): each stream's own window bounds
    /// them.
    mutating func moveConnectionWindow() {
        guard receiveWindow.needsUpdate else { return }
        receiveWindow.update(at: now, rtt: rtt)
        pendingControl.insert(.maxData)
    }

    /// Sets how urgent a stream is: 0 goes first, 255 last, 128 is where streams start.
    package mutating func setPriority(_ id: StreamID, _ priority: UInt8) {
        guard let slot = slot(id), streams[slot].priority != priority else { return }
        let wasScheduled = streams[slot].isScheduled
        scheduler.remove(slot, in: &streams)
        streams[slot].priority = priority
        if wasScheduled { scheduler.append(slot, in: &streams) }
    }
}
