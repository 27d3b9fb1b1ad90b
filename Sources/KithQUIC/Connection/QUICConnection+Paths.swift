import KithWire

// Several paths, one of them in use (RFC 9000 §8.2, §9).
//
// `path` is the one in use, `otherPaths` are those being validated and those held ready. A server follows its client:
// it moves when the newest packet that is not a probe comes from elsewhere, and falls back on what was proven before
// should nobody answer there. A client moves by itself, on the driver's word or the chooser's, and is not led by
// addresses its server's packets come from. Where both ends agreed (`eitherEndMoves`), a server moves like a client, too,
// and its client follows; should both move at once, the server gives way.
extension QUICConnection {
    /// The interval at which an end that chooses challenges the paths it holds ready.
    ///
    /// That keeps them open in the NATs, and their delay known.
    static var standbyInterval: Int64 { .seconds(15) }
    /// After how many probe time-outs without an answer an end tries the paths it holds ready.
    static var probesBeforeFallback: Int { 2 }

    // MARK: - What the driver asks for

    /// Begins to validate a path without moving to it; it is then held ready, and may be chosen.
    ///
    /// Only an end that ``mayMove`` does that.
    ///
    /// - Parameters:
    ///   - address: the path's.
    ///   - rank: its priority; nil for what its link has (``LocalLink/rank``), or what was said before.
    ///   - now: the time.
    /// - Returns: whether a challenge will be sent; false when it is not allowed, there are
    ///   ``QUICConfiguration/maxPaths``, or the peer has no unused connection id left for us.
    public mutating func probePath(_ address: PathAddress, rank: PathRank? = nil, at now: Timestamp) -> Bool {
        guard mayMove else { return false }
        if address == path.address {
            path.rank = rank ?? path.rank
            return true
        }
        guard let index = findOrAddPath(address, at: now) else { return false }
        otherPaths[index].rank = rank ?? otherPaths[index].rank
        otherPaths[index].isLeft = false
        if otherPaths[index].validation == nil { startValidation(ofOther: index, at: now) }
        updatePathDeadline()
        return true
    }

    /// Moves to another path (RFC 9000 §9.2).
    ///
    /// To the same address of the peer it moves at once and validates meanwhile; to another address it moves when
    /// that has been validated. The path left is held ready.
    ///
    /// - Returns: whether it moves; false for the reasons of ``probePath(_:rank:at:)``.
    public mutating func migrate(to address: PathAddress, at now: Timestamp) -> Bool {
        guard mayMove else { return false }
        guard address != path.address else { return true }
        guard let index = findOrAddPath(address, at: now) else { return false }
        otherPaths[index].isLeft = false
        if otherPaths[index].isProven || address.remote == path.remote {
            let isNew = !otherPaths[index].isProven
            move(to: index, at: now)
            if let left = otherPaths.indices.last { otherPaths[left].isLeft = true }
            if isNew { startValidation(at: now) } else { events.append(.pathChanged(path.address)) }
            probeSoon(at: now)
        } else {
            otherPaths[index].movesWhenValidated = true
            if otherPaths[index].validation == nil { startValidation(ofOther: index, at: now) }
        }
        updatePathDeadline()
        return true
    }

    /// Forgets a path that is held ready; does nothing for the one in use, or where there is none.
    public mutating func forgetPath(_ address: PathAddress) {
        guard let index = otherPaths.firstIndex(where: { $0.address == address }) else { return }
        dropPath(index)
        updatePathDeadline()
    }

    /// Says that a link is gone: its paths are forgotten, and if one was in use, the best of the others is instead.
    ///
    /// Where none is left, the path stays in use in name: only another can help, or a peer that comes from elsewhere.
    public mutating func linkIsGone(_ link: LocalLink, at now: Timestamp) {
        guard phase == .established else { return }
        for index in otherPaths.indices.reversed() where otherPaths[index].address.local == link {
            events.append(.pathFailed(otherPaths[index].address))
            dropPath(index)
        }
        if path.address.local == link, mayMove {
            path.consecutiveProbes = max(path.consecutiveProbes, Self.probesBeforeFallback)
            let proven = otherPaths.indices.filter { otherPaths[$0].isProven }
            if let best = proven.min(by: { isBetter(otherPaths[$0], otherPaths[$1]) }) {
                let gone = path.address
                events.append(.pathFailed(gone))
                move(to: best, at: now)
                if let left = otherPaths.indices.last, otherPaths[left].address == gone { dropPath(left) }
                events.append(.pathChanged(path.address))
                probeSoon(at: now)
            } else {
                tryOtherPaths(at: now)
            }
        }
        updatePathDeadline()
    }

    private func isBetter(_ left: PathState, _ right: PathState) -> Bool {
        if left.rank != right.rank { return left.rank < right.rank }
        return (left.challengeDelay ?? .max) < (right.challengeDelay ?? .max)
    }

    /// Sends everything along a second path as well, until the peer has acknowledged something that was sent so.
    ///
    /// For a path in use that has fallen silent (``Event/peerSilent(_:)``): the connection goes on along the path the
    /// acknowledgement came by, without a round trip to find out which one works. The peer sees copies, and drops one
    /// of each. Ends also when the connection moves, and with nil.
    ///
    /// - Returns: whether it does; only along a path that has been validated, and by an end that ``mayMove``.
    @discardableResult
    public mutating func sendOnBoth(_ address: PathAddress?, at now: Timestamp) -> Bool {
        redundantPath = nil
        guard mayMove, let address, otherPaths.contains(where: { $0.address == address && $0.isProven }) else {
            return false
        }
        redundantPath = address
        redundantFrom = recovery.nextPacketNumber(.application)
        // Both have to carry it.
        fallBackToSmallest(at: now)
        probeSoon(at: now)
        return true
    }

    /// Counts the copy of a datagram, and answers where it goes.
    mutating func noteCopy(_ length: Int) -> PathAddress? {
        guard let index = otherPaths.firstIndex(where: { $0.address == redundantPath }) else {
            redundantPath = nil
            return nil
        }
        otherPaths[index].bytesSent += UInt64(length)
        return redundantPath
    }

    /// Something came by `address` while everything is sent on two paths.
    mutating func decideRedundancy(by address: PathAddress, at now: Timestamp) {
        guard let acknowledged = recovery.largestAcknowledged(.application), acknowledged >= redundantFrom else {
            return
        }
        defer { redundantPath = nil }
        guard address == redundantPath, let index = otherPaths.firstIndex(where: { $0.address == address }) else {
            return
        }
        move(to: index, at: now)
        // It is looked at at once, so that the chooser does not return to what is silent.
        if let left = otherPaths.indices.last, otherPaths[left].validation == nil {
            startValidation(ofOther: left, at: now)
        }
        events.append(.pathChanged(path.address))
        updatePathDeadline()
    }

    /// Says that the local network has changed or is back: whatever waits is tried at once, without back-off.
    ///
    /// An end that may move also challenges its path, so that a peer that sees it come from elsewhere follows.
    public mutating func networkChanged(at now: Timestamp) {
        switch phase {
        case .closing, .draining, .drained: return
        case .handshaking:
            guard isClient else { return }
            let space: PacketSpace = spaces[.handshake].writeKeys == nil ? .initial : .handshake
            recovery.probeNow(space)
            processLost(at: now)
            spaces[space.rawValue].probes = max(1, spaces[space.rawValue].probes)
        case .established:
            if isLeading, isHandshakeConfirmed { startValidation(at: now) }
            probeSoon(at: now)
            updatePathDeadline()
        }
    }

    /// The paths held now, the one in use first.
    public var paths: [PathStatus] {
        [status(of: path, isActive: true)] + otherPaths.map { status(of: $0, isActive: false) }
    }

    private func status(of state: PathState, isActive: Bool) -> PathStatus {
        let isMeasured = isActive && recovery.rtt.hasSample
        return PathStatus(
            address: state.address, rank: state.rank, isActive: isActive, isValidated: state.isValidated,
            roundTrip: isMeasured ? recovery.rtt.smoothed : state.challengeDelay, bytesSent: state.bytesSent,
            bytesReceived: state.bytesReceived)
    }

    /// Indicates whether both ends let the server move, too.
    package var eitherEndMoves: Bool { configuration.eitherEndMoves && (peerParameters?.eitherEndMoves ?? false) }

    /// Indicates whether the peer follows where this end goes.
    private var isLeading: Bool { isClient || eitherEndMoves }

    /// Indicates whether this end goes where its peer's packets come from.
    private var isFollowing: Bool { !isClient || eitherEndMoves }

    /// Indicates whether this end looks after the paths held ready, and its chooser decides among them.
    private var isChoosing: Bool { isClient || configuration.serverChoosesPath && eitherEndMoves }

    /// Indicates whether this end may go over to another path now.
    ///
    /// A client may when its handshake is confirmed, and not against the server's wish (RFC 9000 §9,
    /// `disable_active_migration`); a server only where both ends said so (``QUICConfiguration/eitherEndMoves``).
    public var mayMove: Bool {
        isLeading && isHandshakeConfirmed && phase == .established
            && !(peerParameters?.disableActiveMigration ?? false)
            // Without an id the server could not tell our packets from others' (RFC 9000 §5.1.1).
            && !peerIDs.isEmptyID
    }

    // MARK: - The table

    /// Finds a path that is not in use, or makes one with an id of its own.
    mutating func findOrAddPath(_ address: PathAddress, at now: Timestamp) -> Int? {
        if let index = otherPaths.firstIndex(where: { $0.address == address }) { return index }
        guard makeRoom(at: now), let sequence = peerIDs.takeUnused() else { return nil }
        var added = PathState(address, isValidated: false)
        added.peerSequence = sequence
        // A relay leads to the device it names and to nobody else: there is no address that could be somebody else's.
        let isRelayed = address.local.kind == .relay
        // Nor is it another address because this end has moved, and perhaps once more before it was answered.
        let isProven = (path.isValidated || path.isTrusted) && address.remote == path.remote
        added.isTrusted = isClient || isRelayed || isProven
        added.isOwn = true
        otherPaths.append(added)
        return otherPaths.count - 1
    }

    /// Lets the least useful path go when there are too many; false when none can be spared.
    private mutating func makeRoom(at now: Timestamp) -> Bool {
        guard otherPaths.count + 1 >= configuration.maxPaths else { return true }
        // What was proven to be the peer's is what a spoofed address must not push out (RFC 9000 §9.3.2).
        let refuge = path.isValidated ? nil : newestValidated
        var victim: Int?
        // What this end asked for is forgotten only once it has been left.
        for index in otherPaths.indices
        where index != refuge && (otherPaths[index].isLeft || !otherPaths[index].isOwn) {
            guard let known = victim else {
                victim = index
                continue
            }
            let (left, right) = (otherPaths[index], otherPaths[known])
            if left.isValidated != right.isValidated {
                if right.isValidated { victim = index }
            } else if (left.lastReceived ?? .zero) < (right.lastReceived ?? .zero) {
                victim = index
            }
        }
        guard let victim else { return false }
        dropPath(victim)
        return true
    }

    private var newestValidated: Int? {
        otherPaths.indices.filter { otherPaths[$0].isProven }
            .max { (otherPaths[$0].lastReceived ?? .zero) < (otherPaths[$1].lastReceived ?? .zero) }
    }

    /// Forgets a path that is not in use, and gives its id back unless another path shares it.
    private mutating func dropPath(_ index: Int) {
        let dropped = otherPaths.remove(at: index)
        if dropped.address == redundantPath { redundantPath = nil }
        let sequence = dropped.peerSequence
        if path.peerSequence != sequence, !otherPaths.contains(where: { $0.peerSequence == sequence }) {
            peerIDs.retire(sequence)
        }
    }

    /// Addresses a client by an id that has a reset token, which that of its handshake cannot have (RFC 9000 §10.3).
    ///
    /// So a client that was killed and is back can say that it has forgotten the connection.
    mutating func leaveFirstID() {
        guard path.peerSequence == 0, !peerIDs.hasToken(0), !otherPaths.contains(where: { $0.peerSequence == 0 }),
            let sequence = peerIDs.takeUnused()
        else { return }
        path.peerSequence = sequence
        peerIDs.use(sequence)
        peerIDs.retire(0)
    }

    /// Gives paths other ids whose own the peer has retired; one that finds none is forgotten.
    ///
    /// - Throws: PROTOCOL_VIOLATION when there is none for the path in use: to the one that was retired nothing may be
    ///   sent (RFC 9000 §5.1.2).
    mutating func replaceRetiredIDs() throws(TransportError) {
        if peerIDs.id(of: path.peerSequence) == nil {
            var next = peerIDs.takeUnused()
            if next == nil, let index = otherPaths.lastIndex(where: { peerIDs.id(of: $0.peerSequence) != nil }) {
                next = otherPaths.remove(at: index).peerSequence
            }
            guard let sequence = next else {
                throw TransportError(
                    .protocolViolation, frameType: FrameType.newConnectionID, "retired every id that it has issued")
            }
            // Those that shared it, after a rebound port, go on sharing.
            for index in otherPaths.indices where otherPaths[index].peerSequence == path.peerSequence {
                otherPaths[index].peerSequence = sequence
            }
            path.peerSequence = sequence
            peerIDs.use(sequence)
        }
        for index in otherPaths.indices.reversed() where peerIDs.id(of: otherPaths[index].peerSequence) == nil {
            if let sequence = peerIDs.takeUnused() {
                otherPaths[index].peerSequence = sequence
            } else {
                otherPaths.remove(at: index)
            }
        }
        updatePathDeadline()
    }

    // MARK: - What arrives

    /// Returns whether a datagram from there may belong to this connection; a client knows where its server is.
    func isExpected(_ remote: NetworkAddress) -> Bool {
        isFollowing || remote == path.remote || otherPaths.contains { $0.remote == remote }
    }

    /// Counts a datagram that came along a known path.
    @inline(__always)
    mutating func noteReceived(_ count: Int, on address: PathAddress) {
        if address == path.address {
            path.bytesReceived += UInt64(count)
            if recovery.isAmplificationBlocked { recovery.isAmplificationBlocked = false }
        } else if let index = otherPaths.firstIndex(where: { $0.address == address }) {
            otherPaths[index].bytesReceived += UInt64(count)
        }
    }

    /// An authentic 1-RTT packet came along a path other than the one in use.
    ///
    /// - Parameters:
    ///   - address: that path.
    ///   - destination: the id of ours it was sent to.
    ///   - size: of its datagram.
    ///   - isProbe: whether it carried nothing but probing frames (RFC 9000 §9.1).
    ///   - isAnswer: whether a PATH_RESPONSE was among them.
    ///   - isNewest: whether none with a larger number has come.
    ///   - now: when it came.
    mutating func receivedElsewhere(
        _ address: PathAddress, destination: ConnectionID, size: Int, isProbe: Bool, isAnswer: Bool,
        isNewest: Bool, at now: Timestamp
    ) {
        guard isHandshakeConfirmed, isOpen else { return }
        if let index = otherPaths.firstIndex(where: { $0.address == address }) {
            otherPaths[index].lastReceived = now
            otherPaths[index].localID = destination
            // What was on its way when this end moved does not lead it back; should both have moved, the server gives way.
            let isBelated =
                path.awaitsPeer
                && (isClient || otherPaths[index].leftAt.map { now - $0 < 3 * recovery.probeTimeout } ?? false)
            if isFollowing, !isProbe, isNewest, !isLeading || !isBelated { follow(to: index, at: now) }
            return
        }
        if isProbe, size <= CandidateProbes.size, eitherEndMoves {
            return receivedProbe(from: address, size: size, isAnswer: isAnswer, at: now)
        }
        // A server that moves by itself is not followed (RFC 9000 §9), unless that was agreed.
        guard isFollowing, let index = addPeersPath(address, destination: destination, at: now) else { return }
        otherPaths[index].bytesReceived = UInt64(size)
        otherPaths[index].lastReceived = now
        if !isProbe, isNewest {
            follow(to: index, at: now)
        } else {
            // It may move here next; that will go smoothly when we are sure of the address already.
            startValidation(ofOther: index, at: now)
        }
        updatePathDeadline()
    }

    /// Adds a path the peer has begun to use.
    private mutating func addPeersPath(
        _ address: PathAddress, destination: ConnectionID, at now: Timestamp
    ) -> Int? {
        guard makeRoom(at: now) else { return nil }
        var added = PathState(address, isValidated: false)
        added.localID = destination
        if destination == path.localID {
            // The peer does not know that it moved: a NAT's doing, and no reason to spend an id (RFC 9000 §9.5).
            added.peerSequence = path.peerSequence
        } else if let sequence = peerIDs.takeUnused() {
            added.peerSequence = sequence
        } else {
            return nil
        }
        otherPaths.append(added)
        return otherPaths.count - 1
    }

    /// The client goes on from another address: everything is sent there from now on (RFC 9000 §9.3).
    private mutating func follow(to index: Int, at now: Timestamp) {
        let isProven = otherPaths[index].isValidated
        move(to: index, at: now)
        path.awaitsPeer = false
        // The peer knows why it went: a chooser that finds the old way shorter does not lead it back there. From a direct
        // path to a relay it went because of silence: once there is an answer, the direct one is better again.
        if let left = otherPaths.indices.last { otherPaths[left].isLeft = otherPaths[left].rank >= path.rank }
        if isProven {
            events.append(.pathChanged(path.address))
        } else if path.validation == nil {
            startValidation(at: now)
        }
        // Was it really the peer who moved? If so it does not answer there any more (RFC 9000 §9.3.3).
        if let left = otherPaths.indices.last, otherPaths[left].isValidated, otherPaths[left].validation == nil {
            startValidation(ofOther: left, at: now)
        }
        probeSoon(at: now)
        updatePathDeadline()
    }

    /// Queues the answer to a PATH_CHALLENGE (RFC 9000 §8.2.2).
    mutating func receivedPathChallenge(_ data: UInt64, on address: PathAddress) {
        if pathAnswers.count(where: { $0.address == address }) >= PathAnswer.limitPerAddress {
            pathAnswers.remove(at: pathAnswers.firstIndex { $0.address == address } ?? 0)
        }
        if pathAnswers.count >= PathAnswer.limit { pathAnswers.removeFirst() }
        pathAnswers.append(PathAnswer(data: data, address: address))
    }

    /// Takes a PATH_RESPONSE in, which validates the path its challenge was sent on, wherever it came (RFC 9000 §8.2.3).
    mutating func receivedPathResponse(_ data: UInt64, at now: Timestamp) {
        if let challenge = path.validation?.challenge(data) {
            let wasValidated = path.isValidated
            Self.answered(&path, challenge, giveUpAfter: validationSpan, at: now)
            recovery.isAmplificationBlocked = false
            if !wasValidated { events.append(.pathChanged(path.address)) }
            chooseAgain(at: now)
        } else if let index = otherPaths.firstIndex(where: { $0.validation?.challenge(data) != nil }),
            let challenge = otherPaths[index].validation?.challenge(data)
        {
            // An address is news when it is proven; one that answered a small challenge, when it carries full ones.
            let isNews = !otherPaths[index].isValidated || otherPaths[index].needsFullSize && challenge.isFullSize
            Self.answered(&otherPaths[index], challenge, giveUpAfter: validationSpan, at: now)
            if isNews { events.append(.pathValidated(otherPaths[index].address)) }
            let isFallback = mayMove && path.consecutiveProbes >= Self.probesBeforeFallback
            if otherPaths[index].movesWhenValidated || isFallback {
                move(to: index, at: now)
                if let left = otherPaths.indices.last {
                    otherPaths[left].isLeft = !isFallback
                    // The chooser does not return to what is silent before it has answered.
                    if isFallback, otherPaths[left].validation == nil { startValidation(ofOther: left, at: now) }
                }
                events.append(.pathChanged(path.address))
                probeSoon(at: now)
            } else {
                chooseAgain(at: now)
            }
        } else if let probe = probes.answered(data, at: now) {
            makePath(of: probe, at: now)
        }
        updatePathDeadline()
    }

    private static func answered(
        _ path: inout PathState, _ challenge: PathValidation.Challenge, giveUpAfter span: Int64, at now: Timestamp
    ) {
        path.isValidated = true
        path.challengeDelay = max(1, now - challenge.sent)
        path.lastReceived = now
        if challenge.isFullSize {
            path.needsFullSize = false
            path.validation = nil
        } else {
            path.validation?.requireFullSize(at: now, giveUpAfter: span)
        }
    }

    /// Lets the chooser decide, among what is proven.
    private mutating func chooseAgain(at now: Timestamp) {
        guard isChoosing, mayMove, !otherPaths.isEmpty else { return }
        var places = [-1]
        var candidates = [status(of: path, isActive: true)]
        for index in otherPaths.indices
        where otherPaths[index].isValidated && !otherPaths[index].isLeft && otherPaths[index].validation == nil {
            places.append(index)
            candidates.append(status(of: otherPaths[index], isActive: false))
        }
        guard candidates.count > 1, let chosen = configuration.pathChooser.choose(from: candidates),
            candidates.indices.contains(chosen), places[chosen] >= 0
        else { return }
        move(to: places[chosen], at: now)
        events.append(.pathChanged(path.address))
        probeSoon(at: now)
    }

    // MARK: - Moving

    /// Puts another path in use; the one left is the last of the others then.
    private mutating func move(to index: Int, at now: Timestamp) {
        var next = otherPaths.remove(at: index)
        beforePLPMTUDProbe = nil
        // A new port of one host is a rebound NAT: the network in between is the same (RFC 9000 §9.4).
        let isSameNetwork =
            path.address.local == next.address.local && path.remote.isIPv6 == next.remote.isIPv6
            && path.remote.halves == next.remote.halves
        if !isSameNetwork {
            path.estimates = recovery.changePath(to: next.estimates, at: now)
            next.estimates = nil
            if let delay = next.challengeDelay { recovery.seed(delay: delay) }
            // Nothing larger than every path carries is sent where nobody has measured (RFC 9000 §14.3).
            startPathMTUDiscovery(on: next.address.local)
        }
        recovery.isAmplificationBlocked = false
        redundantPath = nil
        next.putInUse()
        path.leftAt = now
        otherPaths.append(path)
        path = next
        peerIDs.use(path.peerSequence)
    }

    /// Sends something that wants an answer as soon as may be, the oldest unanswered first.
    private mutating func probeSoon(at now: Timestamp) {
        guard phase == .established else { return }
        recovery.probeNow(.application)
        processLost(at: now)
        spaces[.application].probes = max(1, spaces[.application].probes)
    }

    /// The peer is heard again while our packets wait for a probe time-out that has grown long: no need to wait.
    @inline(__always)
    mutating func heardAfterSilence(at now: Timestamp) {
        guard recovery.path.probeCount >= 2, phase == .established else { return }
        probeSoon(at: now)
    }

    // MARK: - Validation

    /// The time to wait for answers to challenges (RFC 9000 §8.2.4).
    ///
    /// Three probe time-outs, of this path or of one not measured, whichever is longer.
    private var validationSpan: Int64 { 3 * max(recovery.probeTimeout, .milliseconds(999)) }

    /// The first interval between challenges: a lost one must not cost the half second a move may take.
    private var challengeInterval: Int64 { min(recovery.probeTimeout, .milliseconds(200)) }

    private mutating func startValidation(at now: Timestamp) {
        path.validation = PathValidation(at: now, giveUpAfter: validationSpan)
    }

    mutating func startValidation(ofOther index: Int, at now: Timestamp) {
        otherPaths[index].validation = PathValidation(at: now, giveUpAfter: validationSpan)
    }

    /// The active path does not answer: an end that may move tries the others it holds.
    mutating func tryOtherPaths(at now: Timestamp) {
        guard mayMove, path.consecutiveProbes >= Self.probesBeforeFallback else { return }
        for index in otherPaths.indices where otherPaths[index].validation == nil {
            startValidation(ofOther: index, at: now)
        }
        updatePathDeadline()
    }

    /// Updates the time at which a path next needs attention; it is stored because every datagram asks for it.
    mutating func updatePathDeadline() {
        var earliest = path.validation?.due ?? .distantFuture
        let isChoosing = isChoosing
        for other in otherPaths {
            if let validation = other.validation {
                earliest = min(earliest, validation.due)
            } else if isChoosing, let last = other.lastReceived {
                earliest = min(earliest, last.advanced(nanoseconds: Self.standbyInterval))
            }
        }
        pathDeadline = earliest
    }

    /// Gives up on paths that did not answer, and looks after those held ready.
    mutating func pathsTimedOut(at now: Timestamp) {
        guard phase == .established, pathDeadline <= now else { return }
        probes.forgetOld(at: now)
        let isChoosing = isChoosing
        for index in otherPaths.indices.reversed() {
            if let validation = otherPaths[index].validation {
                guard validation.deadline <= now else { continue }
                events.append(.pathFailed(otherPaths[index].address))
                dropPath(index)
            } else if isChoosing, let last = otherPaths[index].lastReceived,
                last.advanced(nanoseconds: Self.standbyInterval) <= now
            {
                startValidation(ofOther: index, at: now)
            }
        }
        if let validation = path.validation, validation.deadline <= now {
            path.validation = nil
            // A path proven before needs no proof to go on: its own time-outs decide.
            if !path.isValidated { activePathFailed(at: now) }
        }
        updatePathDeadline()
    }

    /// Nobody has answered at the address in use: back to one that was proven (RFC 9000 §9.3.2).
    private mutating func activePathFailed(at now: Timestamp) {
        guard let index = newestValidated else {
            // A client goes on trying here; a server has nowhere to go, and the idle time-out decides.
            startValidation(at: now)
            return
        }
        events.append(.pathFailed(path.address))
        move(to: index, at: now)
        if let failed = otherPaths.indices.last { dropPath(failed) }
        events.append(.pathChanged(path.address))
        probeSoon(at: now)
    }

    // MARK: - Sending

    /// Returns whether some path is owed a datagram of its own.
    @inline(__always)
    func isPathDatagramDue(at now: Timestamp) -> Bool {
        !pathAnswers.isEmpty || pathDeadline <= now || !probes.waiting.isEmpty
    }

    /// Writes the next datagram that a path is owed: a challenge, an answer to one, or both.
    mutating func writePathDatagram(_ buffer: UnsafeMutableRawBufferPointer, at now: Timestamp) -> Transmit? {
        guard spaces[.application].writeKeys != nil, phase == .established else { return nil }
        while let answer = pathAnswers.first {
            pathAnswers.removeFirst()
            if let probe = answer.probe, !hasPath(answer.address) {
                if let transmit = unsafe writeProbe(
                    buffer, to: answer.address, answer: answer.data, challenges: probe.challenges, limit: probe.limit,
                    at: now)
                {
                    return transmit
                }
                continue
            }
            if let transmit = unsafe writePathDatagram(buffer, on: answer.address, answer: answer.data, at: now) {
                return transmit
            }
        }
        while let address = probes.takeWaiting() {
            guard !hasPath(address) else { continue }
            if let transmit = unsafe writeProbe(
                buffer, to: address, answer: nil, challenges: true, limit: CandidateProbes.size, at: now)
            {
                return transmit
            }
        }
        guard pathDeadline <= now else { return nil }
        defer { updatePathDeadline() }
        if let due = path.validation?.nextAttempt, due <= now,
            let transmit = unsafe writePathDatagram(buffer, on: path.address, answer: nil, at: now)
        {
            return transmit
        }
        for address in otherPaths.filter({ $0.validation.map { $0.nextAttempt <= now } ?? false }).map(\.address) {
            if let transmit = unsafe writePathDatagram(buffer, on: address, answer: nil, at: now) { return transmit }
        }
        return nil
    }

    private func hasPath(_ address: PathAddress) -> Bool {
        address == path.address || otherPaths.contains { $0.address == address }
    }

    private mutating func writePathDatagram(
        _ buffer: UnsafeMutableRawBufferPointer, on address: PathAddress, answer: UInt64?, at now: Timestamp
    ) -> Transmit? {
        // Out and in again: the path and the connection are both changed meanwhile.
        if address == path.address {
            var active = path
            defer { path = active }
            return unsafe writePathDatagram(buffer, &active, answer: answer, isActive: true, at: now)
        }
        guard let index = otherPaths.firstIndex(where: { $0.address == address }) else { return nil }
        var other = otherPaths[index]
        defer { otherPaths[index] = other }
        return unsafe writePathDatagram(buffer, &other, answer: answer, isActive: false, at: now)
    }

    private mutating func writePathDatagram(
        _ buffer: UnsafeMutableRawBufferPointer, _ target: inout PathState, answer: UInt64?, isActive: Bool,
        at now: Timestamp
    ) -> Transmit? {
        guard let writeKeys = spaces[.application].writeKeys, let id = peerIDs.id(of: target.peerSequence) else {
            target.validation?.postpone(by: challengeInterval, at: now)
            return nil
        }
        // Full size shows that the path carries it, as far as the address's limit allows (RFC 9000 §8.2.1).
        let size = min(1200, target.allowance)
        let challengeIsDue = target.validation.map { $0.nextAttempt <= now } ?? false
        guard size >= 64 else {
            target.validation?.postpone(by: challengeInterval, at: now)
            return nil
        }
        guard
            var packet = unsafe startPacket(
                .application, to: id, in: UnsafeMutableRawBufferPointer(rebasing: buffer[..<size]))
        else { return nil }
        packet.isAckEliciting = true
        if let answer {
            packet.writer.pathResponse(answer)
            // More than a probe, so that a server misled about where we are finds back (RFC 9000 §9.3.3).
            if isActive { packet.writer.ping() }
        }
        if challengeIsDue {
            let data = configuration.random()
            packet.writer.pathChallenge(data)
            packet.content.add(.pathChallenge(data))
            if reportsAddresses { _ = writeObservedAddress(&packet, of: target.address, at: now) }
            if isActive, isLeading { packet.writer.ping() }
            target.validation?.sent(data, isFullSize: size >= 1200, interval: challengeInterval, at: now)
        }
        guard !packet.isEmpty else { return nil }
        packet.fill()
        seal(packet, writeKeys)
        // Not counted against the window of the path in use.
        packetSent(packet, isInFlight: false, isMarkable: false, at: now)
        target.bytesSent += UInt64(size)
        traffic.datagramsSent += 1
        traffic.bytesSent += UInt64(size)
        return Transmit(
            remote: target.remote, local: target.address.local, length: size, segmentSize: size, ecn: 0)
    }
}
