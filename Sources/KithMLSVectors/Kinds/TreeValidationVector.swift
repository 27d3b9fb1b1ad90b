import KithMLS

struct TreeValidationVector: Vector {
    let cipherSuite: UInt16
    let tree: Hex
    let groupId: Hex
    let resolutions: [[UInt32]]
    let treeHashes: [Hex]
    var suite: UInt16? { cipherSuite }

    func verify(_ suite: any CipherSuite) throws {
        let tree = try RatchetTree(tree.bytes)
        try check(tree.bytes == self.tree.bytes, "encoding")
        for node in treeHashes.indices {
            try check(tree.resolution(UInt32(node)) == resolutions[node], "resolution of \(node)")
            try check(tree.hash(suite, node: UInt32(node)) == treeHashes[node].bytes, "tree hash of \(node)")
        }
        try tree.checkParentHashes(suite)
        for (index, leaf) in tree.members {
            try check(
                leaf.hasValidSignature(suite, at: LeafLocation(groupID: groupId.bytes, leafIndex: index)),
                "signature of leaf \(index)")
        }
    }
}

extension TreeValidationVector {
    /// Trees of two members and more, with blank nodes and unmerged leaves.
    static func make(_ suite: any CipherSuite, _ index: Int, _ draw: inout Draw) throws -> TreeValidationVector {
        let groupID = draw.hex(draw.number(1...32))
        var known = try KnownTree(suite, groupID: groupID.bytes)
        try known.grow(to: 2 + index, &draw)
        let nodes = 0..<TreeMath.nodeCount(leaves: known.tree.leafCapacity)
        return TreeValidationVector(
            cipherSuite: suite.id.rawValue, tree: Hex(known.tree.bytes), groupId: groupID,
            resolutions: nodes.map { known.tree.resolution($0) },
            treeHashes: nodes.map { Hex(known.tree.hash(suite, node: $0) ?? []) })
    }
}
