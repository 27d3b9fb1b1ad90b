/// A set of numbers kept as sorted, disjoint, non-touching half-open ranges.
///
/// Used for byte offsets (lost, acknowledged, received) and packet numbers. Adding at the upper end and taking from the
/// lower end are O(1); elsewhere a binary search and one move of the tail.
package struct OffsetRanges: Hashable, Sendable {
    private var storage: [Range<UInt64>] = []
    /// Ranges before this index have been taken; they are dropped in bulk.
    private var head = 0

    package init() {}

    /// The number of ranges.
    package var count: Int { storage.count - head }

    /// Indicates whether no number is in the set.
    package var isEmpty: Bool { storage.count == head }

    /// The lowest range.
    package var first: Range<UInt64>? { isEmpty ? nil : storage[head] }

    /// The highest range.
    package var last: Range<UInt64>? { isEmpty ? nil : storage[storage.count - 1] }

    /// The range at a position, 0 being the lowest.
    package subscript(position: Int) -> Range<UInt64> { storage[head + position] }

    /// The size of the set; O(ranges).
    package var total: UInt64 {
        var sum: UInt64 = 0
        for index in head..<storage.count { sum += storage[index].upperBound - storage[index].lowerBound }
        return sum
    }

    /// The index in `storage` of the first range whose upper bound is at least `value`.
    private func firstIndex(endingAtOrAfter value: UInt64) -> Int {
        var low = head
        var high = storage.count
        // What comes next is nearly always at the end.
        if high > low, storage[high - 1].upperBound < value { return high }
        while low < high {
            let middle = (low + high) >> 1
            if storage[middle].upperBound < value { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// Returns whether `value` is in the set.
    package func contains(_ value: UInt64) -> Bool {
        guard value != .max else { return false }
        let index = firstIndex(endingAtOrAfter: value + 1)
        return index < storage.count && storage[index].contains(value)
    }

    /// Returns whether all of `range` is in the set.
    package func contains(_ range: Range<UInt64>) -> Bool {
        guard !range.isEmpty else { return true }
        let index = firstIndex(endingAtOrAfter: range.upperBound)
        return index < storage.count && storage[index].lowerBound <= range.lowerBound
    }

    /// Adds every number of `range`.
    package mutating func insert(_ range: Range<UInt64>) {
        guard !range.isEmpty else { return }
        let index = firstIndex(endingAtOrAfter: range.lowerBound)
        guard index < storage.count, storage[index].lowerBound <= range.upperBound else {
            if index == head, head > 0 {
                head -= 1
                storage[head] = range
            } else {
                storage.insert(range, at: index)
            }
            return
        }
        let lower = min(storage[index].lowerBound, range.lowerBound)
        var upper = max(storage[index].upperBound, range.upperBound)
        var end = index + 1
        while end < storage.count, storage[end].lowerBound <= upper {
            upper = max(upper, storage[end].upperBound)
            end += 1
        }
        storage[index] = lower..<upper
        if end > index + 1 { storage.removeSubrange(index + 1..<end) }
    }

    /// Takes every number of `range` out.
    package mutating func remove(_ range: Range<UInt64>) {
        guard !range.isEmpty, !isEmpty else { return }
        var index = firstIndex(endingAtOrAfter: range.lowerBound + 1)
        guard index < storage.count, storage[index].lowerBound < range.upperBound else { return }
        let found = storage[index]
        if found.lowerBound < range.lowerBound {
            storage[index] = found.lowerBound..<range.lowerBound
            if found.upperBound > range.upperBound {
                storage.insert(range.upperBound..<found.upperBound, at: index + 1)
                return
            }
            index += 1
        }
        var end = index
        while end < storage.count, storage[end].upperBound <= range.upperBound { end += 1 }
        if end < storage.count, storage[end].lowerBound < range.upperBound {
            storage[end] = range.upperBound..<storage[end].upperBound
        }
        guard end > index else { return }
        if index == head {
            head = end
            compact()
        } else {
            storage.removeSubrange(index..<end)
        }
    }

    /// Takes at most `limit` numbers from the lower end.
    package mutating func takeFirst(upTo limit: UInt64) -> Range<UInt64>? {
        guard limit > 0, let first else { return nil }
        if first.upperBound - first.lowerBound <= limit {
            head += 1
            compact()
            return first
        }
        let cut = first.lowerBound + limit
        storage[head] = cut..<first.upperBound
        return first.lowerBound..<cut
    }

    /// Drops the lowest range.
    package mutating func removeFirst() {
        guard !isEmpty else { return }
        head += 1
        compact()
    }

    /// Forgets everything.
    package mutating func removeAll() {
        storage.removeAll(keepingCapacity: storage.count <= 64)
        head = 0
    }

    private mutating func compact() {
        if head == storage.count {
            removeAll()
        } else if head >= 32, head * 2 >= storage.count {
            storage.removeSubrange(0..<head)
            head = 0
        }
    }

    package static func == (left: OffsetRanges, right: OffsetRanges) -> Bool {
        left.storage[left.head...] == right.storage[right.head...]
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(storage[head...])
    }
}
