public import KithMLS

/// A message that was sent.
public struct SentMessage: Hashable, Sendable {
    /// The message's bytes; other ones when it goes out later, in an epoch that began meanwhile.
    ///
    /// Empty when others, or a commit, must go out before it is encrypted.
    public let bytes: [UInt8]
    /// The epoch it was encrypted in.
    public let epoch: UInt64
    /// True when the delivery service has it; otherwise it goes out with the next synchronisation, encrypted again if
    /// its epoch is over by then.
    public let isDelivered: Bool
}

/// Data that waits for the delivery service.
public struct WaitingMessage: Hashable, Sendable {
    /// Its number in ``GroupSession/withdraw(_:)``.
    public let number: UInt64
    /// The data.
    public let data: [UInt8]
    /// The additional data sent with it, in the clear.
    public let authenticatedData: [UInt8]
}

/// The outcome of a commit.
@nonexhaustive
public enum CommitOutcome: Hashable, Sendable {
    /// It was accepted: the group is in the next epoch.
    case confirmed(EpochChange)
    /// Another commit of the epoch was first; these proposals would have been made, and may be proposed again.
    case lost(retry: [SentProposal])
    /// The delivery service did not answer; the commit goes out with the next synchronisation.
    case pending(EpochChange)
}

extension GroupSession {
    /// Sends data to the group.
    ///
    /// When this returns the message is in storage and on its way: it gets one place among the group's messages whatever
    /// happens, in the order in which this client sends; or, in a group that is over for this client by then, it comes back
    /// as ``GroupEvent/unsent(_:authenticatedData:)``.
    ///
    /// Proposals that await a commit are committed first, as data may not overtake them (RFC 9420 §12.4). When the delivery
    /// service does not answer, the data waits, and is encrypted once that commit or another one has its place.
    ///
    /// - Throws: ``GroupError/refused(_:)`` with `commitRequired` while proposals await a commit that is not this client's to
    ///   make by the way: one of them removes it or ends the group, or ``GroupClient/Options/commitsBeforeSending`` is off;
    ///   with `commitPending` while a staged commit awaits the application's word, besides;
    ///   ``GroupError/tooLarge`` beyond ``GroupClient/Options/largestMessage``.
    public func send(_ data: [UInt8], authenticatedData: [UInt8] = []) async throws(GroupError) -> SentMessage {
        try await exclusively { session throws(GroupError) in
            try session.checkRoom()
            guard data.count + authenticatedData.count <= session.client.options.largestMessage else {
                throw .tooLarge
            }
            try await session.commitBeforeSending()
            let (number, bytes, epoch) = try session.change { group, draft throws(MLSError) in
                var message: [UInt8] = []
                let awaitsCommit = try session.awaitsCommit(group)
                // Behind data that is to be encrypted again it is not encrypted yet: its key must not come before theirs.
                if awaitsCommit || session.outbox.contains(where: { $0.isData && $0.bytes.isEmpty }) {
                    if !awaitsCommit { try group.checkSending() }
                } else {
                    message = try group.encrypt(data, authenticatedData: authenticatedData).bytes
                }
                draft.send(.data(data, authenticated: authenticatedData), message)
                return (draft.record.nextOutgoing - 1, message, group.epoch)
            }
            await session.drainQuietly()
            let isDelivered = !session.outbox.contains { $0.number == number }
            return SentMessage(bytes: bytes, epoch: epoch, isDelivered: isDelivered)
        }
    }

    /// Tells whether proposals await a commit that this client may make before it sends.
    ///
    /// - Throws: ``MLSError/commitRequired`` when they await another's; whatever keeps the group from sending at all.
    private func awaitsCommit(_ group: borrowing Group) throws(MLSError) -> Bool {
        do throws(MLSError) { try group.checkSending() } catch {
            guard error == .commitRequired, client.options.commitsBeforeSending else { throw error }
            let leaf = group.leafIndex
            let isOurs = group.queuedProposals.allSatisfy {
                switch $0.proposal {
                case .remove(let removed): removed != leaf
                case .reInit: false
                default: true
                }
            }
            guard isOurs else { throw error }
            return true
        }
        return false
    }

    /// Commits the proposals that wait, or reads the commit that was first; without the delivery service they go on
    /// waiting.
    private func commitBeforeSending() async throws(GroupError) {
        for attempt in 0..<Self.commitAttempts {
            let (mustCommit, isPending) = try change { group, _ throws(MLSError) in
                (try awaitsCommit(group), group.pendingCommit != nil)
            }
            guard mustCommit else { return }
            // One that was sent before is to be answered first.
            guard !outbox.contains(where: { $0.kind == .commit }) else { return await drainQuietly() }
            // One that was refused stays until the winner comes; one that the application has staged stays with it.
            if attempt > 0 || !isPending {
                guard case .lost = try await resolve(stage(CommitOptions(), sends: true)) else { return }
            }
            do throws(GroupError) { _ = try await fetch() } catch {
                guard case .unreachable = error else { throw error }
                return
            }
        }
    }

    /// The data that waits to be sent, in its order.
    public func waitingMessages() throws(GroupError) -> [WaitingMessage] {
        try reload()
        return outbox.compactMap { outgoing in
            guard case .data(let data, let authenticated) = outgoing.kind else { return nil }
            return WaitingMessage(number: outgoing.number, data: data, authenticatedData: authenticated)
        }
    }

    /// Takes back data that waits to be sent: what the delivery service does not take, or what is no longer wanted.
    ///
    /// It may have been delivered all the same, when the service's answer was lost.
    public func withdraw(_ number: UInt64) async throws(GroupError) {
        try await exclusively { session throws(GroupError) in
            try session.change { _, draft throws(MLSError) in
                let isThere = session.outbox.contains { $0.number == number && $0.isData }
                if isThere { draft.removedOutgoing.insert(number) }
            }
        }
    }

    /// Proposes a change, for this or another member to commit.
    public func propose(_ proposal: Proposal) async throws(GroupError) {
        try await exclusively { session throws(GroupError) in
            try session.checkRoom()
            try session.change { group, draft throws(MLSError) in
                draft.send(.proposal, try group.propose(proposal, at: session.now).bytes)
            }
            await session.drainQuietly()
        }
    }

    /// Proposes new keys for this member.
    public func proposeUpdate() async throws(GroupError) {
        try await exclusively { session throws(GroupError) in
            try session.checkRoom()
            try session.change { group, draft throws(MLSError) in
                draft.send(.proposal, try group.proposeUpdate().bytes)
            }
            await session.drainQuietly()
        }
    }

    /// Asks the others to remove this member, which cannot commit that itself (RFC 9420 §12.2).
    ///
    /// It is a member until one of them commits, as ``GroupClient/Options/commitsBeforeSending`` has them do with the next
    /// message they send, and cannot send data meanwhile; then ``GroupEvent/removed(_:)`` comes, and ``forget()`` deletes what is left. A proposal ends with
    /// its epoch: when a commit leaves this one out, ``GroupEvent/epochChanged(_:isOwn:retry:)`` names it among `retry`.
    public func leave() async throws(GroupError) { try await propose(.remove(leafIndex())) }

    private func checkRoom() throws(GroupError) {
        guard outbox.count < client.options.waitingMessages else { throw .tooMuchWaiting }
    }

    // MARK: Commits

    /// The number of commits that one message may lose to others before it waits for the next synchronisation.
    private static let commitAttempts = 4

    /// Makes a commit, sends it, and begins its epoch when it was accepted.
    public func commit(_ options: CommitOptions = CommitOptions()) async throws(GroupError) -> CommitOutcome {
        try await exclusively { session throws(GroupError) in
            try await session.resolve(session.stage(options, sends: true))
        }
    }

    /// Makes a commit that waits for ``sendPendingCommit()``; nothing leaves and nothing changes before.
    public func stageCommit(_ options: CommitOptions = CommitOptions()) async throws(GroupError) -> EpochChange {
        try await exclusively { session throws(GroupError) in try session.stage(options, sends: false).change }
    }

    /// Sends the commit that waits, and begins its epoch when it was accepted.
    public func sendPendingCommit() async throws(GroupError) -> CommitOutcome {
        try await exclusively { session throws(GroupError) in
            let staged = try session.change { group, draft throws(MLSError) in
                guard let pending = group.pendingCommit else { throw .noPendingCommit }
                if !session.outbox.contains(where: { $0.kind == .commit }) {
                    draft.send(.commit, pending.commit.bytes)
                }
                return Staged(change: pending.change, retry: pending.retry(as: group.leafIndex))
            }
            return try await session.resolve(staged)
        }
    }

    /// Drops the commit that waits.
    ///
    /// - Throws: ``GroupError/refused(_:)`` with `commitPending` when it may have been sent already: what becomes of it is
    ///   for the delivery service to say.
    public func discardPendingCommit() async throws(GroupError) {
        try await exclusively { session throws(GroupError) in
            try session.change { group, _ throws(MLSError) in
                guard !session.outbox.contains(where: { $0.kind == .commit }) else { throw .commitPending }
                group.discardPendingCommit()
            }
        }
    }

    /// Adds clients, with one key package of each from the delivery service.
    public func add(_ clients: [ClientID]) async throws(GroupError) -> CommitOutcome {
        let packages = try await client.keyPackages(of: clients)
        return try await commit(CommitOptions(packages.map { .add($0) }))
    }

    /// A commit that was staged, and what is to be proposed again when it is lost.
    private struct Staged {
        let change: EpochChange
        let retry: [SentProposal]
    }

    private func stage(_ options: CommitOptions, sends: Bool) throws(GroupError) -> Staged {
        let keys = try storing { () throws(GroupStorageError) in try storage.presharedKeys() }
        return try change { group, draft throws(MLSError) in
            var options = options
            // Who is added can then vouch for the group to members who are further behind.
            options.groupInfoExtensions.append(group.resumptionKeys())
            let output = try group.stageCommit(options, psks: keys, at: now)
            if sends { draft.send(.commit, output.commit.bytes) }
            return Staged(change: output.change, retry: output.retry(as: group.leafIndex))
        }
    }

    /// Sends what waits and returns the outcome of a commit, also when another process was the one to learn it.
    private func resolve(_ staged: Staged) async throws(GroupError) -> CommitOutcome {
        do throws(GroupError) { try await drain() } catch {
            switch error {
            // It is stored, and goes out later.
            case .unreachable, .storage(.unsettled): break
            default: throw error
            }
        }
        let isPending = try pendingCommit() == staged.change
        if isPending, outbox.contains(where: { $0.kind == .commit }) { return .pending(staged.change) }
        if record.confirmed.contains(staged.change.epoch) { return .confirmed(staged.change) }
        // Its maker learns it here, and not with the winner.
        if isPending { try change { group, _ throws(MLSError) in group.discardPendingCommit() } }
        return .lost(retry: staged.retry)
    }

    // MARK: The outbox

    /// The state of a session when it hands over the messages that wait.
    enum Standing {
        /// It has not looked yet: the state it has is not worth publishing.
        case unknown
        /// It goes on from what it has just done.
        case acting
        /// It has taken in all there was: what it encrypts again will be taken.
        case current
    }

    /// Hands the delivery service everything that waits, in its order; what cannot be handed over stays.
    func drainQuietly(_ standing: Standing = .acting) async {
        // What went wrong stays in the outbox, and the next synchronisation reports it.
        _ = try? await drain(standing)
    }

    /// Hands over what waits.
    ///
    /// Data whose epoch was over before it had a place stays, and everything that was said after it, until a session that
    /// is current encrypts it again.
    ///
    /// - Returns: whether an epoch ended since, so that what was encrypted again was refused again.
    @discardableResult
    func drain(_ standing: Standing = .acting) async throws(GroupError) -> Bool {
        var (holdsData, isBehind) = (false, false)
        var again: UInt64?
        while let next = outbox.first(where: { !(holdsData && $0.isData) }) {
            try settle()
            switch next.kind {
            case .data where next.bytes.isEmpty:
                again = next.number
                holdsData = standing == .current ? try !encryptAgain(next) : true
                if holdsData, standing == .current { try stageForData() }
            case .data:
                let answer = try await reaching { () throws(DeliveryError) in
                    try await delivery.send(next.bytes, to: groupID)
                }
                switch answer {
                case .accepted: try remove(next)
                case .refused:
                    try withdraw(next)
                    isBehind = again == next.number
                    holdsData = isBehind || standing != .current
                }
            case .proposal:
                // Refused, it comes back to its maker with the commit that was first.
                _ = try await reaching { () throws(DeliveryError) in try await delivery.send(next.bytes, to: groupID) }
                try remove(next)
            case .welcome:
                try await reaching { () throws(DeliveryError) in try await delivery.send(welcome: next.bytes) }
                try remove(next)
            case .refusal:
                // By the group's state the service knows whose word it is.
                if record.publishes { try await publish() }
                try await reaching { () throws(DeliveryError) in
                    try await delivery.send(refusal: next.bytes, to: groupID)
                }
                try remove(next)
            case .commit:
                let answer = try await reaching { () throws(DeliveryError) in
                    try await delivery.send(next.bytes, to: groupID)
                }
                switch answer {
                case .accepted(let position) where position > record.cursor:
                    // What was said before its epoch ended is read first; then the commit itself comes.
                    _ = try await fetch()
                    guard !outbox.contains(next) else { return isBehind }
                case .accepted(let position): try confirm(next, at: position)
                // It stays in the group until the winner comes, with which its proposals are shown.
                case .refused:
                    try remove(next)
                    isBehind = isBehind || holdsData
                    continue
                }
                if standing == .current { holdsData = false }
            }
        }
        if record.publishes, standing != .unknown { try await publish() }
        return isBehind
    }

    /// Notes that a message has no place and will not get one as it is.
    private func withdraw(_ outgoing: Outgoing) throws(GroupError) {
        try change { _, draft throws(MLSError) in
            // Another process may have noted it, and gone on.
            if outbox.contains(outgoing) { draft.rewrite(outgoing, []) }
        }
    }

    /// Encrypts data for the epoch of now, or gives it back to the application when there is none; false when that must
    /// wait for a commit.
    private func encryptAgain(_ outgoing: Outgoing) throws(GroupError) -> Bool {
        guard case .data(let data, let authenticated) = outgoing.kind else { return false }
        return try change { group, draft throws(MLSError) in
            guard outbox.contains(outgoing) else { return true }
            guard !group.isRemoved, group.reInit == nil else {
                draft.removedOutgoing.insert(outgoing.number)
                draft.notify(.unsent(data, authenticatedData: authenticated))
                return true
            }
            guard group.queuedProposals.isEmpty else { return false }
            draft.rewrite(outgoing, try group.encrypt(data, authenticatedData: authenticated).bytes)
            return true
        }
    }

    /// Stages the commit that waiting data needs, to be sent with what waits; nothing when it is not this client's to make.
    private func stageForData() throws(GroupError) {
        guard !outbox.contains(where: { $0.kind == .commit }) else { return }
        do throws(GroupError) {
            let mustCommit = try change { group, _ throws(MLSError) in try awaitsCommit(group) }
            if mustCommit { _ = try stage(CommitOptions(), sends: true) }
        } catch {
            // The proposals await another's commit, or one of the application's that it has yet to decide about.
            guard case .refused = error else { throw error }
        }
    }

    private func remove(_ outgoing: Outgoing) throws(GroupError) {
        try change { _, draft throws(MLSError) in _ = draft.removedOutgoing.insert(outgoing.number) }
    }

    /// Begins the epoch of the own commit, whose Welcome may go out now; nothing when another process has done so.
    private func confirm(_ commit: Outgoing, at position: UInt64) throws(GroupError) {
        try change { group, draft throws(MLSError) in
            draft.removedOutgoing.insert(commit.number)
            guard let pending = group.pendingCommit, pending.commit.bytes == commit.bytes else { return }
            draft.record.cursor = max(draft.record.cursor, position + 1)
            try begin(&group, &draft, pending)
        }
    }

    /// Begins the epoch of the own commit.
    func begin(_ group: inout Group, _ draft: inout Draft, _ pending: CommitOutput) throws(MLSError) {
        let used = Set(pending.references)
        let leftOut = group.queuedProposals.filter { !used.contains($0.reference) }
        let change = try group.confirmPendingCommit(at: now)
        if let welcome = pending.welcome { draft.send(.welcome, welcome.bytes) }
        draft.record.publishes = true
        draft.record.needsRejoin = false
        draft.record.confirm(change.epoch)
        draft.notify(.epochChanged(change, isOwn: true, retry: leftOut.map(SentProposal.init)))
        if let reInit = change.reInit { draft.notify(.reinitialised(reInit)) }
    }

    /// Publishes the group's state, so that others can join by their own commit.
    private func publish() async throws(GroupError) {
        let (info, epoch) = try change { group, _ throws(MLSError) -> ([UInt8]?, UInt64) in
            guard !group.isRemoved, group.reInit == nil else { return (nil, group.epoch) }
            let proofs = try group.resumptionProofs()
            return (MLSMessage.groupInfo(try group.groupInfo(extensions: [proofs])).bytes, group.epoch)
        }
        if let info {
            try await reaching { () throws(DeliveryError) in try await delivery.publish(groupInfo: info, of: groupID) }
        }
        try change { group, draft throws(MLSError) in
            if group.epoch == epoch { draft.record.publishes = false }
        }
    }

    func reaching<Value>(
        _ body: () async throws(DeliveryError) -> Value
    ) async throws(GroupError) -> Value {
        do throws(DeliveryError) { return try await body() } catch { throw .unreachable(error) }
    }
}

extension CommitOutput {
    /// The committer's own proposals, to be made again when the commit is lost.
    func retry(as leaf: UInt32) -> [SentProposal] {
        proposals.map { SentProposal(proposal: $0, sender: .member(leaf)) }
    }
}

extension SentProposal {
    init(_ queued: QueuedProposal) { self.init(proposal: queued.proposal, sender: queued.sender) }
}
