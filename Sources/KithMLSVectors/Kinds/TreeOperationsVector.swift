import KithMLS

struct TreeOperationsVector: Vector {
    let cipherSuite: UInt16
    let treeBefore: Hex
    let proposal: Hex
    let proposalSender: UInt32
    let treeHashBefore: Hex
    let treeAfter: Hex
    let treeHashAfter: Hex
    var suite: UInt16? { cipherSuite }

    func verify(_ suite: any CipherSuite) throws {
        var tree = try RatchetTree(treeBefore.bytes)
        try check(tree.hash(suite) == treeHashBefore.bytes, "tree_hash_before")
        switch try Proposal(decoding: proposal.bytes) {
        case .add(let package): _ = try tree.add(package.leafNode)
        case .update(let leaf): try tree.update(proposalSender, leaf)
        case .remove(let leaf): try tree.remove(leaf)
        default: throw VectorFailure("a proposal that does not change the tree")
        }
        try check(tree.bytes == treeAfter.bytes, "tree_after")
        try check(tree.hash(suite) == treeHashAfter.bytes, "tree_hash_after")
    }
}
