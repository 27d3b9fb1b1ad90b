import KithMLS

struct TreeKEMVector: Vector {
    struct PathSecret: Decodable, Sendable {
        let node: UInt32
        let pathSecret: Hex
    }
    struct Private: Decodable, Sendable {
        let index: UInt32
        let encryptionPriv: Hex
        let signaturePriv: Hex
        let pathSecrets: [PathSecret]
    }
    struct Path: Decodable, Sendable {
        let sender: UInt32
        let updatePath: Hex
        let pathSecrets: [Hex?]
        let commitSecret: Hex
        let treeHashAfter: Hex
    }

    let cipherSuite: UInt16
    let groupId: Hex
    let epoch: UInt64
    let confirmedTranscriptHash: Hex
    let ratchetTree: Hex
    let leavesPrivate: [Private]
    let updatePaths: [Path]
    var suite: UInt16? { cipherSuite }

    func verify(_ suite: any CipherSuite) throws {
        let tree = try RatchetTree(ratchetTree.bytes)
        var members: [UInt32: TreeKeys] = [:]
        for leaf in leavesPrivate {
            var keys = TreeKeys(leafIndex: leaf.index, leaf: try suite.importHPKEKey(leaf.encryptionPriv.bytes))
            for known in leaf.pathSecrets {
                keys.parents[known.node] = try suite.nodeKey(pathSecret: Secret(copying: known.pathSecret.bytes))
            }
            try keys.check(in: tree)
            members[leaf.index] = keys
        }
        for path in updatePaths {
            try verify(suite, path, tree, members)
            try create(suite, path.sender, tree, members)
        }
    }

    private func context(_ suite: any CipherSuite, _ tree: RatchetTree) -> [UInt8] {
        GroupContext(
            cipherSuite: suite.id, groupID: groupId.bytes, epoch: epoch, treeHash: tree.hash(suite),
            confirmedTranscriptHash: confirmedTranscriptHash.bytes, extensions: []
        ).encoded
    }

    /// Processes the path of the vector as every other member.
    private func verify(
        _ suite: any CipherSuite, _ path: Path, _ tree: RatchetTree, _ members: [UInt32: TreeKeys]
    ) throws {
        let update = try UpdatePath(decoding: path.updatePath.bytes)
        try check(update.encoded == path.updatePath.bytes, "encoding of the path")
        let merged = try tree.merging(suite, update, leaf: path.sender, excluding: [])
        try check(merged.hash(suite) == path.treeHashAfter.bytes, "tree_hash_after")
        try merged.checkParentHashes(suite)
        let context = context(suite, merged)
        for (index, keys) in members where index != path.sender {
            let opened = try tree.decrypt(
                suite, update, from: path.sender, with: keys, context: context, excluding: [], merged: merged)
            try check(
                opened.pathSecret.secret.reveal() == path.pathSecrets[Int(index)]?.bytes,
                "path secret from \(path.sender) to \(index)")
            try check(opened.commitSecret.reveal() == path.commitSecret.bytes, "commit_secret")
            try opened.keys.check(in: merged)
        }
    }

    /// Makes a path as the vector's sender and has every other member process it.
    private func create(
        _ suite: any CipherSuite, _ sender: UInt32, _ tree: RatchetTree, _ members: [UInt32: TreeKeys]
    ) throws {
        guard let leaf = tree.leaf(sender), let secrets = leavesPrivate.first(where: { $0.index == sender }) else {
            throw VectorFailure("no private keys of the sender")
        }
        let prepared = try tree.preparePath(
            suite, leaf: sender, profile: LeafProfile(leaf),
            signatureKey: suite.importSignatureKey(secrets.signaturePriv.bytes), groupID: groupId.bytes)
        let context = context(suite, prepared.tree)
        let update = try tree.encrypt(suite, prepared, context: context, excluding: [])
        let merged = try tree.merging(
            suite, UpdatePath(decoding: update.encoded), leaf: sender, excluding: [])
        try check(merged.hash(suite) == prepared.tree.hash(suite), "own tree hash")
        for (index, keys) in members where index != sender {
            let opened = try tree.decrypt(
                suite, update, from: sender, with: keys, context: context, excluding: [], merged: merged)
            try check(opened.commitSecret.isEqual(to: prepared.commitSecret), "own commit secret")
        }
    }
}
