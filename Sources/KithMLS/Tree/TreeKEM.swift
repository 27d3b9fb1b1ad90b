/// A committer's new keys for its leaf and the nodes above, before they are encrypted to the others (RFC 9420 §7.5).
package struct PreparedPath: ~Copyable {
    /// The tree with the path merged in.
    package let tree: RatchetTree
    package let keys: TreeKeys
    /// One for each node of the filtered direct path, from the leaf up.
    let pathSecrets: [SecretBox]
    package let commitSecret: Secret
    let steps: [RatchetTree.PathStep]
    let leafNode: LeafNode

    /// The nodes of the path and their secrets, from the leaf up, where they are no longer cleared: for test vectors.
    package var secrets: [(node: UInt32, secret: [UInt8])] {
        zip(steps, pathSecrets).map { ($0.node, $1.secret.reveal()) }
    }
}

extension RatchetTree {
    /// Makes fresh keys for the path above a leaf and a leaf signed over them (§7.4, §7.5).
    package func preparePath(
        _ suite: any CipherSuite, leaf index: UInt32, profile: LeafProfile, signatureKey: SignaturePrivateKey,
        groupID: [UInt8]
    ) throws(MLSError) -> PreparedPath {
        let steps = filteredDirectPath(index)
        var keys = TreeKeys(leafIndex: index, leaf: suite.generateHPKEKey())
        var secrets: [SecretBox] = []
        var next = Secret.random(suite.secretLength)
        for step in steps {
            keys.parents[step.node] = try suite.nodeKey(pathSecret: next)
            secrets.append(SecretBox(next.shared()))
            next = suite.derive(next, "path")
        }
        let (parents, parentHash) = Self.parents(
            suite, steps: steps, keys: steps.map { keys.parents[$0.node]?.publicKey ?? [] })
        let leaf = try LeafNode(
            profile, suite: suite, encryptionKey: keys.leaf.publicKey, signatureKey: signatureKey,
            source: .commit(parentHash: parentHash), at: LeafLocation(groupID: groupID, leafIndex: index))
        var tree = self
        try tree.merge(index, leaf, parents)
        return PreparedPath(
            tree: tree, keys: keys, pathSecrets: secrets, commitSecret: next, steps: steps, leafNode: leaf)
    }

    /// Encrypts the path's secrets to everybody but the leaves that the same commit adds (§7.5, §7.6).
    package func encrypt(
        _ suite: any CipherSuite, _ path: borrowing PreparedPath, context: [UInt8], excluding added: [UInt32],
        executor: any WorkExecutor = SerialWorkExecutor()
    ) throws(MLSError) -> UpdatePath {
        var nodes: [UpdatePathNode] = []
        let info = suite.encryptContext("UpdatePathNode", context)
        for (index, step) in path.steps.enumerated() {
            var recipients: [HPKEPublicKey] = []
            visitResolution(step.copath, first: step.copathFirst) { node, key in
                if node % 2 == 1 || !added.containsSorted(node / 2) { recipients.append(key) }
            }
            var plaintext = path.pathSecrets[index].secret.reveal()
            defer { clear(&plaintext) }
            let sealed = try executor.map(recipients.count) { [plaintext, recipients] index throws(MLSError) in
                try suite.hpkeSeal(plaintext, to: recipients[index], info: info)
            }
            nodes.append(
                UpdatePathNode(
                    encryptionKey: path.keys.parents[step.node]?.publicKey ?? [],
                    encryptedPathSecret: HPKECiphertexts(sealed)))
        }
        return UpdatePath(leafNode: path.leafNode, nodes: nodes)
    }

    /// Merges another's path into the tree after checking its shape, that its keys are new and that the leaf's parent
    /// hash is that of the nodes above it (§7.5, §7.9.2, §12.4.2).
    package func merging(
        _ suite: any CipherSuite, _ path: UpdatePath, leaf index: UInt32, excluding added: [UInt32]
    ) throws(MLSError) -> RatchetTree {
        let steps = filteredDirectPath(index)
        guard path.nodes.count == steps.count else { throw .wrongPathLength }
        guard !encryptionKeys.contains(path.leafNode.encryptionKey) else { throw .pathKeyInUse }
        for (node, step) in zip(path.nodes, steps) {
            let range = step.copathFirst..<step.copathFirst + UInt32(step.copath.capacity)
            guard
                node.encryptedPathSecret.count == step.copath.resolutionCount - added.within(range).count
            else { throw .wrongPathSecretCount }
            guard !encryptionKeys.contains(node.encryptionKey) else { throw .pathKeyInUse }
            guard suite.isValidHPKEKey(node.encryptionKey) else { throw .invalidPublicKey }
        }
        let (parents, parentHash) = Self.parents(suite, steps: steps, keys: path.nodes.map(\.encryptionKey))
        guard case .commit(let claimed) = path.leafNode.source else { throw .wrongLeafNodeSource }
        guard claimed == parentHash else { throw .invalidParentHash }
        var tree = self
        try tree.merge(index, path.leafNode, parents)
        return tree
    }

    /// Decrypts the path secret meant for a member and derives the keys above it; `self` is the tree before the path
    /// was merged, `merged` the tree after (§7.5).
    package func decrypt(
        _ suite: any CipherSuite, _ path: UpdatePath, from sender: UInt32, with keys: TreeKeys, context: [UInt8],
        excluding added: [UInt32], merged: RatchetTree
    ) throws(MLSError) -> DecryptedPath {
        let steps = filteredDirectPath(sender)
        let common = TreeMath.commonLevel(sender, keys.leafIndex)
        guard let start = steps.firstIndex(where: { $0.level == common }),
            let (position, node) = resolutionPosition(
                of: keys.leafIndex, in: steps[start].copath, first: steps[start].copathFirst, excluding: added),
            position < path.nodes[start].encryptedPathSecret.count, let key = keys.key(node)
        else { throw .noPathSecretForUs }
        var secret = try suite.decrypt(
            path.nodes[start].encryptedPathSecret[position], with: key, label: "UpdatePathNode", context: context)
        guard secret.count == suite.secretLength else { throw .pathSecretMismatch }
        var keys = keys
        keys.drop(notIn: merged)
        let first = SecretBox(secret.shared())
        for (step, node) in zip(steps[start...], path.nodes[start...]) {
            let key = try suite.nodeKey(pathSecret: secret)
            guard key.publicKey == node.encryptionKey else { throw .pathKeyMismatch }
            keys.parents[step.node] = key
            secret = suite.derive(secret, "path")
        }
        return DecryptedPath(keys: keys, pathSecret: first, commitSecret: secret)
    }
}

/// The secrets that a member learns from another's path.
package struct DecryptedPath: ~Copyable {
    package let keys: TreeKeys
    /// The secret that was encrypted to the member.
    package let pathSecret: SecretBox
    package let commitSecret: Secret
}
