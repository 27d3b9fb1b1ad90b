/// The numbers of the nodes of a full binary tree in an array: leaves even, parents odd (RFC 9420 §C).
package enum TreeMath {
    /// Trees beyond this are refused: leaf numbers must fit 32 bits with their nodes.
    static let maximumDepth = 31

    /// The level of a node; leaves are at 0.
    package static func level(_ node: UInt32) -> Int { (~node).trailingZeroBitCount }

    /// The number of nodes of a tree with `leaves` leaves; `leaves` is a power of two.
    package static func nodeCount(leaves: UInt32) -> UInt32 { 2 * leaves - 1 }

    /// The root of a tree with `leaves` leaves.
    package static func root(leaves: UInt32) -> UInt32 { leaves - 1 }

    /// The left child, or nil for a leaf.
    package static func left(_ node: UInt32) -> UInt32? {
        let level = level(node)
        return level == 0 ? nil : node ^ (1 << (level - 1))
    }

    /// The right child, or nil for a leaf.
    package static func right(_ node: UInt32) -> UInt32? {
        let level = level(node)
        return level == 0 ? nil : node ^ (3 << (level - 1))
    }

    /// The parent, or nil for the root.
    package static func parent(_ node: UInt32, leaves: UInt32) -> UInt32? {
        guard node != root(leaves: leaves) else { return nil }
        let level = level(node)
        return (node | (1 << level)) & ~(1 << (level + 1))
    }

    /// The other child of the parent, or nil for the root.
    package static func sibling(_ node: UInt32, leaves: UInt32) -> UInt32? {
        guard let parent = parent(node, leaves: leaves) else { return nil }
        return node < parent ? right(parent) : left(parent)
    }

    /// The node of a leaf.
    package static func node(leaf: UInt32) -> UInt32 { leaf * 2 }

    /// The node at a level above a leaf.
    static func ancestor(ofLeaf leaf: UInt32, level: Int) -> UInt32 {
        let first = (UInt64(leaf) >> level) << level
        return UInt32(2 * first + (1 << level) - 1)
    }

    /// The level of the lowest common ancestor of two leaves.
    static func commonLevel(_ left: UInt32, _ right: UInt32) -> Int { 32 - (left ^ right).leadingZeroBitCount }
}
