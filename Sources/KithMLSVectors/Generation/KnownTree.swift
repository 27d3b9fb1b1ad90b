import KithMLS

/// A tree all of whose private keys are known: what vectors about trees are made of.
struct KnownTree {
    let suite: any CipherSuite
    let groupID: [UInt8]
    private(set) var tree: RatchetTree
    /// The members' private keys, by leaf.
    private(set) var members: [UInt32: Member] = [:]
    /// The path secrets of the nodes that were set last, by node.
    private var pathSecrets: [UInt32: [UInt8]] = [:]
    private var names = 0

    struct Member {
        var encryption: HPKEPrivateKey
        let signature: SignaturePrivateKey
    }

    /// The tree of a group with one member.
    init(_ suite: any CipherSuite, groupID: [UInt8]) throws {
        self.suite = suite
        self.groupID = groupID
        let bundle = try GroupMember(suite, "member 0").keyPackage()
        tree = RatchetTree(bundle.keyPackage.leafNode)
        members[0] = Member(encryption: bundle.encryptionKey, signature: bundle.signatureKey)
    }

    var leaves: [UInt32] { members.keys.sorted() }

    /// A key package of a client who is not in the tree.
    mutating func newcomer() throws -> KeyPackageBundle {
        names += 1
        return try GroupMember(suite, "member \(names)").keyPackage()
    }

    mutating func add() throws {
        let bundle = try newcomer()
        let leaf = try tree.add(bundle.keyPackage.leafNode)
        members[leaf] = Member(encryption: bundle.encryptionKey, signature: bundle.signatureKey)
    }

    mutating func remove(_ leaf: UInt32) throws {
        try tree.remove(leaf)
        members[leaf] = nil
    }

    /// A new leaf of a member, as an Update proposal has it.
    func renewed(_ leaf: UInt32) throws -> (node: LeafNode, encryption: HPKEPrivateKey) {
        let encryption = suite.generateHPKEKey()
        let node = try LeafNode(
            profile(leaf), suite: suite, encryptionKey: encryption.publicKey, signatureKey: member(leaf).signature,
            source: .update, at: LeafLocation(groupID: groupID, leafIndex: leaf))
        return (node, encryption)
    }

    mutating func update(_ leaf: UInt32) throws {
        let (node, encryption) = try renewed(leaf)
        try tree.update(leaf, node)
        members[leaf]?.encryption = encryption
    }

    /// The fresh keys of a member's path, not yet in the tree.
    func prepared(_ leaf: UInt32) throws -> PreparedPath {
        try tree.preparePath(
            suite, leaf: leaf, profile: profile(leaf), signatureKey: member(leaf).signature, groupID: groupID)
    }

    /// Sets new keys on a member's path.
    mutating func commit(_ leaf: UInt32) throws {
        let path = try prepared(leaf)
        for (node, secret) in path.secrets { pathSecrets[node] = secret }
        tree = path.tree
        members[leaf]?.encryption = path.keys.leaf
    }

    /// Grows to `size` members by a random history of additions, removals, updates and commits.
    mutating func grow(to size: Int, _ draw: inout Draw) throws {
        while members.count < size {
            try add()
            switch draw.number(0...5) {
            case 0 where members.count > 3: try remove(any(&draw))
            case 1: try update(any(&draw))
            case 2, 3: try commit(any(&draw))
            default: break
            }
        }
    }

    func any(_ draw: inout Draw) -> UInt32 { leaves[draw.number(0...leaves.count - 1)] }

    func member(_ leaf: UInt32) throws -> Member {
        guard let member = members[leaf] else { throw MLSError.blankLeaf }
        return member
    }

    private func profile(_ leaf: UInt32) throws -> LeafProfile {
        guard let node = tree.leaf(leaf) else { throw MLSError.blankLeaf }
        return LeafProfile(node)
    }

    /// The path secrets that a member knows, from the leaf up: of all nodes above it that are set and in which it is
    /// merged.
    func knownSecrets(of leaf: UInt32) -> [(node: UInt32, secret: [UInt8])] {
        var found: [(UInt32, [UInt8])] = []
        var node = TreeMath.node(leaf: leaf)
        while let parent = TreeMath.parent(node, leaves: tree.leafCapacity) {
            let resolution = tree.resolution(parent)
            // A node that is set stands first in its own resolution, before its unmerged leaves.
            if resolution.first == parent, !resolution.contains(TreeMath.node(leaf: leaf)),
                let secret = pathSecrets[parent]
            {
                found.append((parent, secret))
            }
            node = parent
        }
        return found
    }
}
