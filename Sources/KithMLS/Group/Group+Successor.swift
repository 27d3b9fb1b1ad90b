/// The first commit of a group that follows another or branches off it, and the group.
public struct GroupFounding: ~Copyable, Sendable {
    /// The messages to send; the Welcome holds the resumption key's name.
    public let output: CommitOutput
    /// The new group, whose commit awaits its confirmation.
    public var group: Group

    init(output: CommitOutput, group: consuming Group) {
        self.output = output
        self.group = group
    }

    /// The new group.
    public consuming func take() -> Group { group }
}

extension Group {
    /// Makes the group that a ReInit asked for, with a key package of every other member (§11.2).
    ///
    /// `options` are those of its first commit: a path, or a Welcome without the tree, which then comes another way
    /// (``JoinOptions/tree``).
    ///
    /// - Throws: ``MLSError/groupNotEnded`` unless a commit with a ReInit was confirmed here;
    ///   ``MLSError/reInitMembersDiffer`` when a member's key package is missing.
    public func foundSuccessor(
        keyPackages: [KeyPackage], profile: LeafProfile, signatureKey: SignaturePrivateKey, lifetime: Lifetime,
        options: CommitOptions = CommitOptions(), at now: UInt64? = nil
    ) throws(MLSError) -> GroupFounding {
        guard let reInit else { throw .groupNotEnded }
        let suite = try configuration.suite(reInit.cipherSuite)
        let all = [profile.credential] + keyPackages.map(\.leafNode.credential)
        let authentication = configuration.authentication
        guard
            tree.members.allSatisfy({ member in
                all.contains { authentication.isSameParticipant(member.leaf.credential, $0) }
            })
        else { throw .reInitMembersDiffer }
        return try found(
            suite, groupID: reInit.groupID, extensions: reInit.extensions, usage: .reInit, keyPackages, profile,
            signatureKey, lifetime, options, now)
    }

    /// Makes a group of some of this group's members, with a key package of each (§11.3).
    ///
    /// `options` are those of its first commit, as for a successor.
    public func foundBranch(
        groupID: [UInt8]? = nil, keyPackages: [KeyPackage], profile: LeafProfile, signatureKey: SignaturePrivateKey,
        lifetime: Lifetime, extensions: [Extension]? = nil, options: CommitOptions = CommitOptions(),
        at now: UInt64? = nil
    ) throws(MLSError) -> GroupFounding {
        try checkUsable()
        let authentication = configuration.authentication
        let members = tree.members
        guard
            ([profile.credential] + keyPackages.map(\.leafNode.credential)).allSatisfy({ credential in
                members.contains { authentication.isSameParticipant(credential, $0.leaf.credential) }
            })
        else { throw .branchMembersDiffer }
        return try found(
            state.suite, groupID: groupID ?? randomBytes(state.suite.secretLength),
            extensions: extensions ?? context.extensions, usage: .branch, keyPackages, profile, signatureKey, lifetime,
            options, now)
    }

    private func found(
        _ suite: any CipherSuite, groupID: [UInt8], extensions: [Extension], usage: PreSharedKeyID.Usage,
        _ keyPackages: [KeyPackage], _ profile: LeafProfile, _ signatureKey: SignaturePrivateKey,
        _ lifetime: Lifetime, _ options: CommitOptions, _ now: UInt64?
    ) throws(MLSError) -> GroupFounding {
        var group = try Group(
            suite, groupID: groupID, profile: profile, signatureKey: signatureKey, lifetime: lifetime,
            extensions: extensions, configuration: configuration)
        let id = PreSharedKeyID(
            key: .resumption(usage, groupID: self.groupID, epoch: epoch), nonce: randomBytes(suite.secretLength))
        var keys = PreSharedKeys()
        keys.add(self.groupID, epoch, state.secrets.resumptionPSK)
        var options = options
        options.proposals = keyPackages.map { .add($0) } + [.psk(id)] + options.proposals
        let output = try group.stageCommit(
            options, psks: keys, at: now, start: usage == .reInit ? .reInit : .branch)
        return GroupFounding(output: output, group: group)
    }
}
