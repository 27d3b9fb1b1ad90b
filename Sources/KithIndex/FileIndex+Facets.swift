import GRDB
package import KithCatalog
package import KithWire

/// How all that a query finds is spread over the values of some properties.
package struct SearchFacets: Hashable, Sendable {
    /// A value and how many entries have it.
    package struct Count: Hashable, Sendable {
        package var value: String
        package var count: Int
    }

    /// The number of entries counted.
    package var total = 0
    /// True when there were more than are counted: then all numbers are too small.
    package var isCut = false
    /// The bytes of the files among them.
    package var bytes: UInt64 = 0
    /// Categories of files, and `folder`, `link`, `other`.
    package var kinds: [Count] = []
    package var extensions: [Count] = []
    /// Locations, by their numbers.
    package var locations: [Count] = []
    /// Tags that entries carry themselves, with those above them.
    package var tags: [Count] = []
    /// Years of the last change, the latest first.
    package var years: [Count] = []
    /// Classes of size, the smallest first, such as `empty` and `<10K`.
    package var sizes: [Count] = []
}

extension FileIndex {
    /// The most entries that are counted by their properties.
    package static let facetLimit = 1_000_000
    /// The most values of a property; those with the most entries are taken.
    package static let facetValueLimit = 50
    /// The most values of a property that are told apart while counting: what comes later is not counted by it.
    static let facetMemory = 20_000

    /// Counts all that a query finds by its properties.
    ///
    /// - Parameters:
    ///   - query: What is searched.
    ///   - device: The name of this device, for `device:`.
    ///   - offsetFromUTC: The seconds by which the clock of whoever asks is ahead of Greenwich, for years.
    ///   - limit: The most entries that are counted.
    /// - Returns: the counts.
    /// - Throws: as ``search(_:device:after:limit:)``.
    package func facets(
        _ query: SearchQuery, device: String = "", offsetFromUTC: Int = 0, limit: Int = FileIndex.facetLimit
    ) async throws(KithError) -> SearchFacets {
        try await search(query, device) { search, database in
            var facets = SearchFacets()
            var tally = Tally()
            try search.forEach(database) { found in
                guard facets.total < limit else {
                    facets.isCut = true
                    return false
                }
                facets.total += 1
                let (sum, isOver) = facets.bytes.addingReportingOverflow(found.entry.size)
                facets.bytes = isOver ? .max : sum
                tally.count(found.entry, offsetFromUTC: offsetFromUTC)
                return true
            }
            facets.isCut = facets.isCut || tally.isCut
            facets.kinds = Tally.most(tally.kinds)
            facets.extensions = Tally.most(tally.extensions)
            facets.locations = Tally.most(tally.locations)
            facets.tags = Tally.most(tally.tags)
            facets.years = Tally.most(tally.years).sorted { (Int($0.value) ?? 0) > (Int($1.value) ?? 0) }
            facets.sizes = zip(Tally.sizeNames, tally.sizes).filter { $1 > 0 }.map { .init(value: $0, count: $1) }
            return facets
        }
    }
}

/// Counts by the values of properties.
private struct Tally {
    var kinds: [String: Int] = [:]
    var extensions: [String: Int] = [:]
    var locations: [String: Int] = [:]
    var tags: [String: Int] = [:]
    var years: [String: Int] = [:]
    var sizes = [Int](repeating: 0, count: 7)
    var isCut = false
    /// The year of the entry before: most have the same.
    private var year: (seconds: ClosedRange<Int64>, name: String)?

    static let sizeNames = ["empty", "<10K", "10K..1M", "1M..100M", "100M..1G", "1G..10G", ">=10G"]
    private static let sizeLimits: [UInt64] = [1, 10_000, 1_000_000, 100_000_000, 1_000_000_000, 10_000_000_000]

    private mutating func add(_ value: String, _ counts: WritableKeyPath<Tally, [String: Int]>) {
        if self[keyPath: counts][value] == nil, self[keyPath: counts].count >= FileIndex.facetMemory {
            isCut = true
            return
        }
        self[keyPath: counts][value, default: 0] += 1
    }

    mutating func count(_ entry: FoundEntry, offsetFromUTC: Int) {
        add(entry.category?.rawValue ?? entry.kind.rawValue, \.kinds)
        add(String(entry.location), \.locations)
        for tag in entry.tags { add(tag.joined(separator: "/"), \.tags) }
        if entry.kind == .file {
            let name = IndexedName(entry.name).fileExtension
            if !name.isEmpty { add(name, \.extensions) }
            sizes[Self.sizeLimits.firstIndex { entry.size < $0 } ?? Self.sizeLimits.count] += 1
        }
        let (whole, rest) = entry.modified.quotientAndRemainder(dividingBy: 1_000_000_000)
        add(yearName(rest < 0 ? whole - 1 : whole, offset: offsetFromUTC), \.years)
    }

    private mutating func yearName(_ seconds: Int64, offset: Int) -> String {
        if let year, year.seconds.contains(seconds) { return year.name }
        let (number, range) = SearchQuery.year(of: seconds, offsetFromUTC: offset)
        year = (range, String(number))
        return String(number)
    }

    static func most(_ counts: [String: Int]) -> [SearchFacets.Count] {
        let sorted = counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
        return sorted.prefix(FileIndex.facetValueLimit).map { .init(value: $0.key, count: $0.value) }
    }
}
