/// A set of public keys whose copies share what they have in common.
///
/// A hash trie of 32-way nodes: a copy costs one reference, a change of a shared set one node a level. It answers
/// "does this key stand in the tree already?" (RFC 9420 §7.3, §12.4.2) without a walk over the tree.
struct KeySet: Sendable {
    private var root = Node()
    private(set) var count = 0

    /// Changed only while one set refers to it, so sharing it between threads is safe.
    private final class Node: @unchecked Sendable {
        var bitmap: UInt32 = 0
        var slots: [Slot] = []

        func copy() -> Node {
            let node = Node()
            node.bitmap = bitmap
            node.slots = slots
            return node
        }

        /// Where the slot for `bits` is, or would be.
        func index(_ bits: UInt32) -> Int { (bitmap & ((1 << bits) - 1)).nonzeroBitCount }
    }

    private enum Slot {
        case key([UInt8])
        /// Several keys, where all 60 bits of their hashes agree.
        case keys([[UInt8]])
        case node(Node)
    }

    private static let depth = 12

    private static func hash(_ key: [UInt8]) -> UInt64 {
        var hasher = Hasher()
        unsafe key.withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
        return UInt64(bitPattern: Int64(hasher.finalize()))
    }

    private static func bits(_ hash: UInt64, _ level: Int) -> UInt32 {
        UInt32(truncatingIfNeeded: hash >> (5 * level)) & 31
    }

    func contains(_ key: [UInt8]) -> Bool {
        let hash = Self.hash(key)
        var node = root
        for level in 0...Self.depth {
            let bits = Self.bits(hash, level)
            guard node.bitmap & (1 << bits) != 0 else { return false }
            switch node.slots[node.index(bits)] {
            case .key(let other): return other == key
            case .keys(let keys): return keys.contains(key)
            case .node(let next): node = next
            }
        }
        return false
    }

    /// Puts a key in; false when it was there.
    mutating func insert(_ key: [UInt8]) -> Bool {
        if !isKnownUniquelyReferenced(&root) { root = root.copy() }
        guard Self.insert(key, Self.hash(key), into: root, level: 0) else { return false }
        count += 1
        return true
    }

    private static func insert(_ key: [UInt8], _ hash: UInt64, into node: Node, level: Int) -> Bool {
        let bits = bits(hash, level)
        let index = node.index(bits)
        guard node.bitmap & (1 << bits) != 0 else {
            node.bitmap |= 1 << bits
            node.slots.insert(.key(key), at: index)
            return true
        }
        switch node.slots[index] {
        case .key(let other):
            if other == key { return false }
            if level == depth {
                node.slots[index] = .keys([other, key])
                return true
            }
            let lower = Node()
            _ = insert(other, Self.hash(other), into: lower, level: level + 1)
            node.slots[index] = .node(lower)
            return insert(key, hash, into: lower, level: level + 1)
        case .keys(let keys):
            if keys.contains(key) { return false }
            node.slots[index] = .keys(keys + [key])
            return true
        case .node:
            return insert(key, hash, into: owned(node, index), level: level + 1)
        }
    }

    /// Takes a key out; false when it was not there.
    @discardableResult
    mutating func remove(_ key: [UInt8]) -> Bool {
        guard contains(key) else { return false }
        if !isKnownUniquelyReferenced(&root) { root = root.copy() }
        let hash = Self.hash(key)
        var node = root
        for level in 0...Self.depth {
            let bits = Self.bits(hash, level)
            let index = node.index(bits)
            switch node.slots[index] {
            case .key:
                node.slots.remove(at: index)
                node.bitmap &= ~(1 << bits)
                count -= 1
                return true
            case .keys(let keys):
                let left = keys.filter { $0 != key }
                node.slots[index] = left.count == 1 ? .key(left[0]) : .keys(left)
                count -= 1
                return true
            case .node: node = Self.owned(node, index)
            }
        }
        return false
    }

    /// The node in a slot, copied first when another set refers to it too.
    private static func owned(_ node: Node, _ index: Int) -> Node {
        guard case .node(var child) = node.slots[index] else { preconditionFailure("asked for a slot that holds keys") }
        node.slots[index] = .keys([])  // gives up the slot's reference, so that the question below is about others
        if !isKnownUniquelyReferenced(&child) { child = child.copy() }
        node.slots[index] = .node(child)
        return child
    }
}
