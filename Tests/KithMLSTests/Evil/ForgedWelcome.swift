@testable import KithMLS

/// A group that nobody but its inventor is in, and a Welcome to it in which anything may be wrong.
struct ForgedWelcome {
    let suite: any CipherSuite
    let inventor: Member
    /// The tree's nodes: the inventor, a parent, the newcomer.
    var nodes: [RatchetTreeNode?]
    var context: GroupContext
    var pathSecret: [UInt8]?
    var psks: [PreSharedKeyID] = []
    var keys = PreSharedKeys()
    /// Changes the group info before it is signed.
    var info: (inout GroupInfo) -> Void = { _ in }
    /// Changes the group info after it was signed.
    var signedInfo: (inout GroupInfo) -> Void = { _ in }
    /// Changes the Welcome.
    var welcome: (inout Welcome) -> Void = { _ in }
    /// True when the context gets the hash of the tree that is sent.
    var hasTreeHash = true

    init(_ inventor: Member, for newcomer: KeyPackage, extensions: [Extension] = []) throws {
        suite = inventor.suite
        self.inventor = inventor
        let groupID = Array("forged".utf8)
        let secret = Secret.random(suite.secretLength)
        pathSecret = secret.reveal()
        let key = try suite.nodeKey(pathSecret: secret).publicKey
        // The inventor committed when both were there: the node above both was set beside the newcomer's leaf.
        let full = TreeNode.leaf(TreeNode.Leaf(newcomer.leafNode)).hash(suite, first: 1)
        let hash = RatchetTree.parentHash(suite, key: key, above: [], sibling: full)
        let inventorLeaf = try LeafNode(
            inventor.profile, suite: suite, encryptionKey: suite.generateHPKEKey().publicKey,
            signatureKey: inventor.signatureKey, source: .commit(parentHash: hash),
            at: LeafLocation(groupID: groupID, leafIndex: 0))
        nodes = [
            .leaf(inventorLeaf), .parent(ParentNode(encryptionKey: key, parentHash: [], unmergedLeaves: [])),
            .leaf(newcomer.leafNode),
        ]
        context = GroupContext(
            cipherSuite: suite.id, groupID: groupID, epoch: 1, treeHash: [],
            confirmedTranscriptHash: randomBytes(suite.secretLength), extensions: extensions)
    }

    /// The inventor's leaf, to be changed and signed again.
    mutating func changeLeaf(_ change: (inout LeafNode) -> Void, signed: (inout LeafNode) -> Void = { _ in }) throws {
        guard var leaf = nodes[0]?.leaf else { return }
        change(&leaf)
        try leaf.sign(suite, with: inventor.signatureKey, at: LeafLocation(groupID: context.groupID, leafIndex: 0))
        signed(&leaf)
        nodes[0] = .leaf(leaf)
    }

    func make(for package: KeyPackage) throws -> MLSMessage {
        var context = context
        let list = RatchetTreeNodes(nodes: nodes)
        if hasTreeHash, let tree = try? RatchetTree(list) { context.treeHash = tree.hash(suite) }
        let schedule = KeySchedule(
            suite, joinerSecret: .random(suite.secretLength),
            pskSecret: (try? suite.pskSecret(psks, from: keys)) ?? .zero(suite.secretLength))
        let epoch = EpochSecrets(suite, epochSecret: schedule.epochSecret(context: context.encoded))
        var info = GroupInfo(
            groupContext: context, extensions: [Extension(type: .ratchetTree, data: list.encoded)],
            confirmationTag: epoch.confirmationTag(
                suite, confirmedTranscriptHash: context.confirmedTranscriptHash),
            signer: 0, signature: [])
        self.info(&info)
        try info.sign(suite, with: inventor.signatureKey)
        signedInfo(&info)
        let sealed = WelcomeKey(suite, welcomeSecret: schedule.welcomeSecret).seal(info)
        let secrets = GroupSecrets(
            joinerSecret: schedule.joinerSecret.shared(), pathSecret: pathSecret.map { Secret(copying: $0) },
            psks: psks)
        var welcome = Welcome(
            cipherSuite: suite.id,
            secrets: [
                EncryptedGroupSecrets(
                    newMember: package.reference(suite),
                    encryptedGroupSecrets: try suite.encrypt(
                        secrets.encode(), to: package.initKey, label: "Welcome", context: sealed))
            ], encryptedGroupInfo: sealed)
        self.welcome(&welcome)
        return .welcome(welcome)
    }
}
