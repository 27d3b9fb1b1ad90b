extension Group {
    /// Begins the epoch of the own commit, after the delivery service has accepted it (§14).
    ///
    /// `now` is in seconds since 1970; the past epoch's retention counts from it, nil without a clock.
    public mutating func confirmPendingCommit(at now: UInt64? = nil) throws(MLSError) -> EpochChange {
        guard let pending = pending.take() else { throw .noPendingCommit }
        let change = pending.change
        signatureKey = pending.signatureKey
        advance(to: pending.intoState(), change, at: now)
        return change
    }

    /// Drops the own commit; its proposals are queued as before.
    public mutating func discardPendingCommit() { pending = nil }

    /// Begins the epoch of another member's commit.
    ///
    /// - Returns: what changed, and the queued proposals that the commit left out: their senders may send them again.
    /// - Throws: ``MLSError/wrongEpoch`` for a commit that was staged in another epoch or by another member;
    ///   ``MLSError/credentialRejected`` when the ``AuthenticationService`` does not admit a member.
    public mutating func confirm(
        _ staged: consuming StagedCommit, at now: UInt64? = nil
    ) throws(MLSError) -> (change: EpochChange, leftOut: [QueuedProposal]) {
        guard staged.context == state.context, staged.leafIndex == leafIndex else { throw .wrongEpoch }
        let change = staged.change
        try state.shared.admit(change, configuration.authentication)
        let used = Set(staged.references)
        let leftOut = proposals.all.filter { !used.contains($0.reference) }
        pending = nil
        if let key = staged.signatureKey { signatureKey = key }
        guard let next = staged.intoState() else {
            // The proposals stay: should the epoch go on, its next commit may name them.
            isRemoved = true
            return (change, [])
        }
        advance(to: next, change, at: now)
        return (change, leftOut)
    }

    private mutating func advance(to next: consuming EpochState, _ change: EpochChange, at now: UInt64?) {
        isRemoved = false
        past.append(PastEpoch(state, ended: now, messages: configuration.retention.messages))
        state = next
        resumption.add(
            epoch: state.context.epoch, state.secrets.resumptionPSK, limit: configuration.resumptionEpochs)
        proposals = ProposalQueue()
        sent = SentMessages()
        reInit = change.reInit
        dropPastEpochs(at: now)
    }

    /// Gives up past epochs that are too many, too old or used up (§15.3).
    public mutating func dropPastEpochs(at now: UInt64?) {
        let retention = configuration.retention
        past.removeAll { epoch in
            guard epoch.messagesLeft > 0 else { return true }
            guard let now, let ended = epoch.ended else { return false }
            return now >= ended && now - ended >= retention.seconds
        }
        if past.count > retention.epochs { past.removeFirst(past.count - retention.epochs) }
    }
}

extension PendingCommit {
    consuming func intoState() -> EpochState { state }
}
