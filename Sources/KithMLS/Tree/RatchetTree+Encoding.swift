/// A node as the `ratchet_tree` extension has it (RFC 9420 §12.4.3.3).
package indirect enum RatchetTreeNode: Hashable, TLSCodable {
    case leaf(LeafNode)
    case parent(ParentNode)

    package init(from reader: inout TLSReader) throws(MLSError) {
        self =
            switch try reader.integer(as: UInt8.self) {
            case 1: .leaf(try LeafNode(from: &reader))
            case 2: .parent(try ParentNode(from: &reader))
            default: throw .invalidNodeType
            }
    }

    package func encode(into writer: inout TLSWriter) {
        switch self {
        case .leaf(let leaf):
            writer.integer(1 as UInt8)
            leaf.encode(into: &writer)
        case .parent(let parent):
            writer.integer(2 as UInt8)
            parent.encode(into: &writer)
        }
    }
}

/// The nodes of a tree from left to right, without the blank ones at the end (RFC 9420 §12.4.3.3).
package struct RatchetTreeNodes: Hashable, TLSCodable {
    package var nodes: [RatchetTreeNode?]

    package init(nodes: [RatchetTreeNode?]) { self.nodes = nodes }

    package init(from reader: inout TLSReader) throws(MLSError) {
        var inner = try reader.vector()
        nodes = []
        // Most members support the same, and a tree of thousands need not hold it thousands of times.
        var common: Capabilities?
        while !inner.isAtEnd {
            var node: RatchetTreeNode? = try inner.optional()
            if case .leaf(var leaf)? = node {
                if let common, leaf.capabilities == common {
                    leaf.capabilities = common
                    node = .leaf(leaf)
                } else {
                    common = leaf.capabilities
                }
            }
            nodes.append(node)
        }
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
        root = try Self.build(nodes, depth: depth, first: 0)
        for node in nodes {
            switch node {
            case .leaf(let leaf)?: try insertKeys(of: leaf)
            case .parent(let parent)?:
                guard encryptionKeys.insert(parent.encryptionKey) else { throw .duplicateEncryptionKey }
            case nil: break
            }
        }
        try Self.checkUnmergedLeaves(root, first: 0, above: [])
    }

    /// Reads the content of a `ratchet_tree` extension.
    public init(_ bytes: [UInt8]) throws(MLSError) { try self.init(RatchetTreeNodes(decoding: bytes)) }

    private static func build(_ nodes: [RatchetTreeNode?], depth: Int, first: UInt32) throws(MLSError) -> TreeNode {
        guard 2 * Int(first) < nodes.count else { return .blank(level: depth) }
        let index = Int(TreeMath.ancestor(ofLeaf: first, level: depth))
        let node = index < nodes.count ? nodes[index] : nil
        guard depth > 0 else {
            switch node {
            case .leaf(let leaf)?: return .leaf(TreeNode.Leaf(leaf))
            case .parent?: throw .misplacedNode
            case nil: return .leaf(nil)
            }
        }
        var parent: ParentNode?
        switch node {
        case .parent(let content)?: parent = content
        case .leaf?: throw .misplacedNode
        case nil: break
        }
        return .parent(
            parent, try build(nodes, depth: depth - 1, first: first),
            try build(nodes, depth: depth - 1, first: first + 1 << (depth - 1)))
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
                guard parent.unmergedLeaves.within(range).count == parent.unmergedLeaves.count else {
                    throw .invalidUnmergedLeaves
                }
                guard above.allSatisfy({ parent.unmergedLeaves.containsSorted($0) }) else {
                    throw .invalidUnmergedLeaves
                }
                expected = parent.unmergedLeaves
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
        case .leaf(let leaf): nodes.append(.leaf(leaf.node))
        case .parent(let parent, let left, let right):
            list(left, into: &nodes)
            nodes.append(parent.map { .parent($0) })
            list(right, into: &nodes)
        }
    }
}
