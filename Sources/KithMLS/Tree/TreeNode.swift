import Synchronization

/// A subtree that never changes: a change makes new nodes along one path and shares the rest.
///
/// A staged commit and a retained epoch therefore cost a handful of nodes, and hashes once computed stay.
final class TreeNode: Sendable {
    enum Content: Sendable {
        /// Nobody and nothing in the whole subtree.
        case blank
        case leaf(Leaf)
        case parent(ParentNode?, left: TreeNode, right: TreeNode)
    }

    /// A leaf's content, shared by all versions of the tree.
    final class Leaf: Sendable {
        let node: LeafNode
        init(_ node: LeafNode) { self.node = node }
    }

    /// How far above the leaves.
    let level: Int
    let content: Content
    /// How many leaves below are not blank.
    let memberCount: Int
    /// How many nodes the resolution has (RFC 9420 §4.1.1).
    let resolutionCount: Int
    private let cache = Mutex(Cache())

    private struct Cache {
        var hash: [UInt8]?
        var traits: TreeTraits?
    }

    private init(level: Int, content: Content, memberCount: Int, resolutionCount: Int) {
        self.level = level
        self.content = content
        self.memberCount = memberCount
        self.resolutionCount = resolutionCount
    }

    static func blank(level: Int) -> TreeNode {
        TreeNode(level: level, content: .blank, memberCount: 0, resolutionCount: 0)
    }

    static func leaf(_ leaf: Leaf?) -> TreeNode {
        guard let leaf else { return blank(level: 0) }
        return TreeNode(level: 0, content: .leaf(leaf), memberCount: 1, resolutionCount: 1)
    }

    static func parent(_ parent: ParentNode?, _ left: TreeNode, _ right: TreeNode) -> TreeNode {
        let level = left.level + 1
        if parent == nil, case .blank = left.content, case .blank = right.content { return blank(level: level) }
        return TreeNode(
            level: level, content: .parent(parent, left: left, right: right),
            memberCount: left.memberCount + right.memberCount,
            resolutionCount: parent.map { 1 + $0.unmergedLeaves.count }
                ?? left.resolutionCount + right.resolutionCount)
    }

    /// How many leaves fit below.
    var capacity: Int { 1 << level }

    /// Both halves; those of a blank subtree are blank.
    var children: (left: TreeNode, right: TreeNode) {
        if case .parent(_, let left, let right) = content { return (left, right) }
        let half = TreeNode.blank(level: level - 1)
        return (half, half)
    }

    /// The node's own content, if it is a parent and not blank.
    var parentNode: ParentNode? {
        if case .parent(let parent, _, _) = content { return parent }
        return nil
    }

    /// The leaf's content, if it is a leaf and not blank.
    var leafNode: LeafNode? {
        if case .leaf(let leaf) = content { return leaf.node }
        return nil
    }

    /// The key that reaches everybody who holds this node, if it is not blank.
    var encryptionKey: HPKEPublicKey? {
        switch content {
        case .blank: nil
        case .leaf(let leaf): leaf.node.encryptionKey
        case .parent(let parent, _, _): parent?.encryptionKey
        }
    }

    /// Whether the node itself is blank.
    var isBlank: Bool { encryptionKey == nil }

    /// What all members below have in common.
    var traits: TreeTraits? {
        switch content {
        case .blank: return nil
        case .leaf(let leaf): return TreeTraits(leaf.node)
        case .parent(_, let left, let right):
            if let known = cache.withLock({ $0.traits }) { return known }
            let combined = TreeTraits.combine(left.traits, right.traits)
            cache.withLock { $0.traits = combined }
            return combined
        }
    }
}

// Hashes.
extension TreeNode {
    /// The tree hash (RFC 9420 §7.8) of the subtree whose first leaf is at `first`.
    func hash(_ suite: any CipherSuite, first: UInt32) -> [UInt8] {
        if let known = cache.withLock({ $0.hash }) { return known }
        let half = UInt32(capacity / 2)
        let hash: [UInt8] =
            switch content {
            case .blank: Self.blankHash(suite, level: level, first: first)
            case .leaf(let leaf): Self.leafHash(suite, leaf.node, index: first)
            case .parent(let parent, let left, let right):
                Self.parentHash(
                    suite, parent, left.hash(suite, first: first), right.hash(suite, first: first + half))
            }
        cache.withLock { $0.hash = hash }
        return hash
    }

    /// The tree hash as it would be without some leaves, in rising order (`original_sibling_tree_hash`, §7.9).
    func hash(_ suite: any CipherSuite, first: UInt32, without leaves: ArraySlice<UInt32>) -> [UInt8] {
        guard !leaves.isEmpty else { return hash(suite, first: first) }
        guard case .parent(var parent, let left, let right) = content else {
            return Self.blankHash(suite, level: level, first: first)
        }
        parent?.unmergedLeaves.removeAll { leaves.containsSorted($0) }
        let middle = first + UInt32(capacity / 2)
        let split = leaves.lowerBound(middle)
        return Self.parentHash(
            suite, parent, left.hash(suite, first: first, without: leaves[..<split]),
            right.hash(suite, first: middle, without: leaves[split...]))
    }

    private static func leafHash(_ suite: any CipherSuite, _ leaf: LeafNode?, index: UInt32) -> [UInt8] {
        var input = TLSWriter(capacity: 400)
        input.integer(1 as UInt8)
        input.integer(index)
        input.optional(leaf)
        return suite.hash(input.bytes)
    }

    private static func parentHash(
        _ suite: any CipherSuite, _ parent: ParentNode?, _ left: [UInt8], _ right: [UInt8]
    ) -> [UInt8] {
        var input = TLSWriter(capacity: 300)
        input.integer(2 as UInt8)
        input.optional(parent)
        input.opaque(left)
        input.opaque(right)
        return suite.hash(input.bytes)
    }

    private static func blankHash(_ suite: any CipherSuite, level: Int, first: UInt32) -> [UInt8] {
        guard level > 0 else { return leafHash(suite, nil, index: first) }
        let half = UInt32(1) << (level - 1)
        return parentHash(
            suite, nil, blankHash(suite, level: level - 1, first: first),
            blankHash(suite, level: level - 1, first: first + half))
    }
}
