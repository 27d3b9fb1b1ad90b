public import KithMLS

/// What a synchronisation brought.
public struct Synchronisation: Hashable, Sendable {
    /// A message that was refused.
    public struct Refusal: Hashable, Sendable {
        /// Which of the group's messages.
        public let position: UInt64
        /// Why.
        public let reason: MLSError
    }

    /// How many messages were taken in.
    public var received = 0
    /// The messages that were not: forged, damaged, twice sent, or too late.
    public var refused: [Refusal] = []
    /// Whether that is all there is; otherwise too many events wait for the application to take them.
    public var isComplete = true
}

extension GroupSession {
    /// Sends what waits to be sent, and takes in what the delivery service has; see ``events`` for what it was.
    ///
    /// A message that is refused changes nothing and is passed over.
    ///
    /// - Throws: ``GroupError/unreachable(_:)``; what was taken in before stays.
    @discardableResult
    public func synchronise() async throws(GroupError) -> Synchronisation {
        try await exclusively { session throws(GroupError) in
            try session.reload()
            try await session.drain()
            var result = Synchronisation()
            for _ in 0..<4 {
                try await session.fetch(into: &result)
                let isCurrent = result.isComplete && !session.record.needsRejoin
                guard try await session.drain(encryptingAgain: isCurrent) else { break }
            }
            return result
        }
    }

    /// Takes in what the delivery service has.
    private func fetch(into result: inout Synchronisation) async throws(GroupError) {
        while true {
            guard inbox.count < client.options.waitingEvents else {
                result.isComplete = false
                return
            }
            let cursor = record.cursor
            let page = try await reaching { () throws(DeliveryError) in
                try await delivery.messages(of: groupID, from: cursor, limit: 64)
            }
            guard !page.isEmpty else { return }
            for message in page {
                if let reason = try take(message) {
                    result.refused.append(Synchronisation.Refusal(position: message.position, reason: reason))
                } else {
                    result.received += 1
                }
            }
            guard record.cursor > cursor else { return }
        }
    }

    /// Takes one message in; says why not.
    private func take(_ message: DeliveredMessage) throws(GroupError) -> MLSError? {
        let parsed: MLSMessage
        do throws(MLSError) { parsed = try MLSMessage(message.bytes) } catch {
            pass(message.position)
            return error
        }
        let keys =
            parsed.isCommit
            ? try storing { () throws(GroupStorageError) in try storage.presharedKeys() } : PreSharedKeys()
        do throws(GroupError) {
            try change { group, draft throws(MLSError) in
                // Another process was here first.
                guard draft.record.cursor <= message.position else { return }
                draft.record.cursor = message.position + 1
                if let index = draft.record.ownCommits.firstIndex(of: message.position) {
                    draft.record.ownCommits.remove(at: index)
                    return
                }
                guard !group.isRemoved else { return }
                guard let place = parsed.place, place.groupID == groupID else { throw .wrongGroup }
                guard place.epoch >= draft.record.firstEpoch else { return }
                guard place.epoch <= group.epoch else {
                    guard !draft.record.needsRejoin else { return }
                    draft.record.needsRejoin = true
                    draft.tell(.needsRejoin(epoch: place.epoch))
                    return
                }
                try process(parsed, keys, &group, &draft)
            }
            return nil
        } catch {
            guard case .refused(let reason) = error else { throw error }
            pass(message.position)
            return reason
        }
    }

    private func process(
        _ message: MLSMessage, _ keys: PreSharedKeys, _ group: inout Group, _ draft: inout Draft
    ) throws(MLSError) {
        let pending = group.pendingCommit
        switch try group.process(message, psks: keys, at: now) {
        case .application(let data): draft.tell(.message(data))
        case .proposal(let proposal): draft.tell(.proposed(proposal))
        case .own(let own):
            guard own.kind == .pendingCommit, let pending else {
                draft.tell(.ownEcho(own))
                return
            }
            // It was accepted, and this client was not told: killed in between, or the answer was lost.
            draft.removeCommits(outbox)
            try begin(&group, &draft, pending)
        case .commit(let staged):
            let removesUs = staged.removesUs
            let own = pending?.retry(as: group.leafIndex) ?? []
            let (change, leftOut) = try group.confirm(staged, at: now)
            draft.removeCommits(outbox)
            draft.record.publishes = false
            // Whoever can follow is not behind, whatever somebody claimed.
            draft.record.needsRejoin = false
            guard !removesUs else {
                draft.removedOutgoing.formUnion(outbox.lazy.filter { !$0.isData }.map(\.number))
                draft.tell(.removed(change))
                return
            }
            draft.tell(.epochChanged(change, isOwn: false, retry: leftOut.map(SentProposal.init) + own))
            if let reInit = change.reInit { draft.tell(.reinitialised(reInit)) }
        }
    }

    /// Joins the group by a commit of this client's own, in place of its earlier appearance if there is one: after its
    /// state was lost, or when it is behind for good.
    ///
    /// - Throws: ``GroupError/unreachable(_:)`` when the delivery service has no public state of the group, too.
    public func rejoin() async throws(GroupError) {
        try await exclusively { session throws(GroupError) in
            // What is left of the earlier membership, if anything, is replaced; that it cannot be opened is no obstacle.
            try? session.reload()
            for _ in 0..<8 {
                guard
                    let bytes = try await session.reaching({ () throws(DeliveryError) in
                        try await session.delivery.groupInfo(of: session.groupID)
                    })
                else { throw .unreachable(DeliveryError("The delivery service has no public state of the group.")) }
                let join = try session.externalJoin(bytes)
                let commit = join.commit.bytes
                let answer = try await session.reaching { () throws(DeliveryError) in
                    try await session.delivery.send(commit, to: session.groupID)
                }
                // Refused: somebody was faster, and has published or will have a newer state.
                guard case .accepted = answer else { continue }
                try session.begin(join.confirm(), replacing: true, publishes: true)
                await session.drainQuietly(encryptingAgain: true)
                return
            }
            throw .contended
        }
    }

    /// The group that a ReInit asked for, still without its first commit's confirmation.
    func foundSuccessor(_ packages: [KeyPackage]) throws(GroupError) -> GroupFounding {
        try found { group throws(MLSError) in
            try group.foundSuccessor(
                keyPackages: packages, profile: client.profile, signatureKey: client.signatureKey,
                lifetime: client.lifetime(), at: now)
        }
    }

    /// A group of some members, still without its first commit's confirmation.
    func foundBranch(_ packages: [KeyPackage]) throws(GroupError) -> GroupFounding {
        try found { group throws(MLSError) in
            try group.foundBranch(
                keyPackages: packages, profile: client.profile, signatureKey: client.signatureKey,
                lifetime: client.lifetime(), at: now)
        }
    }

    private func externalJoin(_ bytes: [UInt8]) throws(GroupError) -> ExternalJoin {
        do throws(MLSError) {
            guard case .groupInfo(let info) = try MLSMessage(bytes), info.groupContext.groupID == groupID else {
                throw .wrongGroup
            }
            var options = ExternalJoinOptions()
            options.now = now
            if let data = info.extensions.first(where: { $0.type == .ratchetTree })?.data {
                let key = client.signatureKey.publicKey
                options.replacing = try RatchetTree(data).members.first { $0.leaf.signatureKey == key }?.index
            }
            return try ExternalJoin(
                info, profile: client.profile, signatureKey: client.signatureKey, options,
                configuration: client.options.configuration)
        } catch { throw .refused(error) }
    }
}

extension GroupSession.Draft {
    fileprivate mutating func removeCommits(_ outbox: [Outgoing]) {
        removedOutgoing.formUnion(outbox.lazy.filter { $0.kind == .commit }.map(\.number))
    }
}

extension MLSMessage {
    fileprivate var isCommit: Bool {
        switch self {
        case .publicMessage(let message): message.contentType == .commit
        case .privateMessage(let message): message.contentType == .commit
        default: false
        }
    }
}
