extension CBORDecoder {
    /// Returns a value with the members it leaves out taken from `usual`, except for some; nested maps likewise.
    ///
    /// - Throws: ``KithError`` `.invalid` for bytes that are not deterministic CBOR.
    package func completed(_ bytes: [UInt8], over usual: [UInt8], except required: Set<String>) throws -> [UInt8] {
        do {
            let (given, below) = (
                try CBORTable(bytes, maxDepth: maxDepth), try CBORTable(usual, maxDepth: maxDepth)
            )
            var result: [UInt8] = []
            Self.append(given.root, of: given, over: below.root, of: below, except: required, to: &result)
            return result
        } catch {
            throw KithError(.invalid, "Malformed CBOR: \(error).", cause: error)
        }
    }

    private static func append(
        _ given: CBORItem, of table: CBORTable, over below: CBORItem, of usual: CBORTable, except required: Set<String>,
        to result: inout [UInt8]
    ) {
        guard table.head(of: given) >> 5 == 5, usual.head(of: below) >> 5 == 5 else {
            result += table.encoding(of: given)
            return
        }
        let (count, others) = (table.count(of: given), usual.count(of: below))
        var (index, other) = (0, 0)
        var members: [UInt8] = []
        var written: UInt64 = 0
        // Both are in the order of their keys, and so is what becomes of them.
        while index < count || other < others {
            let mine = index < count ? table.child(index, of: given) : nil
            let theirs = other < others ? usual.child(other, of: below) : nil
            let order = Self.order(mine.map { table.key($0) }, theirs.map { usual.key($0) })
            if let mine, order <= 0 {
                members += table.key(mine)
                if let theirs, order == 0 {
                    append(mine.item, of: table, over: theirs.item, of: usual, except: [], to: &members)
                } else {
                    members += table.encoding(of: mine.item)
                }
                written += 1
            } else if let theirs, !required.contains(usual.text(at: theirs.key)) {
                members += usual.key(theirs)
                members += usual.encoding(of: theirs.item)
                written += 1
            }
            if order <= 0 { index += 1 }
            if order >= 0 { other += 1 }
        }
        result.head(5, written)
        result += members
    }

    /// Compares two keys: below zero when the first precedes, zero for the same; a missing key comes last.
    private static func order(_ first: ArraySlice<UInt8>?, _ second: ArraySlice<UInt8>?) -> Int {
        guard let first else { return 1 }
        guard let second else { return -1 }
        return first == second ? 0 : first.lexicographicallyPrecedes(second) ? -1 : 1
    }
}
