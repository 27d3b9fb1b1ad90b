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

extension TreeOperationsVector {
    /// In turn an addition into a blank leaf, one that makes the tree larger, an update, a removal, and a removal that
    /// makes the tree smaller.
    static func make(_ suite: any CipherSuite, _ index: Int, _ draw: inout Draw) throws -> TreeOperationsVector {
        var known = try KnownTree(suite, groupID: draw.bytes(16))
        let scenario = index % 5
        // A full tree has 4 members; the fifth is alone in its half.
        let size = scenario == 1 ? 4 : scenario == 4 ? 5 : draw.number(6...8)
        while known.leaves.count < size { try known.add() }
        for _ in 0..<3 { try known.commit(known.any(&draw)) }
        if scenario == 0 { try known.remove(draw.number(0...4)) }
        var after = known.tree
        var sender = known.any(&draw)
        let proposal: Proposal
        switch scenario {
        case 0, 1:
            let package = try known.newcomer().keyPackage
            proposal = .add(package)
            _ = try after.add(package.leafNode)
        case 2:
            let node = try known.renewed(sender).node
            proposal = .update(node)
            try after.update(sender, node)
        default:
            let leaf: UInt32 = scenario == 4 ? 4 : draw.number(1...3)
            sender = 0
            proposal = .remove(leaf)
            try after.remove(leaf)
        }
        return TreeOperationsVector(
            cipherSuite: suite.id.rawValue, treeBefore: Hex(known.tree.bytes), proposal: Hex(proposal.encoded),
            proposalSender: sender, treeHashBefore: Hex(known.tree.hash(suite)), treeAfter: Hex(after.bytes),
            treeHashAfter: Hex(after.hash(suite)))
    }
}
