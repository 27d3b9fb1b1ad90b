import Crypto

/// Computes the hash of a file as the root of a tree of hashes over its leaves, in one pass.
///
/// A leaf is SHA-256 of a zero byte and the leaf's bytes, a node is SHA-256 of a one byte and its two children, and a
/// tree of any number of leaves is split as in RFC 9162 §2.1.1; a file without bytes has one empty leaf. Two ends that
/// have the hashes of the leaves can so compare files in parts and still check the whole at the end.
struct TreeHash {
    /// The number of bytes of a hash.
    static let count = 32
    /// The most leaves a file up to 256 GiB has.
    private static let usualLeaves: UInt64 = 1 << 16

    /// The number of bytes of each leaf but the last.
    let leafSize: Int
    /// The bytes seen.
    private(set) var size: UInt64 = 0

    private var leaf: SHA256?
    private var inLeaf = 0
    private var leaves: UInt64 = 0
    /// The roots of the complete trees so far, the largest first, as in a binary number.
    private var peaks: [(level: Int, hash: [UInt8])] = []
    /// The roots of trees whose leaves hold nothing but zeros, by level.
    private var zeroRoots: [[UInt8]] = []

    /// Begins a hash; both ends must take the leaf size from the same announced size.
    init(leafSize: Int) {
        precondition(leafSize > 0, "a leaf holds something")
        self.leafSize = leafSize
    }

    /// The leaf size for a file that is announced with `size` bytes: 256 KiB, for huge files up to 4 MiB.
    static func leafSize(for size: UInt64) -> Int {
        var leaf = 256 << 10
        while leaf < 4 << 20, size / UInt64(leaf) > usualLeaves { leaf *= 2 }
        return leaf
    }

    /// The hash of one leaf.
    static func leaf(_ bytes: UnsafeRawBufferPointer) -> [UInt8] {
        var hash = emptyLeaf
        unsafe hash.update(bufferPointer: bytes)
        return Array(hash.finalize())
    }

    /// True when the bytes seen end where a leaf does.
    var isAtBoundary: Bool { inLeaf == 0 }

    /// Takes the next bytes in.
    mutating func update(_ bytes: UnsafeRawBufferPointer) {
        var rest = unsafe bytes
        while unsafe !rest.isEmpty {
            let taken = min(rest.count, leafSize - inLeaf)
            if leaf == nil { leaf = Self.emptyLeaf }
            unsafe leaf?.update(bufferPointer: UnsafeRawBufferPointer(rebasing: rest[..<taken]))
            unsafe rest = UnsafeRawBufferPointer(rebasing: rest[taken...])
            inLeaf += taken
            size += UInt64(taken)
            if inLeaf == leafSize { endLeaf() }
        }
    }

    /// Takes the next bytes in.
    mutating func update(_ bytes: ArraySlice<UInt8>) {
        unsafe bytes.withUnsafeBytes { unsafe update($0) }
    }

    /// Takes a leaf in by its hash; `length` is less than a whole leaf only for the last.
    mutating func append(leaf hash: [UInt8], length: Int) {
        precondition(inLeaf == 0, "a leaf begins where one ended")
        precondition(length > 0 && length <= leafSize, "a leaf is not larger than a leaf")
        size += UInt64(length)
        push(hash, level: 0)
    }

    /// Takes zeros in; whole leaves of them cost no hashing each.
    mutating func appendZeros(_ count: UInt64) {
        var left = count
        if inLeaf > 0 || left < UInt64(leafSize) {
            let first = min(left, UInt64(leafSize - inLeaf))
            updateZeros(Int(first))
            left -= first
        }
        var whole = left / UInt64(leafSize)
        size += whole * UInt64(leafSize)
        left %= UInt64(leafSize)
        while whole > 0 {
            let aligned = leaves == 0 ? 62 : leaves.trailingZeroBitCount
            let level = min(aligned, 63 - whole.leadingZeroBitCount)
            push(zeroRoot(level), level: level)
            whole -= 1 << UInt64(level)
        }
        updateZeros(Int(left))
    }

    /// The root over all that was taken in.
    func root() -> [UInt8] {
        var copy = self
        if copy.inLeaf > 0 || copy.leaves == 0 { copy.endLeaf() }
        guard var root = copy.peaks.popLast()?.hash else { preconditionFailure("every file has a leaf") }
        while let left = copy.peaks.popLast() { root = Self.node(left.hash, root) }
        return root
    }

    private mutating func endLeaf() {
        let hash = leaf ?? Self.emptyLeaf
        push(Array(hash.finalize()), level: 0)
        leaf = nil
        inLeaf = 0
    }

    private mutating func push(_ hash: [UInt8], level: Int) {
        var (hash, level) = (hash, level)
        leaves += 1 << UInt64(level)
        while let last = peaks.last, last.level == level {
            hash = Self.node(last.hash, hash)
            level += 1
            peaks.removeLast()
        }
        peaks.append((level, hash))
    }

    private mutating func updateZeros(_ count: Int) {
        guard count > 0 else { return }
        let zeros = [UInt8](repeating: 0, count: min(count, 64 << 10))
        var left = count
        while left > 0 {
            update(zeros.prefix(left))
            left -= min(left, zeros.count)
        }
    }

    private mutating func zeroRoot(_ level: Int) -> [UInt8] {
        if zeroRoots.isEmpty {
            var empty = TreeHash(leafSize: leafSize)
            empty.updateZeros(leafSize)
            zeroRoots.append(empty.root())
        }
        while zeroRoots.count <= level {
            let below = zeroRoots[zeroRoots.count - 1]
            zeroRoots.append(Self.node(below, below))
        }
        return zeroRoots[level]
    }

    private static let emptyLeaf: SHA256 = {
        var hash = SHA256()
        hash.update(data: [UInt8(0)])
        return hash
    }()

    private static func node(_ left: [UInt8], _ right: [UInt8]) -> [UInt8] {
        var hash = SHA256()
        hash.update(data: [UInt8(1)])
        hash.update(data: left)
        hash.update(data: right)
        return Array(hash.finalize())
    }
}
