import KithMLS

struct TreeKEMVector: Vector {
    struct PathSecret: Codable, Sendable {
        let node: UInt32
        let pathSecret: Hex
    }
    struct Private: Codable, Sendable {
        let index: UInt32
        let encryptionPriv: Hex
        let signaturePriv: Hex
        let pathSecrets: [PathSecret]
    }
    struct Path: Codable, Sendable {
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

extension TreeKEMVector {
    /// Paths of all members of a tree of two members and more, with blank nodes and unmerged leaves.
    static func make(_ suite: any CipherSuite, _ index: Int, _ draw: inout Draw) throws -> TreeKEMVector {
        let groupID = draw.hex(draw.number(1...32))
        let epoch = draw.number(0...UInt64(UInt32.max))
        let transcript = draw.hex(suite.secretLength)
        var known = try KnownTree(suite, groupID: groupID.bytes)
        try known.grow(to: 2 + index, &draw)
        let privates = try known.leaves.map { leaf in
            let member = try known.member(leaf)
            return Private(
                index: leaf, encryptionPriv: Hex(member.encryption.reveal()),
                signaturePriv: Hex(member.signature.reveal()),
                pathSecrets: known.knownSecrets(of: leaf).map { PathSecret(node: $0.node, pathSecret: Hex($0.secret)) })
        }
        let paths = try known.leaves.map { leaf in
            try Path.make(suite, known, from: leaf) { tree in
                GroupContext(
                    cipherSuite: suite.id, groupID: groupID.bytes, epoch: epoch, treeHash: tree.hash(suite),
                    confirmedTranscriptHash: transcript.bytes, extensions: []
                ).encoded
            }
        }
        return TreeKEMVector(
            cipherSuite: suite.id.rawValue, groupId: groupID, epoch: epoch, confirmedTranscriptHash: transcript,
            ratchetTree: Hex(known.tree.bytes), leavesPrivate: privates, updatePaths: paths)
    }
}

extension TreeKEMVector.Path {
    fileprivate static func make(
        _ suite: any CipherSuite, _ known: KnownTree, from sender: UInt32, context: (RatchetTree) -> [UInt8]
    ) throws -> Self {
        let prepared = try known.prepared(sender)
        let update = try known.tree.encrypt(suite, prepared, context: context(prepared.tree), excluding: [])
        let secrets = Dictionary(uniqueKeysWithValues: prepared.secrets)
        let capacity = known.tree.leafCapacity
        /// The secret of the lowest node that is above both the sender and a leaf.
        func secret(_ leaf: UInt32) -> Hex? {
            guard leaf != sender, known.members[leaf] != nil else { return nil }
            var above: Set<UInt32> = []
            var node = TreeMath.node(leaf: leaf)
            while let parent = TreeMath.parent(node, leaves: capacity) {
                above.insert(parent)
                node = parent
            }
            node = TreeMath.node(leaf: sender)
            while let parent = TreeMath.parent(node, leaves: capacity) {
                if above.contains(parent) { return secrets[parent].map { Hex($0) } }
                node = parent
            }
            return nil
        }
        return Self(
            sender: sender, updatePath: Hex(update.encoded), pathSecrets: (0..<capacity).map(secret),
            commitSecret: Hex(prepared.commitSecret.reveal()), treeHashAfter: Hex(prepared.tree.hash(suite)))
    }
}
