/// A set of public keys whose copies share what they have in common.
///
/// It answers "does this key stand in the tree already?" (RFC 9420 §7.3, §12.4.2) without a walk over the tree. The keys
/// themselves stand in the tree: the set holds a mark of 128 bits for each, made with a random key of this process, so
/// that nobody can look for two that agree; by chance two of the keys of a group of 50,000 do in one of 10²⁸ groups.
///
/// A trie of 8-way nodes over lists of marks: a copy costs one reference, a change of a shared set one node a level and
/// one list.
struct KeySet: Sendable {
    private var root = Part.few([])
    private(set) var count = 0

    private struct Mark: Hashable, Sendable {
        let high: UInt64
        let low: UInt64

        init(_ key: [UInt8]) {
            var hasher = Hasher()
            unsafe key.withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
            high = UInt64(bitPattern: Int64(hasher.finalize()))
            // The same bytes with one more behind them: a hash that has nothing to do with the first.
            hasher = Hasher()
            unsafe key.withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
            hasher.combine(1 as UInt8)
            low = UInt64(bitPattern: Int64(hasher.finalize()))
        }

        /// The part of a node, by number, that the mark is in.
        func digit(_ level: Int) -> Int { Int(truncatingIfNeeded: high >> (3 * level)) & 7 }
    }

    private enum Part: Sendable {
        case few([Mark])
        case many([Part])
    }

    /// A list that is longer becomes a node, as long as there are bits left to tell its marks apart.
    private static let most = 128
    private static let depth = 20

    func contains(_ key: [UInt8]) -> Bool {
        let mark = Mark(key)
        var part = root
        var level = 0
        while true {
            switch part {
            case .few(let marks): return marks.contains(mark)
            case .many(let parts): part = parts[mark.digit(level)]
            }
            level += 1
        }
    }

    /// Puts a key in; false when it was there.
    mutating func insert(_ key: [UInt8]) -> Bool {
        guard Self.insert(Mark(key), into: &root, level: 0) else { return false }
        count += 1
        return true
    }

    private static func insert(_ mark: Mark, into part: inout Part, level: Int) -> Bool {
        switch part {
        case .few(var marks):
            if marks.contains(mark) { return false }
            part = .few([])  // gives up its reference, so that only what another set has too is copied
            if marks.count == marks.capacity { marks.reserveCapacity(marks.count + 8) }
            marks.append(mark)
            part = marks.count > most && level < depth ? split(marks, level) : .few(marks)
            return true
        case .many(var parts):
            part = .few([])
            let isNew = insert(mark, into: &parts[mark.digit(level)], level: level + 1)
            part = .many(parts)
            return isNew
        }
    }

    private static func split(_ marks: [Mark], _ level: Int) -> Part {
        .many((0..<8).map { digit in .few(marks.filter { $0.digit(level) == digit }) })
    }

    /// Takes a key out; false when it was not there.
    @discardableResult
    mutating func remove(_ key: [UInt8]) -> Bool {
        guard Self.remove(Mark(key), from: &root, level: 0) else { return false }
        count -= 1
        return true
    }

    private static func remove(_ mark: Mark, from part: inout Part, level: Int) -> Bool {
        switch part {
        case .few(var marks):
            guard let index = marks.firstIndex(of: mark) else { return false }
            part = .few([])
            marks.remove(at: index)
            part = .few(marks)
            return true
        case .many(var parts):
            part = .few([])
            let wasThere = remove(mark, from: &parts[mark.digit(level)], level: level + 1)
            part = .many(parts)
            return wasThere
        }
    }
}
