/// The ids the peer has given out, by which this end addresses it (RFC 9000 §5.1.2).
///
/// Every path sends to an id of its own (RFC 9000 §9.5); what no path uses waits to be taken by the next.
struct PeerConnectionIDs {
    /// The number of ids kept for so many paths; the peer is told as `active_connection_id_limit`.
    ///
    /// One for each, and some to move to while those given back are replaced.
    static func limit(paths: Int) -> Int { paths + 4 }
    /// The number of ids kept at most.
    let limit: Int
    /// The most retirements that may wait for the peer to hear of them (RFC 9000 §5.1.2).
    static let maximumRetirements = 64
    /// The most ids that may have been seen beyond one that is still missing.
    static let maximumGap = 256

    private struct Entry {
        var sequence: UInt64
        var id: ConnectionID
        var token: ResetToken?
        /// Indicates whether packets have been sent to it.
        var isUsed = false
    }

    /// The life of a token by which the peer would say that it has forgotten the connection.
    enum TokenChange {
        case added(ResetToken)
        case retired(ResetToken)
    }

    private var entries: [Entry]
    /// The changes the driver has not been told of yet, in order.
    private var tokenChanges: [TokenChange] = []
    private var retiredBelow: UInt64 = 0
    /// Every number below has been seen, and so have ``seenAbove``: what is no longer held of them was retired.
    private var seenBelow: UInt64 = 1
    private var seenAbove: Set<UInt64> = []
    /// Sequence numbers whose RETIRE_CONNECTION_ID has to be sent.
    private(set) var pending: [UInt64] = []
    /// Those of them that were given back by choice: the peer cannot know of it yet, so it may issue no others for them.
    private var unannounced: [UInt64] = []
    private var unconfirmed = 0
    /// The id packets are sent to on the path in use.
    private(set) var current: ConnectionID
    /// Its sequence number.
    private(set) var currentSequence: UInt64 = 0
    /// The peer's own id in the handshake's long headers.
    private(set) var handshakeID: ConnectionID

    /// Starts with what the handshake uses.
    init(_ first: ConnectionID, limit: Int) {
        self.limit = limit
        entries = [Entry(sequence: 0, id: first, token: nil, isUsed: true)]
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
        guard let index = entries.firstIndex(where: { $0.sequence == 0 }) else { return }
        entries[index].token = token
        tokenChanges.append(.added(token))
    }

    /// The number of ids held.
    var count: Int { entries.count }

    /// The number of ids held that have not been used.
    var unused: Int { entries.reduce(0) { $0 + ($1.isUsed ? 0 : 1) } }

    /// Indicates whether the peer wants to be addressed without an id, on every path alike.
    var isEmptyID: Bool { current.count == 0 }

    /// The id of a sequence number, while it is held.
    func id(of sequence: UInt64) -> ConnectionID? { entries.first { $0.sequence == sequence }?.id }

    /// Returns whether the peer could say that it has forgotten the connection, in answer to packets to that id.
    func hasToken(_ sequence: UInt64) -> Bool { entries.contains { $0.sequence == sequence && $0.token != nil } }

    /// Takes the oldest id no packet has been sent to; answers its sequence number.
    mutating func takeUnused() -> UInt64? {
        if isEmptyID { return currentSequence }
        var oldest: Int?
        for index in entries.indices where !entries[index].isUsed {
            if oldest.map({ entries[index].sequence < entries[$0].sequence }) ?? true { oldest = index }
        }
        guard let oldest else { return nil }
        entries[oldest].isUsed = true
        if let token = entries[oldest].token { tokenChanges.append(.added(token)) }
        return entries[oldest].sequence
    }

    /// Sends to another id from now on: that of the path moved to.
    mutating func use(_ sequence: UInt64) {
        guard let id = id(of: sequence) else { return }
        current = id
        currentSequence = sequence
    }

    /// Gives an id back that no path uses any more.
    mutating func retire(_ sequence: UInt64) {
        guard !isEmptyID, let index = entries.firstIndex(where: { $0.sequence == sequence }) else { return }
        noteRetired(entries.remove(at: index))
        // Bounded by the ids held: the peer issues no other before it has heard of this.
        if !pending.contains(sequence) {
            pending.append(sequence)
            unannounced.append(sequence)
        }
    }

    private mutating func noteRetired(_ entry: Entry) {
        if entry.isUsed, let token = entry.token { tokenChanges.append(.retired(token)) }
    }

    /// The next change of the tokens that can be meant by a stateless reset.
    mutating func nextTokenChange() -> TokenChange? {
        tokenChanges.isEmpty ? nil : tokenChanges.removeFirst()
    }

    /// Returns whether `token` proves that the peer has forgotten this connection.
    ///
    /// Only the tokens of ids in use can be meant (RFC 9000 §10.3.1).
    func isReset(_ token: ResetToken) -> Bool {
        var found = false
        // Every one is compared, in the same time, whichever matches.
        for entry in entries where entry.isUsed {
            if let known = entry.token, known.matches(token) { found = true }
        }
        return found
    }

    /// Takes NEW_CONNECTION_ID in.
    ///
    /// One id too many must close the connection with CONNECTION_ID_LIMIT_ERROR (RFC 9000 §5.1.1), a contradiction may close
    /// it with PROTOCOL_VIOLATION (§19.15): the limit comes first.
    ///
    /// - Returns: whether ids in use may have ended, and paths need others.
    /// - Throws: CONNECTION_ID_LIMIT_ERROR for too many, PROTOCOL_VIOLATION for contradictions.
    mutating func add(
        sequence: UInt64, retirePriorTo: UInt64, id: ConnectionID, token: ResetToken
    ) throws(TransportError) -> Bool {
        let type = FrameType.newConnectionID
        guard !isEmptyID else {
            throw TransportError(.protocolViolation, frameType: type, "an id for a peer that uses none")
        }
        try checkLimit(sequence: sequence, retirePriorTo: retirePriorTo, id: id)
        if let known = entries.first(where: { $0.sequence == sequence || $0.id == id }) {
            guard known.sequence == sequence, known.id == id, known.token.map({ $0.matches(token) }) ?? true else {
                throw TransportError(.protocolViolation, frameType: type, "an id was issued twice differently")
            }
        } else if try noteSeen(sequence) {
            if sequence < retiredBelow {
                try queueRetirement(sequence)
            } else {
                entries.append(Entry(sequence: sequence, id: id, token: token))
            }
        }
        var hasRetired = false
        if retirePriorTo > retiredBelow {
            retiredBelow = retirePriorTo
            hasRetired = true
            unannounced.removeAll { $0 < retirePriorTo }
            var kept: [Entry] = []
            for entry in entries {
                if entry.sequence < retirePriorTo {
                    noteRetired(entry)
                    try queueRetirement(entry.sequence)
                } else {
                    kept.append(entry)
                }
            }
            entries = kept
        }
        return hasRetired
    }

    /// Refuses a frame that brings an id, or a number, beyond the limit once what it retires is gone.
    private func checkLimit(sequence: UInt64, retirePriorTo: UInt64, id: ConnectionID) throws(TransportError) {
        let floor = max(retirePriorTo, retiredBelow)
        // Late, or a repetition: of what is held, or of what was given back.
        guard sequence >= floor, !entries.contains(where: { $0.sequence == sequence && $0.id == id }) else { return }
        let isHeld = entries.contains { $0.sequence == sequence }
        guard isHeld || isUnseen(sequence) else { return }
        var active = 1
        for entry in entries where entry.sequence >= floor { active += 1 }
        for given in unannounced where given >= floor { active += 1 }
        guard active <= limit else {
            throw TransportError(.connectionIDLimit, frameType: FrameType.newConnectionID, "more ids than allowed")
        }
    }

    private func isUnseen(_ sequence: UInt64) -> Bool { sequence >= seenBelow && !seenAbove.contains(sequence) }

    /// Notes that a number has come; false when it had before, and was retired since.
    private mutating func noteSeen(_ sequence: UInt64) throws(TransportError) -> Bool {
        guard isUnseen(sequence) else { return false }
        seenAbove.insert(sequence)
        while seenAbove.remove(seenBelow) != nil { seenBelow += 1 }
        guard seenAbove.count <= Self.maximumGap else {
            throw TransportError(.connectionIDLimit, frameType: FrameType.newConnectionID, "ids with too many gaps")
        }
        return true
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
        let sequence = pending.removeFirst()
        unannounced.removeAll { $0 == sequence }
        return sequence
    }

    /// The peer knows of a retirement.
    mutating func retirementAcknowledged() { unconfirmed = max(0, unconfirmed - 1) }

    /// A retirement has to be sent again.
    mutating func retirementLost(_ sequence: UInt64) {
        unconfirmed = max(0, unconfirmed - 1)
        if !pending.contains(sequence) { pending.append(sequence) }
    }
}
