extension PublicState {
    /// The public part of the group that a commit's content leads to.
    struct CommittedTree {
        let list: ProposalList
        let applied: AppliedProposals
        /// The committer's leaf; for a joiner the one it takes.
        let committer: UInt32
        let isExternal: Bool
        /// The tree after the path.
        let tree: RatchetTree
        let references: [ProposalReference]
        /// The new epoch's context.
        let context: GroupContext
        /// The context that path secrets are encrypted in.
        let provisionalContext: GroupContext
    }

    /// Checks a commit whose signature is genuine as far as anybody can who has no secrets (§12.2, §12.4.2).
    func process(
        _ commit: Commit, in content: AuthenticatedContent, queue: ProposalQueue, configuration: GroupConfiguration,
        lifetime: LifetimeRule
    ) throws(MLSError) -> CommittedTree {
        let isExternal = content.content.sender == .newMemberCommit
        let (items, references) = try resolve(commit, content.content.sender, queue)
        let sender: Committer
        switch content.content.sender {
        case .member(let leaf): sender = .member(leaf)
        case .newMemberCommit: sender = .newMember
        case .external, .newMemberProposal: throw .contentNotAllowedFromSender
        }
        let list = try ProposalList(items, committer: sender, suite: suite, version: context.version)
        guard commit.path != nil || !list.needsPath else { throw .pathRequired }
        var applied = try apply(
            list, lifetime: lifetime, authentication: configuration.authentication, executor: configuration.executor)
        let committer: UInt32
        if case .member(let leaf) = sender {
            committer = leaf
        } else {
            if list.removes.isEmpty {
                guard configuration.acceptsExternalCommits else { throw .externalCommitsNotAccepted }
            } else {
                guard configuration.acceptsResync != .never else { throw .resyncNotAccepted }
            }
            committer = try applied.tree.reserveLeaf()
        }
        var tree = applied.tree
        if let path = commit.path {
            try checkLeaf(path.leafNode, committer, list, isExternal, configuration)
            tree = try applied.tree.merging(suite, path, leaf: committer, excluding: applied.added)
            try tree.checkCommonSupport(extensions: applied.extensions, required: applied.required)
        }
        let provisional = try provisionalContext(tree, applied.extensions)
        var next = provisional
        next.confirmedTranscriptHash = suite.confirmedTranscriptHash(interim: interimTranscriptHash, commit: content)
        return CommittedTree(
            list: list, applied: applied, committer: committer, isExternal: isExternal, tree: tree,
            references: references, context: next, provisionalContext: provisional)
    }

    /// Finds the proposals that a commit names.
    private func resolve(
        _ commit: Commit, _ sender: Sender, _ queue: ProposalQueue
    ) throws(MLSError) -> (items: [SentProposal], references: [ProposalReference]) {
        var items: [SentProposal] = []
        var references: [ProposalReference] = []
        var named: Set<ProposalReference> = []
        for item in commit.proposals {
            switch item {
            case .proposal(let proposal):
                items.append(SentProposal(proposal: proposal, sender: sender))
            case .reference(let reference):
                guard sender != .newMemberCommit else { throw .referenceInExternalCommit }
                guard let found = queue[reference] else { throw .unknownProposal }
                guard named.insert(reference).inserted else { throw .duplicateProposalReference }
                items.append(SentProposal(proposal: found.proposal, sender: found.sender))
                references.append(reference)
            }
        }
        return (items, references)
    }

    /// Checks the leaf in a commit's path (§7.3, §12.4.2).
    private func checkLeaf(
        _ leaf: LeafNode, _ committer: UInt32, _ list: ProposalList, _ isExternal: Bool,
        _ configuration: GroupConfiguration
    ) throws(MLSError) {
        let authentication = configuration.authentication
        try leaf.validate(
            suite, at: LeafLocation(groupID: context.groupID, leafIndex: committer), lifetime: nil)
        let before = isExternal ? list.removes.first : committer
        guard let before else {
            guard authentication.isValid(leaf.credential, signatureKey: leaf.signatureKey, for: .commit) else {
                throw .credentialRejected
            }
            return
        }
        guard let old = tree.leaf(before) else { throw .blankLeaf }
        guard leaf.encryptionKey != old.encryptionKey else { throw .encryptionKeyNotChanged }
        if isExternal {
            guard configuration.acceptsResync != .sameKey || leaf.signatureKey == old.signatureKey else {
                throw .resyncNotAccepted
            }
            guard authentication.isValid(leaf.credential, signatureKey: leaf.signatureKey, for: .commit) else {
                throw .credentialRejected
            }
            guard authentication.isSuccessor(leaf.credential, of: old.credential) else {
                throw .credentialNotSuccessor
            }
        } else {
            try checkSuccession(leaf, of: old, for: .commit, authentication)
        }
    }
}

extension Group {
    /// Checks another's commit and derives the epoch it begins (§12.4.2).
    func stage(
        _ commit: Commit, in content: AuthenticatedContent, psks: PreSharedKeys, at now: UInt64?
    ) throws(MLSError) -> StagedCommit {
        guard let tag = content.confirmationTag else { throw .invalidConfirmationTag }
        let result = try state.shared.process(
            commit, in: content, queue: proposals, configuration: configuration, lifetime: lifetimeRule(now))
        let change = EpochChange(
            result.list, before: tree, after: result.tree, added: result.applied.added, epoch: result.context.epoch,
            committer: result.committer, isExternal: result.isExternal, hasPath: commit.path != nil,
            authenticatedData: content.content.authenticatedData)
        if result.list.removes.contains(leafIndex) {
            return StagedCommit(
                context: context, leafIndex: leafIndex, state: nil, change: change, signatureKey: nil,
                references: result.references)
        }
        let suite = state.suite
        var keys = state.keys
        var signatureKey: SignaturePrivateKey?
        if let own = result.list.updates.first(where: { $0.leaf == leafIndex }) {
            guard let fresh = proposals.ownLeafKeys[own.node.encryptionKey] else { throw .privateKeyMismatch }
            keys.leaf = fresh.encryption
            signatureKey = fresh.signature
        }
        keys.drop(notIn: result.applied.tree)
        var commitSecret = Secret.zero(suite.secretLength)
        if let path = commit.path {
            let opened = try result.applied.tree.decrypt(
                suite, path, from: result.committer, with: keys, context: result.provisionalContext.encoded,
                excluding: result.applied.added, merged: result.tree)
            keys = opened.keys
            commitSecret = opened.commitSecret.shared()
        }
        let contextBytes = result.context.encoded
        let schedule = KeySchedule(
            suite, initSecret: try initSecret(result.list), commitSecret: commitSecret,
            pskSecret: try suite.pskSecret(result.list.psks, from: psks), context: contextBytes)
        let derived = DerivedEpoch(
            suite, epochSecret: schedule.epochSecret(context: contextBytes), context: result.context, tree: result.tree)
        guard constantTimeEqual(derived.confirmationTag, tag) else { throw .invalidConfirmationTag }
        return StagedCommit(
            context: context, leafIndex: leafIndex,
            state: derived.state(suite, context: result.context, tree: result.tree, keys: keys), change: change,
            signatureKey: signatureKey, references: result.references)
    }

    /// The init secret for the next epoch: this epoch's, or the one a joiner sends (§8.3).
    private func initSecret(_ list: ProposalList) throws(MLSError) -> Secret {
        guard let output = list.externalInit else { return state.secrets.initSecret.shared() }
        return try state.suite.hpkeExport(
            from: output, with: state.secrets.externalKey(state.suite), context: externalInitLabel,
            count: state.suite.secretLength)
    }
}

/// The exporter context of external init (RFC 9420 §8.3).
let externalInitLabel = Array("MLS 1.0 external init secret".utf8)
