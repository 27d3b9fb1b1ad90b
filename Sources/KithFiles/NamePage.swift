/// The first few names of a folder behind a certain one, in order, however many there are and in whatever order they come.
///
/// It holds at most twice as many as the page has.
struct NamePage {
    private let after: [UInt8]?
    private let limit: Int
    private var names: [[UInt8]] = []
    /// The last name of the page as far as it is known to be full; what is behind it is on another page.
    private var last: [UInt8]?
    private(set) var hasMore = false

    /// Begins a page of at most `limit` names, at least one.
    init(after: [UInt8]?, limit: Int) {
        precondition(limit > 0, "a page has a name")
        self.after = after
        self.limit = limit
    }

    /// The number of names held.
    var held: Int { names.count }

    /// Takes a name in.
    mutating func add(_ name: [UInt8]) {
        if let last, !precedes(name, last) {
            hasMore = true
            return
        }
        if let after, !precedes(after, name) { return }
        names.append(name)
        if names.count == 2 * limit { cut() }
    }

    /// The page, and whether more follow it.
    mutating func finish() -> (names: [[UInt8]], hasMore: Bool) {
        cut()
        return (names, hasMore)
    }

    private mutating func cut() {
        names.sort(by: precedes)
        guard names.count > limit else { return }
        names.removeLast(names.count - limit)
        hasMore = true
        last = names.last
    }

    /// The order of names: that of their bytes.
    private func precedes(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        let count = min(left.count, right.count)
        return unsafe left.withUnsafeBytes { left in
            unsafe right.withUnsafeBytes { right in
                for index in 0..<count where unsafe left[index] != right[index] {
                    return unsafe left[index] < right[index]
                }
                return left.count < right.count
            }
        }
    }
}
