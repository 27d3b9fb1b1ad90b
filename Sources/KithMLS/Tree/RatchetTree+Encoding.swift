/// The nodes of a tree from left to right, without the blank ones at the end (RFC 9420 §12.4.3.3).
package struct RatchetTreeNodes: Hashable, TLSCodable {
    package var nodes: [RatchetTreeNode?]

    package init(nodes: [RatchetTreeNode?]) { self.nodes = nodes }

    package init(from reader: inout TLSReader) throws(MLSError) {
        var inner = try reader.vector()
        nodes = []
        while !inner.isAtEnd { nodes.append(try inner.optional()) }
    }

    /// The key that the member at a leaf signs with.
    func signatureKey(_ leaf: UInt32) -> SignaturePublicKey? {
        guard 2 * Int(leaf) < nodes.count, let node = nodes[2 * Int(leaf)], node.isLeaf else { return nil }
        return node.signatureKey
    }

    package func encode(into writer: inout TLSWriter) {
        writer.vector { writer in
            for node in nodes { writer.optional(node) }
        }
    }
}

extension RatchetTree {
    /// Builds a tree from its nodes and checks its shape: kinds in their places, no blank end, no key twice, unmerged
    /// leaves where they belong (§12.4.3.1, §12.4.3.3).
    package init(_ list: RatchetTreeNodes) throws(MLSError) {
        let nodes = list.nodes
        guard let last = nodes.last, last != nil else { throw .blankTreeEnd }
        let leaves = UInt64(nodes.count / 2 + 1)
        var depth = 0
        while UInt64(1) << depth < leaves { depth += 1 }
        guard depth < TreeMath.maximumDepth else { throw .treeTooLarge }
        var traits = TraitsTable()
        root = try Self.build(nodes, depth: depth, first: 0, &traits)
        for case let node? in nodes { try insertKeys(of: node) }
        try Self.checkUnmergedLeaves(root, first: 0, above: [])
    }

    /// Reads the content of a `ratchet_tree` extension.
    public init(_ bytes: [UInt8]) throws(MLSError) { try self.init(RatchetTreeNodes(decoding: bytes)) }

    private static func build(
        _ nodes: [RatchetTreeNode?], depth: Int, first: UInt32, _ traits: inout TraitsTable
    ) throws(MLSError) -> TreeNode {
        guard 2 * Int(first) < nodes.count else { return .blank(level: depth) }
        let index = Int(TreeMath.ancestor(ofLeaf: first, level: depth))
        let node = index < nodes.count ? nodes[index] : nil
        if let node, node.isLeaf != (depth == 0) { throw .misplacedNode }
        guard depth > 0 else { return .leaf(node.map { traits.leaf($0) }) }
        return .parent(
            node, try build(nodes, depth: depth - 1, first: first, &traits),
            try build(nodes, depth: depth - 1, first: first + 1 << (depth - 1), &traits))
    }

    /// Checks that unmerged leaves are members below the node, and unmerged at every node between (§12.4.3.1).
    ///
    /// `above` are the unmerged leaves of all nodes above that lie in this subtree.
    private static func checkUnmergedLeaves(
        _ node: TreeNode, first: UInt32, above: [UInt32]
    ) throws(MLSError) {
        switch node.content {
        case .blank: guard above.isEmpty else { throw .invalidUnmergedLeaves }
        case .leaf: break
        case .parent(let parent, let left, let right):
            var expected = above
            if let parent {
                let range = first..<first + UInt32(node.capacity)
                let unmerged = parent.unmergedLeaves
                guard unmerged.within(range).count == unmerged.count else { throw .invalidUnmergedLeaves }
                guard above.allSatisfy({ unmerged.containsSorted($0) }) else { throw .invalidUnmergedLeaves }
                expected = Array(unmerged)
            }
            let middle = first + UInt32(node.capacity / 2)
            let split = expected.lowerBound(middle)
            try checkUnmergedLeaves(left, first: first, above: Array(expected[..<split]))
            try checkUnmergedLeaves(right, first: middle, above: Array(expected[split...]))
        }
    }

    /// The tree's nodes, as the `ratchet_tree` extension has them.
    package var nodes: RatchetTreeNodes {
        var nodes: [RatchetTreeNode?] = []
        nodes.reserveCapacity(2 * root.capacity - 1)
        Self.list(root, into: &nodes)
        while let last = nodes.last, last == nil { nodes.removeLast() }
        return RatchetTreeNodes(nodes: nodes)
    }

    /// The content of a `ratchet_tree` extension.
    public var bytes: [UInt8] { nodes.encoded }

    private static func list(_ node: TreeNode, into nodes: inout [RatchetTreeNode?]) {
        switch node.content {
        case .blank: for _ in 0..<2 * node.capacity - 1 { nodes.append(nil) }
        case .leaf(let leaf): nodes.append(leaf.node)
        case .parent(let parent, let left, let right):
            list(left, into: &nodes)
            nodes.append(parent)
            list(right, into: &nodes)
        }
    }
}
