import KithMLS

struct TreeMathVector: Vector {
    let nLeaves: UInt32
    let nNodes: UInt32
    let root: UInt32
    let left: [UInt32?]
    let right: [UInt32?]
    let parent: [UInt32?]
    let sibling: [UInt32?]
    var suite: UInt16? { nil }

    func verify(_ suite: any CipherSuite) throws {
        try check(TreeMath.nodeCount(leaves: nLeaves) == nNodes, "node count")
        try check(TreeMath.root(leaves: nLeaves) == root, "root")
        for node in 0..<nNodes {
            let index = Int(node)
            try check(TreeMath.left(node) == left[index], "left of \(node)")
            try check(TreeMath.right(node) == right[index], "right of \(node)")
            try check(TreeMath.parent(node, leaves: nLeaves) == parent[index], "parent of \(node)")
            try check(TreeMath.sibling(node, leaves: nLeaves) == sibling[index], "sibling of \(node)")
        }
    }
}

extension TreeMathVector {
    /// The tree with 2^`index` leaves.
    static func make(_ index: Int) -> TreeMathVector {
        let leaves = UInt32(1) << index
        let nodes = 0..<TreeMath.nodeCount(leaves: leaves)
        return TreeMathVector(
            nLeaves: leaves, nNodes: UInt32(nodes.count), root: TreeMath.root(leaves: leaves),
            left: nodes.map(TreeMath.left), right: nodes.map(TreeMath.right),
            parent: nodes.map { TreeMath.parent($0, leaves: leaves) },
            sibling: nodes.map { TreeMath.sibling($0, leaves: leaves) })
    }
}
