// Early data that the server did not read (RFC 9001 §4.6.2).
extension StreamTable {
    /// Makes as if nothing had been sent and nothing allowed yet; what was written waits for the peer's real limits.
    ///
    /// Nothing of it was acknowledged. Once the limits are known, ``dropUnlimited()`` follows.
    mutating func withdraw() {
        peerLimits = PeerStreamLimits()
        sendWindow = SendWindow(limit: 0)
        for slot in waitingForConnection { streams[slot].isWaitingForConnection = false }
        waitingForConnection.removeAll(keepingCapacity: true)
        pendingControl.subtract([.dataBlocked, .streamsBlockedBidirectional, .streamsBlockedUnidirectional])
        for kind in ours.indices {
            ours[kind].limit = 0
            ours[kind].announcedBlocked = nil
        }
        for slot in slots.values {
            scheduler.remove(slot, in: &streams)
            streams[slot].pending.remove(.blocked)
            streams[slot].sendWindow = SendWindow(limit: 0)
            switch streams[slot].sendState {
            case .open: streams[slot].send.withdraw()
            case .resetPending, .resetSent:
                streams[slot].sendState = .resetPending
                streams[slot].resetSize = 0
                queue(.reset, slot)
            case .done: break
            }
            if streams[slot].receiveState == .stopped { queue(.stopSending, slot) }
        }
    }

    /// Gives up the streams for which the peer's limit, now known, has no place.
    ///
    /// Each is reported as reset and stopped with code 0, and its number is free again.
    mutating func dropUnlimited() {
        for slot in slots.values.sorted() {
            let id = streams[slot].id
            guard isOurs(id), id.index >= ours[index(id.direction)].limit else { continue }
            if streams[slot].receiveState == .open { events.append(.reset(id, code: 0)) }
            if streams[slot].sendState == .open { events.append(.stopped(id, code: 0)) }
            streams[slot].sendState = .done
            streams[slot].receiveState = .done
            streams[slot].pending = []
            removeIfOver(slot)
        }
        for kind in ours.indices { ours[kind].opened = min(ours[kind].opened, ours[kind].limit) }
    }
}
