// Frames to the peer, and what became of them.
extension StreamTable {
    /// A STREAM frame smaller than this is left for the next packet when there is more to send.
    private static let smallestFragment = 48

    /// Indicates whether there is something to send.
    package var hasPending: Bool { !pendingControl.isEmpty || !controlQueue.isEmpty || !scheduler.isEmpty }

    /// Writes as many frames as fit, the most urgent first.
    ///
    /// - Returns: how many bytes were written; what they carried is noted in `content`.
    package mutating func writeFrames(
        into target: UnsafeMutableRawBufferPointer, content: inout SentContent
    ) -> Int {
        var writer = unsafe FrameWriter(target)
        if !pendingControl.isEmpty { writeConnectionFrames(&writer, &content) }
        while let slot = controlQueue.first {
            guard writeControl(slot, &writer, &content) else { return writer.count }
            streams[slot].isControlQueued = false
            controlQueue.removeFirst()
            removeIfOver(slot)
        }
        while let slot = scheduler.next {
            switch writeStream(slot, &writer, &content) {
            case .noRoom:
                return writer.count
            case .written:
                // To the end of the line, so that equals take turns.
                scheduler.removeNext(in: &streams)
                schedule(slot)
                if streams[slot].sendWindow.limit == streams[slot].send.next { announceBlocked(slot) }
            case .blocked:
                scheduler.removeNext(in: &streams)
                waitForConnection(slot)
                if !pendingControl.isEmpty { writeConnectionFrames(&writer, &content) }
            }
        }
        return writer.count
    }

    // MARK: - Frames of the connection

    private mutating func writeConnectionFrames(_ writer: inout FrameWriter, _ content: inout SentContent) {
        write(.maxData, 0x10, receiveWindow.limit, &writer, &content)
        write(.maxStreamsBidirectional, 0x12, theirs[0].limit, &writer, &content)
        write(.maxStreamsUnidirectional, 0x13, theirs[1].limit, &writer, &content)
        write(.dataBlocked, 0x14, sendWindow.limit, &writer, &content)
        write(.streamsBlockedBidirectional, 0x16, ours[0].limit, &writer, &content)
        write(.streamsBlockedUnidirectional, 0x17, ours[1].limit, &writer, &content)
    }

    private mutating func write(
        _ flag: ControlFlags, _ type: UInt8, _ value: UInt64, _ writer: inout FrameWriter,
        _ content: inout SentContent
    ) {
        guard pendingControl.contains(flag), writer.room >= 1 + varintLength(value) else { return }
        writer.byte(type)
        writer.varint(value)
        pendingControl.remove(flag)
        content.control.insert(flag)
    }

    // MARK: - Frames of one stream

    /// Writes a stream's waiting frames other than STREAM; false when one did not fit.
    private mutating func writeControl(
        _ slot: Int, _ writer: inout FrameWriter, _ content: inout SentContent
    ) -> Bool {
        let id = streams[slot].id
        let idLength = varintLength(id.rawValue)
        if streams[slot].pending.contains(.reset) {
            let (code, size) = (streams[slot].resetCode, streams[slot].resetSize)
            guard writer.room >= 1 + idLength + varintLength(code) + varintLength(size) else { return false }
            writer.byte(0x04)
            writer.varint(id.rawValue)
            writer.varint(code)
            writer.varint(size)
            streams[slot].pending.remove(.reset)
            streams[slot].sendState = .resetSent
            content.add(.resetStream(id))
        }
        if streams[slot].pending.contains(.stopSending) {
            let code = streams[slot].stopCode
            guard writer.room >= 1 + idLength + varintLength(code) else { return false }
            writer.byte(0x05)
            writer.varint(id.rawValue)
            writer.varint(code)
            streams[slot].pending.remove(.stopSending)
            content.add(.stopSending(id))
        }
        if streams[slot].pending.contains(.maxStreamData) {
            let limit = streams[slot].receiveWindow.limit
            guard writer.room >= 1 + idLength + varintLength(limit) else { return false }
            writer.byte(0x11)
            writer.varint(id.rawValue)
            writer.varint(limit)
            streams[slot].pending.remove(.maxStreamData)
            content.add(.maxStreamData(id))
        }
        if streams[slot].pending.contains(.blocked) {
            let limit = streams[slot].sendWindow.limit
            guard writer.room >= 1 + idLength + varintLength(limit) else { return false }
            writer.byte(0x15)
            writer.varint(id.rawValue)
            writer.varint(limit)
            streams[slot].pending.remove(.blocked)
            content.add(.streamDataBlocked(id))
        }
        return true
    }

    private enum Written {
        case written, noRoom, blocked
    }

    /// Writes one STREAM frame (RFC 9000 §19.8), always with its length.
    private mutating func writeStream(
        _ slot: Int, _ writer: inout FrameWriter, _ content: inout SentContent
    ) -> Written {
        guard streams[slot].canSendFrame else { return .written }
        let id = streams[slot].id
        let offset = streams[slot].send.pendingOffset
        let header = 1 + varintLength(id.rawValue) + (offset > 0 ? varintLength(offset) : 0)
        let room = writer.room - header
        guard room >= 1 else { return .noRoom }
        let lengthField = room > 64 ? 2 : 1
        let limit = min(room - lengthField, 16_383)
        let isNew = !streams[slot].send.hasLost
        var maximum = streams[slot].sendWindow.limit
        if isNew {
            let unsent = streams[slot].send.unsent
            if unsent > 0, sendWindow.room == 0 { return .blocked }
            maximum = min(maximum, streams[slot].send.next + min(sendWindow.room, unsent))
            let fits = min(unsent, maximum - streams[slot].send.next)
            if limit < Self.smallestFragment, fits > UInt64(limit) { return .noRoom }
        } else if limit < Self.smallestFragment {
            return .noRoom
        }
        let nextBefore = streams[slot].send.next
        guard let range = streams[slot].send.take(upTo: limit, below: maximum) else { return .written }
        let fresh = streams[slot].send.next - nextBefore
        if fresh > 0 {
            sendWindow.use(fresh)
            streams[slot].sendWindow.use(fresh)
        }
        writer.byte(0x08 | 0x02 | (offset > 0 ? 0x04 : 0) | (range.isFinished ? 0x01 : 0))
        writer.varint(id.rawValue)
        if offset > 0 { writer.varint(offset) }
        writer.varint(UInt64(range.length))
        if range.length > 0 {
            unsafe streams[slot].send.copy(offset: range.offset, into: writer.space(range.length))
        }
        content.add(stream: id, offset: range.offset, length: range.length, isFinished: range.isFinished)
        return .written
    }

    /// Puts a stream aside that only the connection's limit stops, and says so once for each limit.
    private mutating func waitForConnection(_ slot: Int) {
        if !streams[slot].isWaitingForConnection {
            streams[slot].isWaitingForConnection = true
            waitingForConnection.append(slot)
        }
        if sendWindow.announcedBlocked != sendWindow.limit {
            sendWindow.announcedBlocked = sendWindow.limit
            pendingControl.insert(.dataBlocked)
        }
    }

    /// Says once for each limit that a stream's own limit stops it.
    mutating func announceBlocked(_ slot: Int) {
        guard streams[slot].sendState == .open, streams[slot].send.unsent > 0,
            streams[slot].sendWindow.announcedBlocked != streams[slot].sendWindow.limit
        else { return }
        streams[slot].sendWindow.announcedBlocked = streams[slot].sendWindow.limit
        queue(.blocked, slot)
    }

    // MARK: - What became of them

    /// Forgets what a packet carried: it arrived.
    package mutating func acknowledged(_ content: borrowing SentContent) {
        if let range = content.stream { acknowledged(range) }
        for item in content.items {
            switch item {
            case .stream(let range):
                acknowledged(range)
            case .resetStream(let id):
                guard let slot = slot(id),
                    streams[slot].sendState == .resetSent || streams[slot].sendState == .resetPending
                else { continue }
                streams[slot].sendState = .done
                streams[slot].pending.remove(.reset)
                removeIfOver(slot)
            default:
                break
            }
        }
    }

    private mutating func acknowledged(_ range: StreamRange) {
        guard let slot = slot(range.id), streams[slot].sendState == .open else { return }
        streams[slot].send.acknowledged(offset: range.offset, length: range.length, isFinished: range.isFinished)
        if streams[slot].send.isComplete {
            streams[slot].sendState = .done
            streams[slot].pending.remove(.blocked)
            scheduler.remove(slot, in: &streams)
            events.append(.finished(range.id))
            removeIfOver(slot)
            return
        }
        if streams[slot].wantsWritable, streams[slot].send.room >= streams[slot].send.capacity / 4 {
            streams[slot].wantsWritable = false
            events.append(.writable(range.id))
        }
    }

    /// Sends what a packet carried again, as far as it still matters.
    package mutating func lost(_ content: borrowing SentContent) {
        if let range = content.stream { lost(range) }
        for item in content.items {
            switch item {
            case .stream(let range):
                lost(range)
            case .resetStream(let id):
                guard let slot = slot(id), streams[slot].sendState == .resetSent else { continue }
                queue(.reset, slot)
            case .stopSending(let id):
                guard let slot = slot(id), streams[slot].receiveState == .stopped else { continue }
                queue(.stopSending, slot)
            case .maxStreamData(let id):
                guard let slot = slot(id), streams[slot].receiveState == .open,
                    streams[slot].receive.finalSize == nil
                else { continue }
                queue(.maxStreamData, slot)
            case .streamDataBlocked(let id):
                guard let slot = slot(id), streams[slot].sendState == .open,
                    streams[slot].sendWindow.announcedBlocked == streams[slot].sendWindow.limit
                else { continue }
                queue(.blocked, slot)
            default:
                break
            }
        }
        let flags = content.control
        if flags.contains(.maxData) { pendingControl.insert(.maxData) }
        if flags.contains(.maxStreamsBidirectional) { pendingControl.insert(.maxStreamsBidirectional) }
        if flags.contains(.maxStreamsUnidirectional) { pendingControl.insert(.maxStreamsUnidirectional) }
        // Blocked frames only still matter at the same limit.
        if flags.contains(.dataBlocked), sendWindow.announcedBlocked == sendWindow.limit {
            pendingControl.insert(.dataBlocked)
        }
        if flags.contains(.streamsBlockedBidirectional), ours[0].announcedBlocked == ours[0].limit {
            pendingControl.insert(.streamsBlockedBidirectional)
        }
        if flags.contains(.streamsBlockedUnidirectional), ours[1].announcedBlocked == ours[1].limit {
            pendingControl.insert(.streamsBlockedUnidirectional)
        }
    }

    private mutating func lost(_ range: StreamRange) {
        guard let slot = slot(range.id), streams[slot].sendState == .open else { return }
        streams[slot].send.lost(offset: range.offset, length: range.length, isFinished: range.isFinished)
        schedule(slot)
    }
}
