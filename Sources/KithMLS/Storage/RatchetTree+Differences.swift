/// The change of one node.
struct NodeDifference: Sendable {
    let node: UInt32
    /// Nil when the node is blank now.
    let content: RatchetTreeNode?
}

extension NodeDifference: TLSCodable {
    init(from reader: inout TLSReader) throws(MLSError) {
        node = try reader.integer()
        content = try reader.optional()
    }

    func encode(into writer: inout TLSWriter) {
        writer.integer(node)
        writer.optional(content)
    }
}

extension TreeNode {
    /// The same with more room to its right, or with less where nobody is in what goes.
    func resized(to level: Int) -> TreeNode {
        var node = self
        while node.level < level { node = .parent(nil, node, .blank(level: node.level)) }
        while node.level > level { node = node.children.left }
        return node
    }
}

extension RatchetTree {
    /// All nodes that are not blank, by rising number.
    var allNodes: [NodeDifference] {
        var found: [NodeDifference] = []
        Self.compare(.blank(level: root.level), root, first: 0, leavesOnly: false, into: &found)
        return found
    }

    /// The nodes whose content is another than in an older tree, by rising number; O(what differs) where the trees share
    /// the rest.
    func differences(from older: RatchetTree) -> [NodeDifference] {
        var found: [NodeDifference] = []
        let level = max(root.level, older.root.level)
        Self.compare(
            older.root.resized(to: level), root.resized(to: level), first: 0, leavesOnly: false, into: &found)
        return found
    }

    /// The leaves whose content is another than in an older tree.
    func leafDifferences(from older: RatchetTree) -> [NodeDifference] {
        var found: [NodeDifference] = []
        let level = max(root.level, older.root.level)
        Self.compare(older.root.resized(to: level), root.resized(to: level), first: 0, leavesOnly: true, into: &found)
        return found
    }

    private static func compare(
        _ old: TreeNode, _ new: TreeNode, first: UInt32, leavesOnly: Bool, into found: inout [NodeDifference]
    ) {
        guard old !== new else { return }
        if case .blank = old.content, case .blank = new.content { return }
        guard new.level > 0 else {
            if old.own != new.own { found.append(NodeDifference(node: 2 * first, content: new.own)) }
            return
        }
        let (oldChildren, newChildren) = (old.children, new.children)
        compare(oldChildren.left, newChildren.left, first: first, leavesOnly: leavesOnly, into: &found)
        if !leavesOnly, old.own != new.own {
            found.append(
                NodeDifference(node: TreeMath.ancestor(ofLeaf: first, level: new.level), content: new.own))
        }
        compare(
            oldChildren.right, newChildren.right, first: first + UInt32(new.capacity / 2), leavesOnly: leavesOnly,
            into: &found)
    }

    /// The tree with some nodes changed, which are given by rising number; shares the rest.
    ///
    /// The set of keys follows from the tree; that they are in their places is checked, not that the tree is valid:
    /// its hash tells.
    func applying(_ changes: [NodeDifference], level: Int) throws(MLSError) -> RatchetTree {
        guard level < TreeMath.maximumDepth else { throw .treeTooLarge }
        for (lower, higher) in zip(changes, changes.dropFirst()) where lower.node >= higher.node {
            throw .misplacedNode
        }
        let room = root.resized(to: max(level, root.level))
        if let last = changes.last, UInt64(last.node) >= 2 * UInt64(room.capacity) - 1 { throw .misplacedNode }
        var tree = self
        for change in changes {
            if let node = subtree(change.node)?.node.own { tree.removeKeys(of: node) }
        }
        for change in changes {
            if let node = change.content { try tree.insertKeys(of: node) }
        }
        var traits = TraitsTable()
        let patched = try Self.patch(room, first: 0, changes[...], &traits)
        guard patched.resized(to: level).memberCount == patched.memberCount else { throw .misplacedNode }
        tree.root = patched.resized(to: level)
        return tree
    }

    private static func patch(
        _ node: TreeNode, first: UInt32, _ changes: ArraySlice<NodeDifference>, _ traits: inout TraitsTable
    ) throws(MLSError) -> TreeNode {
        guard let change = changes.first else { return node }
        if let content = change.content, content.isLeaf != (change.node % 2 == 0) { throw .misplacedNode }
        guard node.level > 0 else { return .leaf(change.content.map { traits.leaf($0) }) }
        let own = TreeMath.ancestor(ofLeaf: first, level: node.level)
        let middle = changes.firstIndex { $0.node >= own } ?? changes.endIndex
        var right = changes[middle...]
        var parent = node.own
        if let change = right.first, change.node == own {
            if let content = change.content, content.isLeaf { throw .misplacedNode }
            parent = change.content
            right = right.dropFirst()
        }
        let children = node.children
        return .parent(
            parent, try patch(children.left, first: first, changes[..<middle], &traits),
            try patch(children.right, first: first + UInt32(node.capacity / 2), right, &traits))
    }

    /// Builds a tree with room for 2ᶩᵉᵛᵉˡ leaves from its nodes that are not blank.
    init(stored nodes: [NodeDifference], level: Int) throws(MLSError) {
        guard let last = nodes.map(\.node).max(), level < TreeMath.maximumDepth,
            UInt64(last) < 2 * (UInt64(1) << level) - 1
        else { throw .misplacedNode }
        var list = [RatchetTreeNode?](repeating: nil, count: Int(last) + 1)
        for node in nodes { list[Int(node.node)] = node.content }
        try self.init(RatchetTreeNodes(nodes: list))
        guard root.level == level else { throw .misplacedNode }
    }
}
