/// The ids this end has given out, by which the peer addresses it (RFC 9000 §5.1.1).
struct LocalConnectionIDs {
    private struct Entry {
        var sequence: UInt64
        var id: ConnectionID
    }

    private var entries: [Entry]
    private(set) var nextSequence: UInt64 = 1
    /// The largest number that the peer was sent.
    private var largestSent: UInt64 = 0
    /// Sequence numbers whose NEW_CONNECTION_ID has to be sent.
    private(set) var pending: [UInt64] = []

    /// Starts with the id of the handshake, which has sequence number 0.
    init(_ first: ConnectionID) {
        entries = [Entry(sequence: 0, id: first)]
    }

    /// The number of valid ids.
    var count: Int { entries.count }

    /// All valid ids.
    var all: [ConnectionID] { entries.map(\.id) }

    /// The id with a sequence number, while it is valid.
    func id(of sequence: UInt64) -> ConnectionID? { entries.first { $0.sequence == sequence }?.id }

    /// The sequence number of a valid id.
    func sequence(of id: ConnectionID) -> UInt64? { entries.first { $0.id == id }?.sequence }

    /// Adds an id and queues its announcement.
    mutating func issue(_ id: ConnectionID) {
        entries.append(Entry(sequence: nextSequence, id: id))
        pending.append(nextSequence)
        nextSequence += 1
    }

    /// Takes the next announcement to send; ids retired meanwhile are passed over.
    mutating func takePending() -> (sequence: UInt64, id: ConnectionID)? {
        while let sequence = pending.first {
            pending.removeFirst()
            guard let id = id(of: sequence) else { continue }
            largestSent = max(largestSent, sequence)
            return (sequence, id)
        }
        return nil
    }

    /// Announces an id again, whose packet was lost.
    mutating func announceAgain(_ sequence: UInt64) {
        if id(of: sequence) != nil, !pending.contains(sequence) { pending.append(sequence) }
    }

    /// Takes RETIRE_CONNECTION_ID in; answers the id that ended.
    ///
    /// - Throws: PROTOCOL_VIOLATION for a number never sent to the peer, or the very id the packet was sent to
    ///   (RFC 9000 §19.16).
    mutating func retire(_ sequence: UInt64, receivedOn destination: ConnectionID) throws(TransportError)
        -> ConnectionID?
    {
        guard sequence <= largestSent else {
            throw TransportError(
                .protocolViolation, frameType: FrameType.retireConnectionID, "retired an id it was never sent")
        }
        guard let index = entries.firstIndex(where: { $0.sequence == sequence }) else { return nil }
        guard entries[index].id != destination else {
            throw TransportError(
                .protocolViolation, frameType: FrameType.retireConnectionID, "retired the id it was sent to")
        }
        pending.removeAll { $0 == sequence }
        return entries.remove(at: index).id
    }
}
