import Synchronization

/// A subtree that never changes: a change makes new nodes along one path and shares the rest.
///
/// A staged commit and a retained epoch therefore cost a handful of nodes, and hashes once computed stay.
final class TreeNode: Sendable {
    enum Content: Sendable {
        /// Nobody and nothing in the whole subtree.
        case blank
        case leaf(Leaf)
        case parent(RatchetTreeNode?, left: TreeNode, right: TreeNode)
    }

    /// A member's node, and what it supports.
    struct Leaf: Sendable {
        let node: RatchetTreeNode
        let traits: TreeTraits

        init(_ node: RatchetTreeNode, _ traits: TreeTraits) {
            self.node = node
            self.traits = traits
        }

        init(_ leaf: LeafNode) { self.init(.leaf(leaf), TreeTraits(leaf)) }
    }

    // There are a hundred thousand of these in a group of 50,000: the order leaves no gaps, and counts are short.
    let content: Content
    private let cache = Mutex(Cache())
    private let members: UInt32
    private let resolution: UInt32
    private let height: UInt8

    /// The distance from the leaves.
    var level: Int { Int(height) }
    /// The number of leaves below that are not blank.
    var memberCount: Int { Int(members) }
    /// The number of nodes in its resolution (RFC 9420 §4.1.1).
    var resolutionCount: Int { Int(resolution) }

    private struct Cache {
        var traits: TreeTraits?
        var hash = KeptHash.none
    }

    private init(level: Int, content: Content, memberCount: Int, resolutionCount: Int) {
        self.content = content
        members = UInt32(memberCount)
        resolution = UInt32(resolutionCount)
        height = UInt8(level)
    }

    static func blank(level: Int) -> TreeNode {
        TreeNode(level: level, content: .blank, memberCount: 0, resolutionCount: 0)
    }

    static func leaf(_ leaf: Leaf?) -> TreeNode {
        guard let leaf else { return blank(level: 0) }
        return TreeNode(level: 0, content: .leaf(leaf), memberCount: 1, resolutionCount: 1)
    }

    static func parent(_ parent: RatchetTreeNode?, _ left: TreeNode, _ right: TreeNode) -> TreeNode {
        let level = left.level + 1
        if parent == nil, case .blank = left.content, case .blank = right.content { return blank(level: level) }
        return TreeNode(
            level: level, content: .parent(parent, left: left, right: right),
            memberCount: left.memberCount + right.memberCount,
            resolutionCount: parent.map { 1 + $0.unmergedLeaves.count }
                ?? left.resolutionCount + right.resolutionCount)
    }

    /// The number of leaves that fit below.
    var capacity: Int { 1 << level }

    /// Both halves; those of a blank subtree are blank.
    var children: (left: TreeNode, right: TreeNode) {
        if case .parent(_, let left, let right) = content { return (left, right) }
        let half = TreeNode.blank(level: level - 1)
        return (half, half)
    }

    /// The node's own content, unless it is blank.
    var own: RatchetTreeNode? {
        switch content {
        case .blank: nil
        case .leaf(let leaf): leaf.node
        case .parent(let parent, _, _): parent
        }
    }

    /// The key that reaches everybody who holds this node, if it is not blank.
    var encryptionKey: HPKEPublicKey? { own?.encryptionKey }

    /// True when the node itself is blank.
    var isBlank: Bool { own == nil }

    /// The features that all members below have in common.
    var traits: TreeTraits? {
        switch content {
        case .blank: return nil
        case .leaf(let leaf): return leaf.traits
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
        if let known = cache.withLock({ $0.hash }).bytes { return known }
        let half = UInt32(capacity / 2)
        let hash: [UInt8] =
            switch content {
            case .blank: Self.blankHash(suite, level: level, first: first)
            case .leaf(let leaf): Self.leafHash(suite, leaf.node, index: first)
            case .parent(let parent, let left, let right):
                Self.parentHash(
                    suite, parent, left.hash(suite, first: first), right.hash(suite, first: first + half))
            }
        cache.withLock { $0.hash = KeptHash(hash) }
        return hash
    }

    /// The tree hash as it would be without some leaves, in rising order (`original_sibling_tree_hash`, §7.9).
    func hash(_ suite: any CipherSuite, first: UInt32, without leaves: ArraySlice<UInt32>) -> [UInt8] {
        guard !leaves.isEmpty else { return hash(suite, first: first) }
        guard case .parent(let own, let left, let right) = content else {
            return Self.blankHash(suite, level: level, first: first)
        }
        var parent = own?.parent
        parent?.unmergedLeaves.removeAll { leaves.containsSorted($0) }
        let middle = first + UInt32(capacity / 2)
        let split = leaves.lowerBound(middle)
        return Self.parentHash(
            suite, parent.map { .parent($0) }, left.hash(suite, first: first, without: leaves[..<split]),
            right.hash(suite, first: middle, without: leaves[split...]))
    }

    private static func leafHash(_ suite: any CipherSuite, _ leaf: RatchetTreeNode?, index: UInt32) -> [UInt8] {
        var input = TLSWriter(capacity: 6 + (leaf?.bytes.count ?? 0))
        input.integer(1 as UInt8)
        input.integer(index)
        input.optional(content: leaf)
        return suite.hash(input.bytes)
    }

    private static func parentHash(
        _ suite: any CipherSuite, _ parent: RatchetTreeNode?, _ left: [UInt8], _ right: [UInt8]
    ) -> [UInt8] {
        var input = TLSWriter(capacity: 8 + (parent?.bytes.count ?? 0) + left.count + right.count)
        input.integer(2 as UInt8)
        input.optional(content: parent)
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

    /// A hash that a node keeps: one of 32 bytes in its place, a longer one in an array.
    private enum KeptHash: Sendable {
        case none
        case short(UInt64, UInt64, UInt64, UInt64)
        case long([UInt8])

        init(_ hash: [UInt8]) {
            guard hash.count == 32 else {
                self = .long(hash)
                return
            }
            func word(_ index: Int) -> UInt64 { hash[8 * index..<8 * index + 8].reduce(0) { $0 << 8 | UInt64($1) } }
            self = .short(word(0), word(1), word(2), word(3))
        }

        var bytes: [UInt8]? {
            switch self {
            case .none: return nil
            case .short(let first, let second, let third, let fourth):
                var writer = TLSWriter(capacity: 32)
                for word in [first, second, third, fourth] { writer.integer(word) }
                return writer.bytes
            case .long(let hash): return hash
            }
        }
    }
}

extension TLSWriter {
    /// Writes an optional `LeafNode` or `ParentNode` (RFC 9420 §7.8), whose type stands elsewhere.
    fileprivate mutating func optional(content node: RatchetTreeNode?) {
        integer(UInt8(node == nil ? 0 : 1))
        if let node { fixed(node.content) }
    }
}
