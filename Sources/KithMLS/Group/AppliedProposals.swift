/// The group that a list of proposals leads to, before the committer's path (RFC 9420 §12.3).
struct AppliedProposals: Sendable {
    var tree: RatchetTree
    let extensions: [Extension]
    /// The leaves of the added clients, in the order of their proposals, which is rising.
    let added: [UInt32]
    /// The capabilities that the group requires of its members afterwards.
    let required: RequiredCapabilities?
}

extension AuthenticationService {
    /// Shows the service members whose keys are to be noted.
    func admitOrRefuse(_ members: [Admission]) throws(MLSError) {
        guard members.isEmpty || admit(members) else { throw .credentialRejected }
    }

    /// Shows the service the members of a group that is being joined.
    func admit(membersOf tree: RatchetTree) throws(MLSError) {
        try admitOrRefuse(tree.members.map { $0.leaf.admission(replacing: nil) })
    }
}

extension LeafNode {
    func admission(replacing old: SignaturePublicKey?) -> Admission {
        Admission(credential, signatureKey: signatureKey, replacing: old)
    }
}

extension PublicState {
    /// Checks a list of proposals against the group and applies it in the RFC's order (§12.1, §12.2, §12.3).
    func apply(
        _ list: ProposalList, lifetime: LifetimeRule, authentication: any AuthenticationService,
        executor: any WorkExecutor = SerialWorkExecutor()
    ) throws(MLSError) -> AppliedProposals {
        let extensions = list.extensions ?? context.extensions
        let required: RequiredCapabilities? = try extensions.decoded(.requiredCapabilities)
        if list.extensions != nil {
            try checkExternalSenders(extensions, authentication)
        }
        var tree = tree
        for (leaf, node) in list.updates {
            try checkUpdate(leaf, node, lifetime, authentication)
            try tree.update(leaf, node)
        }
        for leaf in list.removes {
            guard tree.hasMember(leaf) else { throw .removeOfBlankLeaf }
            try tree.remove(leaf)
        }
        for item in list.custom {
            guard tree.traits?.supports(item.proposal.type) ?? true else { throw .proposalNotSupportedByMember }
        }
        var added: [UInt32] = []
        _ = try executor.map(list.adds.count) { index throws(MLSError) in
            try list.adds[index].validate(suite, lifetime: lifetime)
        }
        for package in list.adds {
            let leaf = package.leafNode
            guard authentication.isValid(leaf.credential, signatureKey: leaf.signatureKey, for: .add) else {
                throw .credentialRejected
            }
            added.append(try tree.add(leaf))
        }
        try tree.checkCommonSupport(extensions: extensions, required: required)
        return AppliedProposals(tree: tree, extensions: extensions, added: added, required: required)
    }

    /// Checks an Update of the member at a leaf (§12.1.2).
    func checkUpdate(
        _ leaf: UInt32, _ node: LeafNode, _ lifetime: LifetimeRule, _ authentication: any AuthenticationService
    ) throws(MLSError) {
        guard let old = tree.leaf(leaf) else { throw .blankLeaf }
        guard case .update = node.source else { throw .wrongLeafNodeSource }
        guard node.encryptionKey != old.encryptionKey else { throw .encryptionKeyNotChanged }
        try node.validate(
            suite, at: LeafLocation(groupID: context.groupID, leafIndex: leaf), lifetime: lifetime)
        try checkSuccession(node, of: old, for: .update, authentication)
    }

    /// Asks about a credential that replaces another (§5.3.1).
    func checkSuccession(
        _ new: LeafNode, of old: LeafNode, for event: CredentialEvent, _ authentication: any AuthenticationService
    ) throws(MLSError) {
        guard new.credential != old.credential || new.signatureKey != old.signatureKey else { return }
        guard
            authentication.isValid(
                new.credential, signatureKey: new.signatureKey, replacing: old.signatureKey, for: event)
        else { throw .credentialRejected }
        guard authentication.isSuccessor(new.credential, of: old.credential) else { throw .credentialNotSuccessor }
    }

    /// Shows the application the members that a commit brings, or whose keys it changes; called when all else is good.
    func admit(_ change: EpochChange, _ authentication: any AuthenticationService) throws(MLSError) {
        var members = change.added.map { $0.node.admission(replacing: nil) }
        for member in change.updated {
            guard let old = tree.leaf(member.leaf) else { throw .blankLeaf }
            guard old.signatureKey != member.node.signatureKey || old.credential != member.node.credential else {
                continue
            }
            members.append(member.node.admission(replacing: old.signatureKey))
        }
        try authentication.admitOrRefuse(members)
    }

    func checkExternalSenders(
        _ extensions: [Extension], _ authentication: any AuthenticationService
    ) throws(MLSError) {
        guard let senders = try extensions.decoded(.externalSenders, as: ExternalSenders.self)?.senders else { return }
        let known = Set(try externalSenders())
        for sender in senders where !known.contains(sender) {
            guard authentication.isValid(sender.credential, signatureKey: sender.signatureKey, for: .externalSender)
            else { throw .credentialRejected }
        }
    }
}
