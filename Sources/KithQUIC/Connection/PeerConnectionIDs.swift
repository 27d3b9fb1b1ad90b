/// The ids the peer has given out, by which this end addresses it (RFC 9000 §5.1.2).
struct PeerConnectionIDs {
    /// How many we keep; the peer is told as `active_connection_id_limit`.
    static let limit = 8
    /// How many retirements may wait for the peer to hear of them (RFC 9000 §5.1.2).
    static let maximumRetirements = 64

    private struct Entry {
        var sequence: UInt64
        var id: ConnectionID
        var token: ResetToken?
    }

    private var entries: [Entry]
    private var retiredBelow: UInt64 = 0
    /// Sequence numbers whose RETIRE_CONNECTION_ID has to be sent.
    private(set) var pending: [UInt64] = []
    private var unconfirmed = 0
    /// The id packets are sent to.
    private(set) var current: ConnectionID
    /// The peer's own id in the handshake's long headers.
    private(set) var handshakeID: ConnectionID

    /// Starts with what the handshake uses.
    init(_ first: ConnectionID) {
        entries = [Entry(sequence: 0, id: first, token: nil)]
        current = first
        handshakeID = first
    }

    /// Replaces the id of the handshake: the server chose its own.
    mutating func replaceFirst(_ id: ConnectionID) {
        entries[0].id = id
        current = id
        handshakeID = id
    }

    /// Sets the reset token of the first id, which came in the transport parameters.
    mutating func setFirstToken(_ token: ResetToken) {
        if let index = entries.firstIndex(where: { $0.sequence == 0 }) { entries[index].token = token }
    }

    /// How many ids are held.
    var count: Int { entries.count }

    /// Whether `token` proves that the peer has forgotten this connection.
    func isReset(_ token: ResetToken) -> Bool {
        var found = false
        // Every one is compared, in the same time, whichever matches.
        for entry in entries {
            if let known = entry.token, known.matches(token) { found = true }
        }
        return found
    }

    /// Takes NEW_CONNECTION_ID in.
    ///
    /// - Throws: PROTOCOL_VIOLATION for contradictions, CONNECTION_ID_LIMIT_ERROR for too many.
    mutating func add(
        sequence: UInt64, retirePriorTo: UInt64, id: ConnectionID, token: ResetToken
    ) throws(TransportError) {
        let type = FrameType.newConnectionID
        guard current.count > 0 else {
            throw TransportError(.protocolViolation, frameType: type, "an id for a peer that uses none")
        }
        if let known = entries.first(where: { $0.sequence == sequence || $0.id == id }) {
            guard known.sequence == sequence, known.id == id, known.token.map({ $0.matches(token) }) ?? true else {
                throw TransportError(.protocolViolation, frameType: type, "an id was issued twice differently")
            }
        } else if sequence < retiredBelow {
            try queueRetirement(sequence)
        } else {
            entries.append(Entry(sequence: sequence, id: id, token: token))
        }
        if retirePriorTo > retiredBelow {
            retiredBelow = retirePriorTo
            var kept: [Entry] = []
            for entry in entries {
                if entry.sequence < retirePriorTo {
                    try queueRetirement(entry.sequence)
                } else {
                    kept.append(entry)
                }
            }
            entries = kept
            if !entries.contains(where: { $0.id == current }), let next = entries.first { current = next.id }
        }
        guard entries.count <= Self.limit else {
            throw TransportError(.connectionIDLimit, frameType: type, "more ids than allowed")
        }
    }

    private mutating func queueRetirement(_ sequence: UInt64) throws(TransportError) {
        guard !pending.contains(sequence) else { return }
        guard pending.count + unconfirmed < Self.maximumRetirements else {
            throw TransportError(.connectionIDLimit, frameType: FrameType.newConnectionID, "too many retired ids")
        }
        pending.append(sequence)
    }

    /// Takes the next retirement to send.
    mutating func takePending() -> UInt64? {
        guard !pending.isEmpty else { return nil }
        unconfirmed += 1
        return pending.removeFirst()
    }

    /// The peer knows of a retirement.
    mutating func retirementAcknowledged() { unconfirmed = max(0, unconfirmed - 1) }

    /// A retirement has to be sent again.
    mutating func retirementLost(_ sequence: UInt64) {
        unconfirmed = max(0, unconfirmed - 1)
        if !pending.contains(sequence) { pending.append(sequence) }
    }
}
