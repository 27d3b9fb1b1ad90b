public import KithMLS

/// The result of a synchronisation.
public struct Synchronisation: Hashable, Sendable {
    /// A message that was refused.
    public struct Refusal: Hashable, Sendable {
        /// The position among the group's messages.
        public let position: UInt64
        /// The reason.
        public let reason: MLSError
    }

    /// The number of messages received.
    public var received = 0
    /// The messages that were not: forged, damaged, twice sent, or too late.
    public var refused: [Refusal] = []
    /// True when that is all there is; otherwise too many events wait for the application to take them.
    public var isComplete = true
}

extension GroupSession {
    /// Sends what waits to be sent, and takes in what the delivery service has; see ``events`` for what it was.
    ///
    /// A message that is refused changes nothing and is passed over. What the delivery service does not take keeps nothing
    /// from coming in.
    ///
    /// A group that has come back with an old copy of the storage is joined anew first, as ``rejoin()`` does.
    ///
    /// - Throws: ``GroupError/unreachable(_:)``; what was taken in before stays.
    @discardableResult
    public func synchronise() async throws(GroupError) -> Synchronisation {
        do throws(GroupError) { return try await receive() } catch {
            guard error == .storage(.rolledBack) else { throw error }
        }
        try await rejoin()
        return try await receive()
    }

    private func receive() async throws(GroupError) -> Synchronisation {
        try await exclusively { session throws(GroupError) in
            try session.change { group, _ throws(MLSError) in group.dropPastEpochs(at: session.now) }
            await session.drainQuietly(.unknown)
            var isComplete = true
            for _ in 0..<4 {
                isComplete = try await session.fetch()
                let isCurrent = isComplete && !session.record.needsRejoin
                // A commit that came meanwhile may have ended the epoch of what was encrypted just now.
                guard try await session.drain(isCurrent ? .current : .unknown) else { break }
            }
            var result = session.fetched
            session.fetched = Synchronisation()
            result.isComplete = isComplete
            return result
        }
    }

    /// Takes in what the delivery service has; false when too many events wait for the application to take all.
    func fetch() async throws(GroupError) -> Bool {
        while true {
            guard inbox.count < client.options.waitingEvents else { return false }
            let cursor = record.cursor
            let page = try await reaching { () throws(DeliveryError) in
                try await delivery.messages(of: groupID, from: cursor, limit: 64).following(cursor)
            }
            guard !page.isEmpty else { return true }
            if try takeTogether(page) {
                fetched.received += page.count
                continue
            }
            for message in page {
                if let reason = try take(message) {
                    if fetched.refused.count < 1_000 {
                        fetched.refused.append(Synchronisation.Refusal(position: message.position, reason: reason))
                    }
                } else {
                    fetched.received += 1
                }
            }
            guard record.cursor > cursor else { return true }
        }
    }

    /// Processes some messages in one change of the storage; false when that cannot be, and nothing has changed.
    ///
    /// One that is refused may have used a key up already: then each is taken by itself.
    private func takeTogether(_ page: [DeliveredMessage]) throws(GroupError) -> Bool {
        guard page.count > 1 else { return false }
        do throws(GroupError) {
            let keys = try storing { () throws(GroupStorageError) in try storage.presharedKeys() }
            try change { group, draft throws(MLSError) in
                for message in page { try take(MLSMessage(message.bytes), message, keys, &group, &draft) }
            }
            return true
        } catch {
            guard case .refused = error else { throw error }
            return false
        }
    }

    /// Processes one message; returns the reason when it is refused.
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
            try change { group, draft throws(MLSError) in try take(parsed, message, keys, &group, &draft) }
            return nil
        } catch {
            guard case .refused(let reason) = error else { throw error }
            if parsed.isCommit { try refuse(message) }
            pass(message.position)
            return reason
        }
    }

    private func take(
        _ parsed: MLSMessage, _ message: DeliveredMessage, _ keys: PreSharedKeys, _ group: inout Group,
        _ draft: inout Draft
    ) throws(MLSError) {
        // Another process was here first.
        guard draft.record.cursor <= message.position else { return }
        draft.record.cursor = message.position + 1
        guard message.bytes.count <= client.options.largestReceived else { throw .messageTooLong }
        guard let target = parsed.groupAndEpoch, target.groupID == groupID else { throw .wrongGroup }
        // The commit that removed this client may have been none: then the epoch goes on.
        guard !group.isRemoved || target.epoch == group.epoch else { return }
        guard target.epoch >= draft.record.firstEpoch else { return }
        guard target.epoch <= group.epoch else {
            guard !draft.record.needsRejoin else { return }
            draft.record.needsRejoin = true
            draft.notify(.needsRejoin(epoch: target.epoch))
            return
        }
        try process(parsed, message.bytes, keys, &group, &draft)
    }

    /// Says that a commit of this epoch cannot be followed here, for the delivery service to take another.
    private func refuse(_ message: DeliveredMessage) throws(GroupError) {
        do throws(GroupError) {
            try change { group, draft throws(MLSError) in
                guard draft.record.cursor <= message.position else { return }
                guard case let target? = try MLSMessage(message.bytes).groupAndEpoch, target.groupID == groupID,
                    target.epoch == group.epoch
                else { return }
                draft.record.cursor = message.position + 1
                // Whoever has begun the epoch may be away, and the service not know its members.
                if Self.isOneOfAFew(group) { draft.record.publishes = true }
                draft.send(.refusal, try group.refusal(of: message.bytes).bytes)
            }
        } catch {
            // A group that has ended, or a signer that is away: the others say so.
            guard case .refused = error else { throw error }
        }
    }

    /// Tells whether this member is to publish what all others could as well: a few of them do.
    private static func isOneOfAFew(_ group: borrowing Group) -> Bool {
        Int.random(in: 0..<max(1, group.tree.memberCount)) < 8
    }

    private func receive(
        _ message: MLSMessage, _ keys: PreSharedKeys, _ group: inout Group
    ) throws(MLSError) -> Received {
        guard group.isRemoved else { return try group.process(message, psks: keys, at: now) }
        return try group.processAfterRemoval(message, psks: keys, at: now)
    }

    private func process(
        _ message: MLSMessage, _ bytes: [UInt8], _ keys: PreSharedKeys, _ group: inout Group, _ draft: inout Draft
    ) throws(MLSError) {
        let pending = group.pendingCommit
        switch try receive(message, keys, &group) {
        case .application(let data): draft.notify(.message(data))
        case .proposal(let proposal): draft.notify(.proposed(proposal))
        case .own(let own):
            guard own.kind == .pendingCommit, let pending else {
                draft.notify(.ownEcho(own))
                return
            }
            // It was accepted, and this client was not notified: killed in between, or the answer was lost.
            draft.removeCommits(outbox)
            try begin(&group, &draft, pending)
        case .commit(let staged):
            let removesUs = staged.removesUs
            let own = pending?.retry(as: group.leafIndex) ?? []
            let oldKey = group.tree.leaf(staged.change.committer)?.signatureKey
            let (change, leftOut) = try group.confirm(staged, at: now)
            draft.removeCommits(outbox)
            // Whoever joins by its own commit may end before it has published, or before it has stored anything: a few of
            // the others do so too, and it finds a state that it can join. With a new key it is nobody that the service knows.
            let isUnknown = change.isExternal || group.tree.leaf(change.committer)?.signatureKey != oldKey
            draft.record.publishes = isUnknown && Self.isOneOfAFew(group)
            // Whoever can follow is not behind, whatever somebody claimed.
            draft.record.needsRejoin = false
            guard !removesUs else {
                draft.removedOutgoing.formUnion((outbox + draft.sent).lazy.filter { !$0.isData }.map(\.number))
                draft.notify(.removed(change))
                // Without a signer the others' words must do.
                if let word = try? group.abstention(from: bytes) { draft.send(.refusal, word.bytes) }
                return
            }
            draft.notify(.epochChanged(change, isOwn: false, retry: leftOut.map(SentProposal.init) + own))
            if let reInit = change.reInit { draft.notify(.reinitialised(reInit)) }
        }
    }

    /// Joins the group by a commit of this client's own, in place of its earlier appearance if there is one: after its
    /// state was lost, or when it is behind for good.
    ///
    /// Waiting messages are sent afterwards. A group whose rows are damaged is given up, with what waited in it.
    ///
    /// The public state that the delivery service has must come from somebody who was a member in the last epoch of this
    /// client's: a member that was removed before then cannot lure it into a group of its own.
    ///
    /// - Throws: ``GroupError/unreachable(_:)`` when the delivery service has no public state of the group, too;
    ///   ``GroupError/refused(_:)`` with `wrongEpoch` when what it has is older than what this client knows, with
    ///   `resumptionNotProven` when it is not from such a member, or nothing is left here to hold it against, with
    ///   `externalCommitsNotAccepted` when this client is not a member there and its groups accept no outsiders;
    ///   ``GroupError/contended`` when others commit again and again, or when an earlier attempt was accepted and nobody
    ///   has published a state since.
    public func rejoin() async throws(GroupError) { try await join(asMember: true) }

    /// Joins by a commit; where `asMember` is false, also a group of which nothing is known here.
    func join(asMember: Bool = false) async throws(GroupError) {
        try await exclusively { session throws(GroupError) in
            let key = try session.resumptionKey(asMember: asMember)
            var isDamaged = false
            do throws(GroupError) {
                try session.reload()
                await session.drainQuietly(.unknown)
            } catch {
                // What is left of the earlier membership is replaced; that there is nothing is no obstacle.
                guard error != .closed else { throw error }
                isDamaged = error == .storage(.corrupt)
            }
            for _ in 0..<8 {
                var bytes = session.unansweredJoin?.commit.bytes
                if bytes == nil {
                    let join = try await session.prepareJoin(key)
                    bytes = join.commit.bytes
                    session.unansweredJoin = consume join
                }
                guard let commit = bytes else { break }
                // Without an answer the same is sent again the next time.
                let answer = try await session.reaching { () throws(DeliveryError) in
                    try await session.delivery.send(commit, to: session.groupID)
                }
                guard let join = session.unansweredJoin.take() else { break }
                // Refused: somebody was faster, and has published or will have a newer state.
                guard case .accepted = answer else { continue }
                try session.begin(
                    join.confirm(), replacing: isDamaged ? .everything : .membership, publishes: true)
                await session.drainQuietly(.current)
                return
            }
            throw .contended
        }
    }

    /// The key that this client's last epoch left behind; nil where nothing is known of the group.
    private func resumptionKey(asMember: Bool) throws(GroupError) -> ResumptionKey? {
        let stored = try storing { () throws(GroupStorageError) in try storage.load(groupID) }
        let key = stored.flatMap { ResumptionKey(newestOf: $0) }
        guard key != nil || stored == nil && !asMember else { throw .refused(.resumptionNotProven) }
        return key
    }

    private func prepareJoin(_ key: ResumptionKey?) async throws(GroupError) -> ExternalJoin {
        guard
            let bytes = try await reaching({ () throws(DeliveryError) in
                try await delivery.groupInfo(of: groupID)
            })
        else { throw .unreachable(DeliveryError("The delivery service has no public state of the group.")) }
        return try externalJoin(bytes, key)
    }

    /// Tells whether a group that somebody shows is not behind the one here: an old one is a fork, made to be read
    /// along.
    private func isNews(_ context: GroupContext) -> Bool {
        guard let (known, isRemoved) = try? lastKnown() else { return true }
        if context.epoch == known.epoch { return !isRemoved && context == known }
        return context.epoch > known.epoch
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

    private func externalJoin(_ bytes: [UInt8], _ key: ResumptionKey?) throws(GroupError) -> ExternalJoin {
        do throws(MLSError) {
            guard case .groupInfo(let info) = try MLSMessage(bytes), info.groupContext.groupID == groupID else {
                throw .wrongGroup
            }
            guard isNews(info.groupContext) else { throw .wrongEpoch }
            var options = ExternalJoinOptions()
            options.now = now
            options.resuming = key
            if let data = info.extensions.first(where: { $0.type == .ratchetTree })?.data {
                let key = client.signatureKey.publicKey
                options.replacing = try RatchetTree(data).members.first { $0.leaf.signatureKey == key }?.index
            }
            // The others would not take it, and the delivery service no other commit of the epoch.
            guard options.replacing != nil || client.options.configuration.acceptsExternalCommits else {
                throw .externalCommitsNotAccepted
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

extension [DeliveredMessage] {
    /// The messages, if they are the next ones after so many, one after the other: a gap would be passed over for good.
    func following(_ cursor: UInt64) throws(DeliveryError) -> Self {
        for (index, message) in enumerated() {
            guard cursor < 1 << 62, message.position == cursor + UInt64(index) else {
                throw DeliveryError("The delivery service hands messages over out of their order.")
            }
        }
        return self
    }
}
