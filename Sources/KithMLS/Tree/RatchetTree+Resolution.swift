extension RatchetTree {
    /// The nodes whose keys together reach everybody below a node (§4.1.1).
    package func resolution(_ node: UInt32) -> [UInt32] {
        guard let (subtree, first) = subtree(node) else { return [] }
        var found: [UInt32] = []
        visitResolution(subtree, first: first) { index, _ in found.append(index) }
        return found
    }

    /// Calls `body` with each node of a subtree's resolution and its key.
    func visitResolution(_ node: TreeNode, first: UInt32, _ body: (UInt32, HPKEPublicKey) -> Void) {
        switch node.content {
        case .blank: break
        case .leaf(let leaf): body(2 * first, leaf.node.encryptionKey)
        case .parent(nil, let left, let right):
            visitResolution(left, first: first, body)
            visitResolution(right, first: first + UInt32(node.capacity / 2), body)
        case .parent(let parent?, _, _):
            body(TreeMath.ancestor(ofLeaf: first, level: node.level), parent.encryptionKey)
            for leaf in parent.unmergedLeaves {
                if let key = leafContent(leaf)?.node.encryptionKey { body(2 * leaf, key) }
            }
        }
    }

    /// The position, in a subtree's resolution without the leaves of `excluded`, of the node through which a member
    /// below the subtree is reached; O(depth).
    func resolutionPosition(
        of leaf: UInt32, in subtree: TreeNode, first: UInt32, excluding excluded: [UInt32]
    ) -> (position: Int, node: UInt32)? {
        var node = subtree
        var first = first
        var position = 0
        while true {
            switch node.content {
            case .blank: return nil
            case .leaf: return (position, 2 * first)
            case .parent(let parent?, _, _):
                let unmerged = parent.unmergedLeaves
                let index = unmerged.lowerBound(leaf)
                guard index < unmerged.count, unmerged[index] == leaf else {
                    return (position, TreeMath.ancestor(ofLeaf: first, level: node.level))
                }
                let before = unmerged[..<index].count { !excluded.containsSorted($0) }
                return (position + 1 + before, 2 * leaf)
            case .parent(nil, let left, let right):
                let middle = first + UInt32(node.capacity / 2)
                if leaf < middle {
                    node = left
                } else {
                    position += left.resolutionCount - excluded.within(first..<middle).count
                    node = right
                    first = middle
                }
            }
        }
    }

    /// One node of a leaf's filtered direct path, with the subtree beside the path.
    struct PathStep {
        let level: Int
        let node: UInt32
        let copath: TreeNode
        let copathFirst: UInt32
    }

    /// A leaf's direct path without the nodes whose other child reaches nobody, from the leaf up (§4.1.2).
    func filteredDirectPath(_ leaf: UInt32) -> [PathStep] {
        var steps: [PathStep] = []
        var current = root
        var first: UInt32 = 0
        while current.level > 0 {
            let (left, right) = current.children
            let middle = first + UInt32(left.capacity)
            let isLeft = leaf < middle
            let copath = isLeft ? right : left
            if copath.resolutionCount > 0 {
                steps.append(
                    PathStep(
                        level: current.level, node: TreeMath.ancestor(ofLeaf: first, level: current.level),
                        copath: copath, copathFirst: isLeft ? middle : first))
            }
            current = isLeft ? left : right
            if !isLeft { first = middle }
        }
        return steps.reversed()
    }
}
