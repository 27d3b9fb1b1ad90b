extension Group {
    /// Makes a commit and the epoch that it begins; nothing changes before ``confirmPendingCommit(at:)`` (§12.4.1, §14).
    ///
    /// `psks` are the keys that the proposals name, beyond this group's own resumption keys. `now` is in seconds since
    /// 1970, to hold lifetimes against; nil without a clock.
    ///
    /// While another own commit awaits its confirmation this throws ``MLSError/commitPending``.
    public mutating func stageCommit(
        _ options: CommitOptions = CommitOptions(), psks: PreSharedKeys = PreSharedKeys(), at now: UInt64? = nil
    ) throws(MLSError) -> CommitOutput {
        try stageCommit(options, psks: psks, at: now, start: .ordinary)
    }

    mutating func stageCommit(
        _ options: CommitOptions, psks: PreSharedKeys, at now: UInt64?, start: GroupStart
    ) throws(MLSError) -> CommitOutput {
        try checkUsable()
        guard pending == nil else { throw .commitPending }
        let keys = allKeys(psks)
        if let chosen = options.chosenProposals {
            return try stage(try queuedProposals(chosen), options, psks: keys, at: now, start: start)
        }
        guard options.includesQueuedProposals else {
            return try stage([], options, psks: keys, at: now, start: start)
        }
        let queued = proposals.selection(for: leafIndex).filter { item in
            item.proposal.presharedKey.map { keys.key($0) != nil } ?? true
        }
        do { return try stage(queued, options, psks: keys, at: now, start: start) } catch {
            // A signer that is away is not asked again.
            guard !queued.isEmpty, error != .signingFailed else { throw error }
        }
        let acceptable = state.shared.acceptable(
            queued, beside: options.proposals, committer: leafIndex, lifetime: lifetimeRule(now),
            authentication: configuration.authentication)
        do { return try stage(acceptable, options, psks: keys, at: now, start: start) } catch {
            // Whatever others have proposed must not keep this member from committing.
            guard !acceptable.isEmpty, error != .signingFailed else { throw error }
        }
        return try stage([], options, psks: keys, at: now, start: start)
    }

    private func queuedProposals(_ chosen: [ProposalReference]) throws(MLSError) -> [QueuedProposal] {
        var queued: [QueuedProposal] = []
        for reference in chosen {
            guard let proposal = proposals[reference] else { throw .unknownProposal }
            guard !queued.contains(proposal) else { throw .duplicateProposalReference }
            queued.append(proposal)
        }
        return queued
    }

    /// Makes a commit of the committer's own proposals and these queued ones.
    private mutating func stage(
        _ queued: [QueuedProposal], _ options: CommitOptions, psks: PreSharedKeys, at now: UInt64?, start: GroupStart
    ) throws(MLSError) -> CommitOutput {
        let committer = leafIndex
        let own = options.proposals.map { SentProposal(proposal: $0, sender: .member(committer)) }
        let list = try ProposalList(
            queued.map { SentProposal(proposal: $0.proposal, sender: $0.sender) } + own,
            committer: .member(committer), suite: state.suite, version: context.version, start: start)
        let applied = try state.shared.apply(
            list, lifetime: lifetimeRule(now), authentication: configuration.authentication,
            executor: configuration.executor)
        let proposalsInCommit =
            queued.map { ProposalOrReference.reference($0.reference) }
            + options.proposals.map { ProposalOrReference.proposal($0) }
        return try stage(
            list, applied, proposalsInCommit, options, psks: psks, references: queued.map(\.reference))
    }

    private mutating func stage(
        _ list: ProposalList, _ applied: AppliedProposals, _ proposalsInCommit: [ProposalOrReference],
        _ options: CommitOptions, psks: PreSharedKeys, references: [ProposalReference]
    ) throws(MLSError) -> CommitOutput {
        let suite = state.suite
        let newSignatureKey = options.signatureKey ?? signatureKey
        var tree = applied.tree
        var keys = state.keys
        keys.drop(notIn: tree)
        var commitSecret = Secret.zero(suite.secretLength)
        var path: UpdatePath?
        var pathSecrets: [Int: SecretBox] = [:]
        let renews = options.forcesPath || options.profile != nil || options.signatureKey != nil
        if list.needsPath || renews {
            guard let own = tree.leaf(leafIndex) else { throw .blankLeaf }
            let prepared = try tree.preparePath(
                suite, leaf: leafIndex, profile: options.profile ?? LeafProfile(own), signatureKey: newSignatureKey,
                groupID: groupID)
            try checkOwnPathLeaf(prepared.leafNode, applied, prepared.tree)
            let provisional = try state.shared.provisionalContext(prepared.tree, applied.extensions)
            path = try tree.encrypt(
                suite, prepared, context: provisional.encoded, excluding: applied.added,
                executor: configuration.executor)
            for (step, secret) in zip(prepared.steps, prepared.pathSecrets) { pathSecrets[step.level] = secret }
            tree = prepared.tree
            keys = keys.merging(prepared.keys, in: tree)
            commitSecret = prepared.commitSecret.shared()
        }
        var content = try signed(
            .commit(Commit(proposals: proposalsInCommit, path: path)), options.authenticatedData,
            configuration.handshakeFormat)
        var newContext = try state.shared.provisionalContext(tree, applied.extensions)
        newContext.confirmedTranscriptHash = suite.confirmedTranscriptHash(
            interim: state.shared.interimTranscriptHash, commit: content)
        let contextBytes = newContext.encoded
        let schedule = KeySchedule(
            suite, initSecret: state.secrets.initSecret, commitSecret: commitSecret,
            pskSecret: try suite.pskSecret(list.psks, from: psks), context: contextBytes)
        let derived = DerivedEpoch(
            suite, epochSecret: schedule.epochSecret(context: contextBytes), context: newContext, tree: tree)
        content.confirmationTag = derived.confirmationTag
        let next = derived.state(suite, context: newContext, tree: tree, keys: keys)
        let welcome = try makeWelcome(
            next, schedule, list, applied.added, pathSecrets, signatureKey: newSignatureKey, options)
        let change = EpochChange(
            list, before: state.tree, after: tree, added: applied.added, epoch: newContext.epoch, committer: leafIndex,
            isExternal: false, hasPath: path != nil, authenticatedData: options.authenticatedData)
        try state.shared.admit(change, configuration.authentication)
        let message = try protect(&content)
        pending = PendingCommit(
            state: next, signatureKey: newSignatureKey, message: message, welcome: welcome, change: change,
            proposals: options.proposals, references: references)
        return CommitOutput(
            commit: message, welcome: welcome, change: change, proposals: options.proposals, references: references)
    }

    private func checkOwnPathLeaf(
        _ leaf: LeafNode, _ applied: AppliedProposals, _ tree: RatchetTree
    ) throws(MLSError) {
        try leaf.validate(
            state.suite, at: LeafLocation(groupID: groupID, leafIndex: leafIndex), lifetime: nil)
        try tree.checkCommonSupport(extensions: applied.extensions, required: applied.required)
    }

    private func makeWelcome(
        _ next: borrowing EpochState, _ schedule: borrowing KeySchedule, _ list: ProposalList, _ added: [UInt32],
        _ pathSecrets: [Int: SecretBox], signatureKey: SignaturePrivateKey, _ options: CommitOptions
    ) throws(MLSError) -> MLSMessage? {
        guard !added.isEmpty else { return nil }
        let suite = next.suite
        let info = try next.groupInfo(
            signatureKey: signatureKey, withTree: options.welcomeHasTree, withExternalKey: false,
            extensions: options.groupInfoExtensions)
        let sealed = WelcomeKey(suite, welcomeSecret: schedule.welcomeSecret).seal(info)
        let context = suite.encryptContext("Welcome", sealed)
        // What is sent differs only by the path secret of the node that the new member shares with the committer.
        let levels = added.map { TreeMath.commonLevel(leafIndex, $0) }
        var plaintexts: [Int: [UInt8]] = [:]
        defer { for level in plaintexts.keys { clear(&plaintexts[level, default: []]) } }
        for level in levels where plaintexts[level] == nil {
            plaintexts[level] = GroupSecrets(
                joinerSecret: schedule.joinerSecret.shared(),
                pathSecret: pathSecrets[level].map { $0.secret.shared() }, psks: list.psks
            ).encode()
        }
        let secrets = try configuration.executor.map(added.count) { [plaintexts] index throws(MLSError) in
            EncryptedGroupSecrets(
                newMember: list.adds[index].reference(suite),
                encryptedGroupSecrets: try suite.hpkeSeal(
                    plaintexts[levels[index]] ?? [], to: list.adds[index].initKey, info: context))
        }
        return .welcome(Welcome(cipherSuite: suite.id, secrets: secrets, encryptedGroupInfo: sealed))
    }
}

extension PublicState {
    /// The context that path secrets are encrypted in: the new epoch's with the old transcript (§12.4.1).
    func provisionalContext(_ tree: RatchetTree, _ extensions: [Extension]) throws(MLSError) -> GroupContext {
        guard context.epoch < .max else { throw .epochExhausted }
        return GroupContext(
            version: context.version, cipherSuite: context.cipherSuite, groupID: context.groupID,
            epoch: context.epoch + 1, treeHash: tree.hash(suite),
            confirmedTranscriptHash: context.confirmedTranscriptHash, extensions: extensions)
    }
}

extension TreeKeys {
    /// The keys that remain valid and the new ones of an own path.
    func merging(_ fresh: TreeKeys, in tree: RatchetTree) -> TreeKeys {
        var keys = self
        keys.drop(notIn: tree)
        keys.leaf = fresh.leaf
        keys.parents.merge(fresh.parents) { $1 }
        return keys
    }
}
