import Foundation
import GRDB
package import KithCatalog
package import KithWire
import Synchronization

extension FileIndex {
    /// The most entries of a page.
    package static let pageLimit = 1_000
    /// From so many entries that an index of the database would give, a table is rather read in the order of the answer.
    static let sortedLimit = 2_000
    /// So many entries are tried in the order of their ranks before those are looked for that meet the rest of the query.
    static let triedLimit = 2_000
    /// Of so many names that fit, all are tried, to say how many there are.
    static let countedLimit = 400

    /// Finds entries.
    ///
    /// Without an order of its own a query that names words answers with those that fit best: the whole name, its
    /// beginning, the beginning of a word, then anywhere; shorter names first. Cancelled, it ends within a few
    /// milliseconds.
    ///
    /// - Parameters:
    ///   - query: What is searched, and in which order.
    ///   - device: The name of this device, for `device:`.
    ///   - after: Where the page begins: ``FoundPage/next`` of the one before; `nil` at first. What has come meanwhile
    ///     and belongs before it is not shown.
    ///   - limit: The most entries, 1…1,000; more count as that.
    /// - Returns: what was found of it.
    /// - Throws: `.invalid` for a place in another order;
    ///   `.cancelled`; `.internal`, `.corrupt` for what the database says.
    package func search(
        _ query: SearchQuery, device: String = "", after: SearchPlace? = nil, limit: Int = 50
    ) async throws(KithError) -> FoundPage {
        try await search(query, device) { search, database in
            try search.page(database, after: after, limit: min(max(limit, 1), Self.pageLimit))
        }
    }

    /// Counts what a query finds.
    ///
    /// - Throws: as ``search(_:device:after:limit:)``.
    package func count(_ query: SearchQuery, device: String = "") async throws(KithError) -> Int {
        try await search(query, device) { search, database in
            var count = 0
            try search.forEach(database) { _ in
                count += 1
                return true
            }
            return count
        }
    }

    /// Runs a search in a transaction of its own, until the task is cancelled.
    func search<Result: Sendable>(
        _ query: SearchQuery, _ device: String, usesNames: Bool = true, visiting: @escaping @Sendable () -> Void = {},
        _ body: @escaping @Sendable (EntrySearch, Database) throws -> Result
    ) async throws(KithError) -> Result {
        if query.sort.dropFirst().contains(where: { $0.field == .relevance }) {
            throw KithError(.invalid, "sort:relevance is the first key of an order, or none.")
        }
        let stop = Stop()
        let search = EntrySearch(query, device: device, stop: stop, visiting: visiting)
        do {
            return try await withTaskCancellationHandler {
                guard usesNames, search.needsNames else { return try await read { try body(search, $0) } }
                return try await readNames { names, database in try body(search.with(names), database) }
            } onCancel: {
                stop.isSet.store(true, ordering: .relaxed)
            }
        } catch {
            throw Self.failure("search", error)
        }
    }
}
