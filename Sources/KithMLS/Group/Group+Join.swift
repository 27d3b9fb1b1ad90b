/// The part of a group that one that follows it or branches off needs (RFC 9420 §11.2, §11.3).
public struct GroupLineage: Sendable {
    /// The state that the members agreed on.
    public let context: GroupContext
    /// The group that is to follow, where the last commit said so.
    public let reInit: ReInit?
    /// The members' credentials.
    public let members: [Credential]
    let resumptionPSK: SecretBox
}

extension Group {
    /// The lineage that starts from this group's current epoch.
    public var lineage: GroupLineage {
        GroupLineage(
            context: context, reInit: reInit, members: tree.members.map(\.leaf.credential),
            resumptionPSK: state.secrets.resumptionPSK)
    }
}

/// The keys and states with which a client joins a group by a Welcome.
public struct JoinOptions: Sendable {
    /// The group's tree, where the Welcome does not hold it (§12.4.3.3).
    public var tree: RatchetTree?
    /// The pre-shared keys the client has.
    public var psks = PreSharedKeys()
    /// The groups from which the new one may follow or branch off.
    public var lineages: [GroupLineage] = []
    /// The groups the client is in, none of which may have the new one's name.
    public var knownGroups: Set<[UInt8]> = []
    /// Seconds since 1970; nil without a clock.
    public var now: UInt64?

    /// Nothing at hand.
    public init() {}
}

extension Welcome {
    /// Finds the key package, of some, that the Welcome is for.
    public func recipient(of bundles: [KeyPackageBundle], _ suite: any CipherSuite) -> KeyPackageBundle? {
        bundles.first { bundle in
            let reference = bundle.keyPackage.reference(suite)
            return secrets.contains { $0.newMember == reference }
        }
    }
}

extension Group {
    /// Joins the group of a Welcome (§12.4.3.1).
    ///
    /// The bundle's init key must be deleted afterwards, unless the key package is one of last resort (§10).
    public init(
        joining welcome: Welcome, with bundle: KeyPackageBundle, _ options: JoinOptions = JoinOptions(),
        configuration: GroupConfiguration
    ) throws(MLSError) {
        let suite = try configuration.suite(welcome.cipherSuite)
        guard bundle.keyPackage.cipherSuite == welcome.cipherSuite else { throw .keyPackageCipherSuiteMismatch }
        let secrets = try Self.groupSecrets(welcome, bundle, suite)
        let ancestor = try Self.ancestor(of: secrets.psks, options.lineages)
        var keys = options.psks
        for lineage in options.lineages {
            keys.add(lineage.context.groupID, lineage.context.epoch, lineage.resumptionPSK)
        }
        let schedule = KeySchedule(
            suite, joinerSecret: secrets.joinerSecret.shared(),
            pskSecret: try suite.pskSecret(secrets.psks, from: keys))
        let info = try WelcomeKey(suite, welcomeSecret: schedule.welcomeSecret).open(welcome.encryptedGroupInfo)
        let context = info.groupContext
        guard context.version == .mls10 else { throw .unsupportedVersion }
        guard context.cipherSuite == welcome.cipherSuite else { throw .keyPackageCipherSuiteMismatch }
        guard !options.knownGroups.contains(context.groupID) else { throw .groupAlreadyKnown }
        let tree = try info.tree(suite, or: options.tree)
        try info.validate(
            suite, tree: tree, capabilities: bundle.keyPackage.leafNode.capabilities,
            lifetime: LifetimeRule(now: options.now, maximum: configuration.maximumLifetime),
            configuration: configuration)
        let leaf = bundle.keyPackage.leafNode
        let node = RatchetTreeNode.leaf(leaf)
        guard let leafIndex = tree.memberNodes.first(where: { $0.node == node })?.index else { throw .ownLeafMissing }
        var treeKeys = TreeKeys(leafIndex: leafIndex, leaf: bundle.encryptionKey)
        switch secrets.pathSecret {
        case .none: break
        case .some(let pathSecret):
            try treeKeys.set(
                suite, pathSecret: pathSecret, level: TreeMath.commonLevel(leafIndex, info.signer), in: tree,
                sender: info.signer)
        }
        let derived = DerivedEpoch(
            suite, epochSecret: schedule.epochSecret(context: context.encoded), context: context, tree: tree)
        guard constantTimeEqual(derived.confirmationTag, info.confirmationTag) else { throw .invalidConfirmationTag }
        if let ancestor { try ancestor.check(context, tree, configuration.authentication) }
        try configuration.authentication.admit(membersOf: tree)
        let earlier: ResumptionKeys? = try info.extensions.decoded(.resumptionKeys)
        self.init(
            derived.state(suite, context: context, tree: tree, keys: treeKeys), signatureKey: bundle.signatureKey,
            configuration: configuration)
        resumption.insert(earlier, before: context.epoch)
    }

    private static func groupSecrets(
        _ welcome: Welcome, _ bundle: KeyPackageBundle, _ suite: any CipherSuite
    ) throws(MLSError) -> GroupSecrets {
        let reference = bundle.keyPackage.reference(suite)
        let entries = welcome.secrets.filter { $0.newMember == reference }
        guard let entry = entries.first, entries.count == 1 else { throw .keyPackageNotInWelcome }
        let secrets = try GroupSecrets(
            suite.decrypt(
                entry.encryptedGroupSecrets, with: bundle.initKey, label: "Welcome",
                context: welcome.encryptedGroupInfo))
        guard Set(secrets.psks).count == secrets.psks.count else { throw .duplicatePSK }
        guard secrets.psks.allSatisfy({ $0.nonce.count == suite.secretLength }) else { throw .wrongPSKNonceLength }
        return secrets
    }

    /// The group that the new one follows or branches off, if its keys say so (§12.4.3.1).
    private static func ancestor(
        of psks: [PreSharedKeyID], _ lineages: [GroupLineage]
    ) throws(MLSError) -> GroupAncestor? {
        let starting = psks.filter(\.startsGroup)
        guard let id = starting.first else { return nil }
        guard starting.count == 1 else { throw .multipleStartingPSKs }
        guard case .resumption(let usage, let groupID, let epoch) = id.key,
            let lineage = lineages.first(where: { $0.context.groupID == groupID && $0.context.epoch == epoch })
        else { throw .unknownPSK }
        return GroupAncestor(lineage: lineage, isReInit: usage == .reInit)
    }
}

/// The group that a new one claims to come from.
struct GroupAncestor {
    let lineage: GroupLineage
    let isReInit: Bool

    /// Checks that the new group is what the old one's members agreed on, or a part of it (§11.2, §11.3, §12.4.3.1).
    func check(
        _ context: GroupContext, _ tree: RatchetTree, _ authentication: any AuthenticationService
    ) throws(MLSError) {
        guard context.epoch == 1 else { throw .startingEpochNotOne }
        let members = tree.members.map(\.leaf.credential)
        func covers(_ all: [Credential], _ part: [Credential]) -> Bool {
            part.allSatisfy { one in all.contains { authentication.isSameParticipant(one, $0) } }
        }
        guard isReInit else {
            guard context.version == lineage.context.version, context.cipherSuite == lineage.context.cipherSuite else {
                throw .branchParametersDiffer
            }
            guard covers(lineage.members, members) else { throw .branchMembersDiffer }
            return
        }
        guard let wanted = lineage.reInit else { throw .groupNotEnded }
        guard context.groupID == wanted.groupID, context.version == wanted.version,
            context.cipherSuite == wanted.cipherSuite, context.extensions == wanted.extensions
        else { throw .reInitParametersDiffer }
        guard covers(members, lineage.members) else { throw .reInitMembersDiffer }
    }
}

extension GroupInfo {
    /// The group's tree, from the info itself or from elsewhere, and the check of the info's signature
    /// (§12.4.3, §12.4.3.3).
    func tree(_ suite: any CipherSuite, or other: RatchetTree?) throws(MLSError) -> RatchetTree {
        try extensions.checkUnique()
        let list = try extensions.decoded(.ratchetTree, as: RatchetTreeNodes.self)
        let key = list.map { $0.signatureKey(signer) } ?? other?.signatureKey(signer)
        // A signature over a large tree takes as much memory as the tree, and gives it back before the tree is built.
        let isSigned = key.map { hasValidSignature(suite, by: $0) } ?? false
        guard let tree = try list.map({ list throws(MLSError) in try RatchetTree(list) }) ?? other else {
            throw .treeMissing
        }
        guard tree.hasMember(signer) else { throw .signerNotMember }
        guard isSigned else { throw .invalidGroupInfoSignature }
        return tree
    }

    /// Checks everything about a group that a new member can, but the signature that ``tree(_:or:)`` checks, and its
    /// confirmation tag (§12.4.3, §12.4.3.1).
    func validate(
        _ suite: any CipherSuite, tree: RatchetTree, capabilities: Capabilities, lifetime: LifetimeRule,
        configuration: GroupConfiguration
    ) throws(MLSError) {
        try groupContext.extensions.checkUnique()
        guard capabilities.supports(groupContext.extensions.map(\.type)) else { throw .extensionNotSupported }
        try tree.validate(suite, context: groupContext, lifetime: lifetime, configuration: configuration)
    }
}
