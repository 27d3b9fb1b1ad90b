import Synchronization

extension Group {
    /// Takes in a message of the group.
    ///
    /// `psks` are the keys that a commit may name, beyond this group's own resumption keys. `now` is in seconds since
    /// 1970, to hold lifetimes and retention against; nil without a clock.
    public mutating func process(
        _ message: MLSMessage, psks: PreSharedKeys = PreSharedKeys(), at now: UInt64? = nil
    ) throws(MLSError) -> Received {
        guard !isRemoved else { throw .removedFromGroup }
        return try take(message, psks, now)
    }

    /// Takes in a message of the epoch in which a commit has removed this member.
    ///
    /// Whoever a commit removes cannot tell whether others can follow it. When they cannot, the delivery service takes
    /// another commit of the epoch, and confirming that one makes this client a member again.
    package mutating func processAfterRemoval(
        _ message: MLSMessage, psks: PreSharedKeys = PreSharedKeys(), at now: UInt64? = nil
    ) throws(MLSError) -> Received { try take(message, psks, now) }

    private mutating func take(
        _ message: MLSMessage, _ psks: PreSharedKeys, _ now: UInt64?
    ) throws(MLSError) -> Received {
        switch message {
        case .publicMessage(let content): return try process(content, message, psks, now)
        case .privateMessage(let content): return try process(content, message, psks, now)
        case .welcome, .groupInfo, .keyPackage: throw .unexpectedWireFormat
        }
    }

    private mutating func process(
        _ content: PublicMessage, _ message: MLSMessage, _ psks: PreSharedKeys, _ now: UInt64?
    ) throws(MLSError) -> Received {
        try state.shared.checkGroup(content.groupID)
        guard content.epoch == epoch else { throw .wrongEpoch }
        if isPending(message) { return .own(OwnMessage(kind: .pendingCommit, epoch: epoch)) }
        if case .member = content.sender, !configuration.acceptsPublicHandshake { throw .publicHandshakeNotAccepted }
        if let commit = largeCommit(content.authenticated) {
            let key = state.secrets.membershipKey.shared()
            return .commit(
                try stageSideBySide(commit, in: content.authenticated, psks, now) { shared throws(MLSError) in
                    try content.checkMembership(shared.suite, key, context: shared.contextBytes)
                })
        }
        try content.checkMembership(state.suite, state.secrets.membershipKey, context: state.shared.contextBytes)
        try state.shared.checkSignature(content.authenticated)
        return try accept(content.authenticated, psks, now)
    }

    private mutating func process(
        _ message: PrivateMessage, _ whole: MLSMessage, _ psks: PreSharedKeys, _ now: UInt64?
    ) throws(MLSError) -> Received {
        try state.shared.checkGroup(message.groupID)
        guard message.epoch == epoch else { return try processPast(message, now) }
        if isPending(whole) { return .own(OwnMessage(kind: .pendingCommit, epoch: epoch)) }
        let suite = state.suite
        let senderData = try message.senderData(suite, senderDataSecret: state.secrets.senderData)
        guard senderData.leafIndex != leafIndex || readsOwn(message) else {
            return .own(try takeOwn(message, senderData))
        }
        guard tree.hasMember(senderData.leafIndex) else { throw .senderNotMember }
        let step = try state.secretTree.key(
            leaf: senderData.leafIndex, RatchetKind(message.contentType), generation: senderData.generation,
            limits: configuration.ratchetLimits)
        let content = try message.content(suite, senderData: senderData, key: step.key)
        if let commit = largeCommit(content) {
            let staged = try stageSideBySide(commit, in: content, psks, now) { _ in }
            state.secretTree.apply(step)
            return .commit(staged)
        }
        try state.shared.checkSignature(content)
        guard case .application(let data) = content.content.content else {
            let received = try accept(content, psks, now)
            state.secretTree.apply(step)
            return received
        }
        state.secretTree.apply(step)
        return .application(try applicationMessage(content, data, senderData, state.shared))
    }

    /// Reads a late message of the application with what is kept of its epoch (§15.3).
    private mutating func processPast(_ message: PrivateMessage, _ now: UInt64?) throws(MLSError) -> Received {
        dropPastEpochs(at: now)
        guard message.contentType == .application,
            let index = past.firstIndex(where: { $0.shared.context.epoch == message.epoch })
        else { throw .wrongEpoch }
        let shared = past[index].shared
        let senderData = try message.senderData(shared.suite, senderDataSecret: past[index].senderData.secret)
        guard senderData.leafIndex != past[index].leafIndex || readsOwn(message) else {
            return .own(ownMessage(message))
        }
        guard shared.tree.hasMember(senderData.leafIndex) else { throw .senderNotMember }
        let step = try past[index].secretTree.key(
            leaf: senderData.leafIndex, .application, generation: senderData.generation,
            limits: configuration.ratchetLimits)
        let content = try message.content(shared.suite, senderData: senderData, key: step.key)
        try shared.checkSignature(content)
        guard case .application(let data) = content.content.content else { throw .wrongEpoch }
        past[index].secretTree.apply(step)
        past[index].messagesLeft -= 1
        return .application(try applicationMessage(content, data, senderData, shared))
    }

    private func applicationMessage(
        _ content: AuthenticatedContent, _ data: [UInt8], _ senderData: SenderData, _ shared: PublicState
    ) throws(MLSError) -> ApplicationMessage {
        guard let node = shared.tree.leaf(senderData.leafIndex) else { throw .senderNotMember }
        return ApplicationMessage(
            data: data, sender: senderData.leafIndex, senderNode: node, epoch: content.content.epoch,
            generation: senderData.generation, authenticatedData: content.content.authenticatedData)
    }

    private func isPending(_ message: MLSMessage) -> Bool {
        switch pending {
        case .none: false
        case .some(let pending): pending.message == message
        }
    }

    /// Tells whether this member sent a message in this epoch, as far as it remembers.
    package func isOwn(_ message: PrivateMessage) -> Bool { sent.contains(state.suite.hash(message.ciphertext)) }

    /// Takes in a message under this member's number, once: every member can write another's number on one.
    ///
    /// One of a state that was lost opens with a key that comes later here, and must then never be used.
    private mutating func takeOwn(
        _ message: PrivateMessage, _ senderData: SenderData
    ) throws(MLSError) -> OwnMessage {
        let own = ownMessage(message)
        guard !sent.takeEcho(state.suite.hash(message.ciphertext)) else { return own }
        do throws(MLSError) {
            let step = try state.secretTree.key(
                leaf: leafIndex, RatchetKind(message.contentType), generation: senderData.generation,
                limits: configuration.ratchetLimits)
            try state.shared.checkSignature(try message.content(state.suite, senderData: senderData, key: step.key))
            state.secretTree.apply(step)
        } catch {
            // Of messages that are no longer remembered nobody can say whether they came before.
            guard error == .messageKeyUsed, sent.hasForgotten, message.contentType != .commit else { throw error }
        }
        return own
    }

    private func readsOwn(_ message: PrivateMessage) -> Bool {
        message.contentType == .application && configuration.readableOwnMessages > 0
    }

    private func ownMessage(_ message: PrivateMessage) -> OwnMessage {
        OwnMessage(
            kind: isOwn(message) ? .remembered(message.contentType) : .unknown(message.contentType),
            epoch: message.epoch)
    }

    /// A commit of somebody who may make one, when it is so large that two threads are worth while: with keys for each of
    /// a thousand members.
    private func largeCommit(_ content: AuthenticatedContent) -> Commit? {
        guard content.contentBytes.count >= 1 << 16, !(configuration.executor is SerialWorkExecutor), reInit == nil,
            content.content.sender != .member(leafIndex), case .commit(let commit) = content.content.content,
            (try? state.shared.signatureKey(of: content.content)) != nil
        else { return nil }
        return commit
    }

    /// Checks a commit's signature, which takes as long as all the rest, beside the rest.
    ///
    /// Everything derived from a commit stays here until its signature is known to be good.
    private func stageSideBySide(
        _ commit: Commit, in content: AuthenticatedContent, _ psks: PreSharedKeys, _ now: UInt64?,
        _ checkTag: @Sendable (PublicState) throws(MLSError) -> Void
    ) throws(MLSError) -> StagedCommit {
        let (shared, psks) = (state.shared, allKeys(psks))
        let outcome = Mutex(Outcome())
        configuration.executor.perform(2) { number in
            if number == 0 {
                do throws(MLSError) { try shared.checkSignature(content) } catch {
                    outcome.withLock { $0.signature = error }
                }
                return
            }
            do throws(MLSError) { try checkTag(shared) } catch {
                outcome.withLock { $0.tag = error }
                return
            }
            do throws(MLSError) {
                var staged: StagedCommit? = try stage(commit, in: content, psks: psks, at: now)
                outcome.withLock { $0.staged = staged.take() }
            } catch {
                outcome.withLock { $0.rest = error }
            }
        }
        if let error = outcome.withLock({ $0.tag ?? $0.signature ?? $0.rest }) { throw error }
        guard let staged = outcome.withLock({ $0.staged.take() }) else {
            preconditionFailure("an executor returns when its work is done")
        }
        return staged
    }

    private struct Outcome: ~Copyable {
        var tag: MLSError?
        var signature: MLSError?
        var rest: MLSError?
        var staged: StagedCommit?
    }

    /// Takes in a handshake content whose signature was checked.
    private mutating func accept(
        _ content: AuthenticatedContent, _ psks: PreSharedKeys, _ now: UInt64?
    ) throws(MLSError) -> Received {
        switch content.content.content {
        case .application: throw .applicationDataNotEncrypted
        case .proposal(let proposal):
            let reference = content.proposalReference(state.suite)
            if let known = proposals[reference] {
                return known.sender == .member(leafIndex)
                    ? .own(OwnMessage(kind: .remembered(.proposal), epoch: epoch)) : .proposal(known)
            }
            guard content.content.sender != .member(leafIndex) else {
                return .own(OwnMessage(kind: .unknown(.proposal), epoch: epoch))
            }
            if content.content.sender == .newMemberProposal, !configuration.acceptsNewMemberProposals {
                throw .newMemberProposalsNotAccepted
            }
            guard proposals.all.count < configuration.queuedProposals else { throw .tooManyProposals }
            try check(SentProposal(proposal: proposal, sender: content.content.sender), at: now)
            let queued = QueuedProposal(
                reference: reference, proposal: proposal, sender: content.content.sender,
                authenticatedData: content.content.authenticatedData)
            guard queued.byteCount <= configuration.queuedProposalBytes - proposals.byteCount else {
                throw .tooManyProposals
            }
            proposals.add(queued)
            return .proposal(queued)
        case .commit(let commit):
            guard reInit == nil else { throw .groupEnded }
            guard content.content.sender != .member(leafIndex) else {
                return .own(OwnMessage(kind: .unknown(.commit), epoch: epoch))
            }
            return .commit(try stage(commit, in: content, psks: allKeys(psks), at: now))
        }
    }
}
