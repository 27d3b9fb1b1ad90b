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
                leaf.hasValidSignature(suite, at: LeafPlace(groupID: groupId.bytes, leafIndex: index)),
                "signature of leaf \(index)")
        }
    }
}
