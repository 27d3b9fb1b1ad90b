import KithWire

/// Small challenges to addresses that have no path yet, where the peer may be: what opens NATs from both sides.
///
/// A probe is one datagram of 64 bytes with a PATH_CHALLENGE, sent to the id in use. The peer answers it where it came
/// from, with a challenge of its own; whoever has an answer makes a path of the address, with an id of its own, and
/// validates that at full size. RFC 9000 demands both of the first challenge: Documentation/Deviations.md.
struct CandidateProbes {
    /// A challenge on its way.
    struct Challenge {
        var data: UInt64
        var address: PathAddress
        var sent: Timestamp
    }

    /// The size of a probe, and the largest datagram taken for one.
    static let size = 64
    /// The most challenges that may still be answered: what one attempt to guess a port sends.
    static let memory = 1024
    /// The time for which they may be.
    static let lifetime: Int64 = .seconds(3)
    /// The most probes that may wait to be sent.
    static let maximumQueue = 64

    /// The addresses to be probed next.
    private(set) var waiting: [PathAddress] = []
    /// In the order in which they were sent.
    private var challenges: [Challenge] = []
    /// Billionths of a probe.
    private var credit: Int64?
    private var refilled = Timestamp.zero

    /// The number of challenges that may still be answered, for tests of bounds.
    var count: Int { challenges.count }

    /// Takes the right to send one more; false when there have been too many.
    ///
    /// In any second, no more than `perSecond` and a burst of an eighth of that, or of 32.
    mutating func take(perSecond: Int, at now: Timestamp) -> Bool {
        let unit: Int64 = 1_000_000_000
        let rate = Int64(min(max(perSecond, 0), 100_000))
        let full = (rate == 0 ? 0 : max(32, rate / 8)) * unit
        let elapsed = min(max(0, now - refilled), unit)
        let filled = min(full, (credit ?? full) + elapsed * rate)
        refilled = now
        guard filled >= unit else {
            credit = filled
            return false
        }
        credit = filled - unit
        return true
    }

    /// Queues a probe; false when too many wait.
    mutating func queue(_ address: PathAddress) -> Bool {
        guard waiting.count < Self.maximumQueue else { return false }
        if !waiting.contains(address) { waiting.append(address) }
        return true
    }

    /// The next address to probe.
    mutating func takeWaiting() -> PathAddress? { waiting.isEmpty ? nil : waiting.removeFirst() }

    /// Notes a challenge sent.
    mutating func sent(_ data: UInt64, to address: PathAddress, at now: Timestamp) {
        forgetOld(at: now)
        if challenges.count >= Self.memory { challenges.removeFirst() }
        challenges.append(Challenge(data: data, address: address, sent: now))
    }

    /// Returns whether an answer from there is waited for, or will be.
    func isAwaited(_ address: PathAddress) -> Bool {
        waiting.contains(address) || challenges.contains { $0.address == address }
    }

    /// Takes the challenge of which `data` is the answer, and forgets the others to the same address.
    mutating func answered(_ data: UInt64, at now: Timestamp) -> Challenge? {
        forgetOld(at: now)
        guard let answered = challenges.first(where: { $0.data == data }) else { return nil }
        challenges.removeAll { $0.address == answered.address }
        waiting.removeAll { $0 == answered.address }
        return answered
    }

    /// Forgets the challenges nobody has answered in time.
    mutating func forgetOld(at now: Timestamp) {
        guard let first = challenges.first, now - first.sent > Self.lifetime else { return }
        let kept = challenges.drop { now - $0.sent > Self.lifetime }
        challenges = Array(kept)
    }
}

extension QUICConnection {
    /// Probes an address at which the peer may be, with one small datagram.
    ///
    /// For the punching of holes into NATs: both ends probe each other's addresses at the same time, and again; when,
    /// is the caller's to decide. An answer makes it a path (``Event/pathValidated(_:)`` follows). A probe from an
    /// address that this end does not probe itself is ``Event/peerReflexiveAddress(_:)``. An address that has a path
    /// already is validated anew, and may be chosen again.
    ///
    /// - Returns: whether a probe will be sent; false unless both ends agreed to ``QUICConfiguration/eitherEndMoves``
    ///   and this one ``mayMove``, and when there have been ``QUICConfiguration/maxProbesPerSecond``.
    public mutating func probeCandidate(_ address: PathAddress, at now: Timestamp) -> Bool {
        guard mayMove, eitherEndMoves else { return false }
        if address == path.address || otherPaths.contains(where: { $0.address == address }) {
            return probePath(address, at: now)
        }
        guard !probes.waiting.contains(address) else { return true }
        guard probes.take(perSecond: configuration.maxProbesPerSecond, at: now) else { return false }
        return probes.queue(address)
    }

    /// A probe came from an address that has no path: its challenge is answered there, and nothing else.
    ///
    /// - Parameters:
    ///   - address: where it came from.
    ///   - size: of its packet.
    ///   - isAnswer: whether it answers one of ours: then it is not asked in return, or two ends that cannot make a path
    ///     would go on for ever.
    ///   - now: when it came.
    mutating func receivedProbe(from address: PathAddress, size: Int, isAnswer: Bool, at now: Timestamp) {
        guard let index = pathAnswers.lastIndex(where: { $0.address == address }) else { return }
        guard mayMove, probes.take(perSecond: configuration.maxProbesPerSecond, at: now) else {
            pathAnswers.remove(at: index)
            return
        }
        // Three times what came, at most (RFC 9000 §8.1).
        pathAnswers[index].probe = PathAnswer.Probe(limit: min(CandidateProbes.size, 3 * size), challenges: !isAnswer)
        if !isAnswer, !probes.isAwaited(address) { events.append(.peerReflexiveAddress(address)) }
    }

    /// Writes a small datagram to an address that has no path.
    mutating func writeProbe(
        _ buffer: UnsafeMutableRawBufferPointer, to address: PathAddress, answer: UInt64?, challenges: Bool,
        limit: Int, at now: Timestamp
    ) -> Transmit? {
        guard let writeKeys = spaces[.application].writeKeys,
            var packet = unsafe startPacket(
                .application, in: UnsafeMutableRawBufferPointer(rebasing: buffer[..<min(limit, CandidateProbes.size)]))
        else { return nil }
        if let answer { packet.writer.pathResponse(answer) }
        if challenges, packet.writer.room >= 9 {
            let data = configuration.random()
            packet.writer.pathChallenge(data)
            probes.sent(data, to: address, at: now)
        }
        guard !packet.isEmpty else { return nil }
        packet.fill()
        seal(packet, writeKeys)
        // Its answer is all that is waited for: it is neither sent again nor counted against the path in use.
        packetSent(packet, isInFlight: false, isMarkable: false, at: now)
        traffic.datagramsSent += 1
        traffic.bytesSent += UInt64(packet.size)
        return Transmit(
            remote: address.remote, local: address.local, length: packet.size, segmentSize: packet.size, ecn: 0)
    }

    /// Makes a path of an address at which the peer has answered, and validates it at full size.
    mutating func makePath(of answered: CandidateProbes.Challenge, at now: Timestamp) {
        let address = answered.address
        guard mayMove, address != path.address, !otherPaths.contains(where: { $0.address == address }),
            let index = findOrAddPath(address, at: now)
        else { return }
        otherPaths[index].isValidated = true
        otherPaths[index].needsFullSize = true
        otherPaths[index].challengeDelay = max(1, now - answered.sent)
        startValidation(ofOther: index, at: now)
    }
}
