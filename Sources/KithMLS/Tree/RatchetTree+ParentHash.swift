extension RatchetTree {
    /// The hash of `ParentHashInput` (§7.9).
    static func parentHash(
        _ suite: any CipherSuite, key: HPKEPublicKey, above: [UInt8], sibling: [UInt8]
    ) -> [UInt8] {
        var input = TLSWriter(capacity: key.count + above.count + sibling.count + 8)
        input.opaque(key)
        input.opaque(above)
        input.opaque(sibling)
        return suite.hash(input.bytes)
    }

    /// The parent nodes of a path with fresh keys, and the parent hash for the leaf below them (§7.9).
    static func parents(
        _ suite: any CipherSuite, steps: [PathStep], keys: [HPKEPublicKey]
    ) -> (nodes: [(level: Int, node: ParentNode)], leafParentHash: [UInt8]) {
        var nodes: [(level: Int, node: ParentNode)] = []
        var above: [UInt8] = []
        for (step, key) in zip(steps, keys).reversed() {
            nodes.append((step.level, ParentNode(encryptionKey: key, parentHash: above, unmergedLeaves: [])))
            above = parentHash(
                suite, key: key, above: above, sibling: step.copath.hash(suite, first: step.copathFirst))
        }
        return (nodes, above)
    }

    /// Checks that every parent node was set together with exactly one node below it, and has a key (§7.9.2).
    package func checkParentHashes(_ suite: any CipherSuite) throws(MLSError) {
        try checkParentHashes(suite, root, first: 0)
    }

    private func checkParentHashes(_ suite: any CipherSuite, _ node: TreeNode, first: UInt32) throws(MLSError) {
        guard case .parent(let parent, let left, let right) = node.content else { return }
        let middle = first + UInt32(node.capacity / 2)
        try checkParentHashes(suite, left, first: first)
        try checkParentHashes(suite, right, first: middle)
        guard let parent else { return }
        guard suite.isValidHPKEKey(parent.encryptionKey) else { throw .invalidPublicKey }
        let whole = first..<first + UInt32(node.capacity)
        let fromLeft = isSet(
            suite, parent, below: left, range: first..<middle, beside: right, range: middle..<whole.upperBound)
        let fromRight = isSet(
            suite, parent, below: right, range: middle..<whole.upperBound, beside: left, range: first..<middle)
        guard fromLeft != fromRight else { throw .invalidParentHash }
    }

    /// Tells whether a node below `child` was set together with `parent`.
    private func isSet(
        _ suite: any CipherSuite, _ parent: RatchetTreeNode, below child: TreeNode, range: Range<UInt32>,
        beside sibling: TreeNode, range siblingRange: Range<UInt32>
    ) -> Bool {
        // The resolution of the child must be the node itself and the parent's unmerged leaves there.
        let leaves = Array(parent.unmergedLeaves)
        let unmerged = leaves.within(range)
        guard child.resolutionCount == unmerged.count + 1 else { return false }
        var descendant: UInt32?
        var expected = unmerged
        var matches = true
        visitResolution(child, first: range.lowerBound) { index, _ in
            if index % 2 == 0, let next = expected.first, index == 2 * next {
                expected.removeFirst()
            } else if descendant == nil {
                descendant = index
            } else {
                matches = false
            }
        }
        guard matches, expected.isEmpty, let descendant, let hash = subtree(descendant)?.node.own?.parentHash
        else { return false }
        let original = sibling.hash(
            suite, first: siblingRange.lowerBound, without: leaves.within(siblingRange))
        return hash
            == Self.parentHash(
                suite, key: parent.encryptionKey, above: parent.parentHash ?? [], sibling: original)
    }
}
