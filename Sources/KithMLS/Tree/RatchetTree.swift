/// The public state of a group's members: leaves for members, keys for the nodes above them (RFC 9420 §7).
///
/// A value whose copies share everything they have in common: a copy costs a few references, a change of one leaf the
/// nodes above it.
public struct RatchetTree: Sendable {
    var root: TreeNode
    /// The encryption keys of all nodes.
    var encryptionKeys = KeySet()
    /// The signature keys of all leaves.
    private(set) var signatureKeys = KeySet()

    /// The tree of a group with one member.
    package init(_ leaf: LeafNode) {
        root = .leaf(TreeNode.Leaf(leaf))
        _ = encryptionKeys.insert(leaf.encryptionKey)
        _ = signatureKeys.insert(leaf.signatureKey)
    }

    /// The number of leaves the tree has room for: a power of two.
    package var leafCapacity: UInt32 { UInt32(root.capacity) }
    /// The number of members.
    public var memberCount: Int { root.memberCount }
    /// The features that all members have in common.
    var traits: TreeTraits? { root.traits }

    /// The tree hash of the whole tree (§7.8).
    package func hash(_ suite: any CipherSuite) -> [UInt8] { root.hash(suite, first: 0) }

    /// The tree hash of the subtree at a node (§7.8).
    package func hash(_ suite: any CipherSuite, node: UInt32) -> [UInt8]? {
        guard let (subtree, first) = subtree(node) else { return nil }
        return subtree.hash(suite, first: first)
    }

    /// The subtree at a node, and its first leaf.
    func subtree(_ node: UInt32) -> (node: TreeNode, first: UInt32)? {
        let level = TreeMath.level(node)
        guard level <= root.level else { return nil }
        let first = (node + 1 - (1 << level)) / 2
        guard first < leafCapacity else { return nil }
        var current = root
        while current.level > level {
            let children = current.children
            current = first >> (current.level - 1) & 1 == 0 ? children.left : children.right
        }
        return (current, first)
    }

    /// The member at a leaf.
    public func leaf(_ index: UInt32) -> LeafNode? { leafContent(index)?.node.leaf }

    /// The key a member signs with.
    func signatureKey(_ index: UInt32) -> SignaturePublicKey? { leafContent(index)?.node.signatureKey }

    /// Tells whether a leaf has a member.
    func hasMember(_ index: UInt32) -> Bool { leafContent(index) != nil }

    /// The content of a leaf; `nil` when it is blank.
    func leafContent(_ index: UInt32) -> TreeNode.Leaf? {
        guard index < leafCapacity else { return nil }
        var current = root
        while case .parent(_, let left, let right) = current.content {
            current = index >> (current.level - 1) & 1 == 0 ? left : right
        }
        if case .leaf(let leaf) = current.content { return leaf }
        return nil
    }

    /// The members, from the left.
    public var members: [(index: UInt32, leaf: LeafNode)] {
        var found: [(UInt32, LeafNode)] = []
        found.reserveCapacity(memberCount)
        Self.visitLeaves(root, first: 0) { index, node in
            if let leaf = node.leaf { found.append((index, leaf)) }
        }
        return found
    }

    /// The members from the left, as the tree keeps them.
    var memberNodes: [(index: UInt32, node: RatchetTreeNode)] {
        var found: [(UInt32, RatchetTreeNode)] = []
        found.reserveCapacity(memberCount)
        Self.visitLeaves(root, first: 0) { found.append(($0, $1)) }
        return found
    }

    private static func visitLeaves(_ node: TreeNode, first: UInt32, _ body: (UInt32, RatchetTreeNode) -> Void) {
        switch node.content {
        case .blank: break
        case .leaf(let leaf): body(first, leaf.node)
        case .parent(_, let left, let right):
            visitLeaves(left, first: first, body)
            visitLeaves(right, first: first + UInt32(node.capacity / 2), body)
        }
    }

    /// The leftmost leaf without a member, which may be the first beyond the tree.
    var firstBlankLeaf: UInt32 {
        var current = root
        var first: UInt32 = 0
        guard current.memberCount < current.capacity else { return leafCapacity }
        while case .parent(_, let left, let right) = current.content {
            if left.memberCount < left.capacity {
                current = left
            } else {
                first += UInt32(left.capacity)
                current = right
            }
        }
        return first
    }
}

// Changes (§12.1).
extension RatchetTree {
    /// Rebuilds the nodes from the root to a leaf; `parent` decides what becomes of each parent node on the way.
    private static func rebuild(
        _ node: TreeNode, first: UInt32, index: UInt32, leaf: TreeNode.Leaf?,
        parent: (RatchetTreeNode?, _ level: Int) -> RatchetTreeNode?
    ) -> TreeNode {
        guard node.level > 0 else { return .leaf(leaf) }
        let middle = first + UInt32(node.capacity / 2)
        let children = node.children
        let own = parent(node.own, node.level)
        if index < middle {
            return .parent(
                own, rebuild(children.left, first: first, index: index, leaf: leaf, parent: parent), children.right)
        }
        return .parent(
            own, children.left, rebuild(children.right, first: middle, index: index, leaf: leaf, parent: parent))
    }

    /// Puts a new member into the leftmost blank leaf, making room when there is none (§12.1.1).
    ///
    /// - Throws: ``MLSError/duplicateEncryptionKey`` or ``MLSError/duplicateSignatureKey``.
    package mutating func add(_ leaf: LeafNode) throws(MLSError) -> UInt32 {
        let index = firstBlankLeaf
        if index == leafCapacity {
            guard root.level < TreeMath.maximumDepth - 1 else { throw .treeTooLarge }
            root = .parent(nil, root, .blank(level: root.level))
        }
        try insertKeys(of: leaf)
        let content = kept(leaf, replacing: nil)
        root = Self.rebuild(root, first: 0, index: index, leaf: content) { node, _ in node?.adding(unmerged: index) }
        return index
    }

    /// Replaces a member's leaf and blanks the nodes above it (§12.1.2).
    package mutating func update(_ index: UInt32, _ leaf: LeafNode) throws(MLSError) {
        try replace(index, with: leaf)
    }

    /// Takes a member out, blanks the nodes above and gives up room nobody needs (§12.1.3).
    package mutating func remove(_ index: UInt32) throws(MLSError) {
        try replace(index, with: nil)
        while case .parent(_, let left, let right) = root.content, right.memberCount == 0 {
            if let key = root.encryptionKey { encryptionKeys.remove(key) }
            root = left
        }
        // Blank from end to end, and its right half could not be told from an empty one (§7.7).
        if root.memberCount == 0 { root = .blank(level: 0) }
    }

    private mutating func replace(_ index: UInt32, with leaf: LeafNode?) throws(MLSError) {
        guard let old = leafContent(index) else { throw .blankLeaf }
        removeKeys(of: old.node)
        if let leaf { try insertKeys(of: leaf) }
        let content = leaf.map { kept($0, replacing: old) }
        var blanked: [HPKEPublicKey] = []
        root = Self.rebuild(root, first: 0, index: index, leaf: content) { node, _ in
            if let node { blanked.append(node.encryptionKey) }
            return nil
        }
        for key in blanked { encryptionKeys.remove(key) }
    }

    /// A leaf as the tree keeps it; what it supports it shares with its predecessor or with everybody.
    private func kept(_ leaf: LeafNode, replacing old: TreeNode.Leaf?) -> TreeNode.Leaf {
        TreeNode.Leaf(.leaf(leaf), TreeTraits(leaf).shared(with: old?.traits, root.traits))
    }

    private mutating func insertKeys(of leaf: LeafNode) throws(MLSError) {
        try leaf.credential.checkReadable()
        try insertKeys(encryption: leaf.encryptionKey, signature: leaf.signatureKey)
    }

    private mutating func insertKeys(
        encryption: HPKEPublicKey, signature: SignaturePublicKey
    ) throws(MLSError) {
        guard encryptionKeys.insert(encryption) else { throw .duplicateEncryptionKey }
        guard signatureKeys.insert(signature) else {
            encryptionKeys.remove(encryption)
            throw .duplicateSignatureKey
        }
    }

    mutating func insertKeys(of node: RatchetTreeNode) throws(MLSError) {
        if node.isLeaf {
            try insertKeys(encryption: node.encryptionKey, signature: node.signatureKey)
        } else {
            guard encryptionKeys.insert(node.encryptionKey) else { throw .duplicateEncryptionKey }
        }
    }

    mutating func removeKeys(of node: RatchetTreeNode) {
        encryptionKeys.remove(node.encryptionKey)
        if node.isLeaf { signatureKeys.remove(node.signatureKey) }
    }

    /// Sets the nodes of a committer's path, whose other nodes become blank (§7.5).
    mutating func merge(_ index: UInt32, _ leaf: LeafNode, _ path: [(level: Int, node: ParentNode)]) throws(MLSError) {
        let old = leafContent(index)
        if let old { removeKeys(of: old.node) }
        try insertKeys(of: leaf)
        let content = kept(leaf, replacing: old)
        var blanked: [HPKEPublicKey] = []
        root = Self.rebuild(root, first: 0, index: index, leaf: content) { node, level in
            if let node { blanked.append(node.encryptionKey) }
            return path.first { $0.level == level }.map { .parent($0.node) }
        }
        for key in blanked { encryptionKeys.remove(key) }
        for step in path {
            guard encryptionKeys.insert(step.node.encryptionKey) else { throw .duplicateEncryptionKey }
        }
    }

    /// Makes room for a leaf that a joiner will fill by its path; gives the leaf (§12.4.3.2).
    mutating func reserveLeaf() throws(MLSError) -> UInt32 {
        let index = firstBlankLeaf
        if index == leafCapacity {
            guard root.level < TreeMath.maximumDepth - 1 else { throw .treeTooLarge }
            root = .parent(nil, root, .blank(level: root.level))
        }
        return index
    }
}
