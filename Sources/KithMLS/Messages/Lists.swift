// A peer chooses how long its lists are: two of them are never compared element by element when they are long.
extension Collection where Element: Hashable {
    /// The elements that are in `other` too, in their order.
    func common(with other: some Collection<Element>) -> [Element] {
        guard count > 16, other.count > 16 else { return filter { other.contains($0) } }
        let known = Set(other)
        return filter { known.contains($0) }
    }

    /// Tells whether every element is in `other`.
    func isCovered(by other: some Collection<Element>) -> Bool {
        guard count > 16, other.count > 16 else { return allSatisfy { other.contains($0) } }
        let known = Set(other)
        return allSatisfy { known.contains($0) }
    }
}
