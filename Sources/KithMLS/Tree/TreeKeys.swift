/// The private keys that one member holds of a tree: its leaf's, and those of nodes above it (RFC 9420 §4.2).
///
/// A key is cleared when the last epoch that needs it is gone.
package struct TreeKeys: Sendable {
    package let leafIndex: UInt32
    package var leaf: HPKEPrivateKey
    /// The keys of nodes above the leaf, by node.
    package var parents: [UInt32: HPKEPrivateKey] = [:]

    package init(leafIndex: UInt32, leaf: HPKEPrivateKey) {
        self.leafIndex = leafIndex
        self.leaf = leaf
    }

    func key(_ node: UInt32) -> HPKEPrivateKey? { node == 2 * leafIndex ? leaf : parents[node] }

    /// Drops the keys of nodes that a change made blank or set anew (§7.5).
    mutating func drop(notIn tree: RatchetTree) {
        parents = parents.filter { tree.subtree($0.key)?.node.encryptionKey == $0.value.publicKey }
    }

    /// Checks that every key belongs to a node of the tree that is not blank (§12.4.3.1).
    package func check(in tree: RatchetTree) throws(MLSError) {
        guard tree.leafContent(leafIndex)?.node.encryptionKey == leaf.publicKey else { throw .privateKeyMismatch }
        for (node, key) in parents where tree.subtree(node)?.node.encryptionKey != key.publicKey {
            throw .privateKeyMismatch
        }
    }

    /// Sets the keys that follow from the path secret of the node at `level` above this leaf, up to the root.
    package mutating func set(
        _ suite: any CipherSuite, pathSecret: borrowing Secret, level: Int, in tree: RatchetTree, sender: UInt32
    ) throws(MLSError) {
        var secret = pathSecret.shared()
        for step in tree.filteredDirectPath(sender) where step.level >= level {
            let key = try suite.nodeKey(pathSecret: secret)
            guard tree.subtree(step.node)?.node.encryptionKey == key.publicKey else { throw .pathSecretMismatch }
            parents[step.node] = key
            secret = suite.derive(secret, "path")
        }
    }
}

extension CipherSuite {
    /// The key pair of a node whose path secret is known (§7.4).
    package func nodeKey(pathSecret: borrowing Secret) throws(MLSError) -> HPKEPrivateKey {
        try deriveHPKEKey(derive(pathSecret, "node"))
    }
}
