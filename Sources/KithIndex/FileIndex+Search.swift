import Foundation
import GRDB
package import KithCatalog
package import KithWire
import Synchronization

extension FileIndex {
    /// The most entries of a page.
    package static let pageLimit = 1_000
    /// Of so many that match, those that fit best come first; the rest follows in the order of their numbers.
    static let rankedLimit = 1_000
    /// From so many names that an index of the database would give, a table is rather read in the order of the answer.
    static let sortedLimit = 10_000

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
        _ query: SearchQuery, _ device: String, visiting: @escaping @Sendable () -> Void = {},
        _ body: @escaping @Sendable (EntrySearch, Database) throws -> Result
    ) async throws(KithError) -> Result {
        if query.sort.dropFirst().contains(where: { $0.field == .relevance }) {
            throw KithError(.invalid, "sort:relevance is the first key of an order, or none.")
        }
        let stop = Stop()
        let search = EntrySearch(query, device: device, stop: stop, visiting: visiting)
        do {
            return try await withTaskCancellationHandler {
                try await database.read { try body(search, $0) }
            } onCancel: {
                stop.isSet.store(true, ordering: .relaxed)
            }
        } catch {
            throw Self.failure("search", error)
        }
    }
}

/// Set when nobody waits for the answer any more.
final class Stop: Sendable {
    let isSet = Atomic(false)
}

/// One search, within one transaction.
struct EntrySearch: Sendable {
    private let query: SearchQuery
    private let device: String
    private let stop: Stop
    /// Called before each row, for tests.
    private let visiting: @Sendable () -> Void
    private let needs: Needs
    private let content: ContentNeeds
    /// What every name has to meet: tried before anything else is made of a row.
    private let names: [NameMatch]

    /// What has to be read of an entry beside its row.
    private struct Needs {
        var emptiness = false
        var path = false
        var duplication = false

        init(_ condition: Condition) {
            switch condition {
            case .everything: break
            case .not(let condition): self = Needs(condition)
            case .all(let conditions), .any(let conditions):
                for needs in conditions.map(Needs.init) {
                    emptiness = emptiness || needs.emptiness
                    path = path || needs.path
                    duplication = duplication || needs.duplication
                }
            case .term(.flag(.empty)): emptiness = true
            case .term(.flag(.duplicate)): duplication = true
            case .term(.path), .term(.inFolder): path = true
            case .term: break
            }
        }
    }

    init(_ query: SearchQuery, device: String, stop: Stop, visiting: @escaping @Sendable () -> Void) {
        (self.query, self.device, self.stop, self.visiting) = (query, device, stop, visiting)
        needs = Needs(query.condition)
        content = ContentNeeds(query.condition)
        names = query.condition.requiredNames
    }

    // MARK: - Pages

    func page(_ database: Database, after: SearchPlace?, limit: Int) throws -> FoundPage {
        let isRanked = query.sort.first.map { $0.field == .relevance } ?? !query.condition.words.isEmpty
        let order = SearchOrder(query.sort)
        let name = (isRanked ? "ranked " : "") + order.name
        if let after {
            let isWhole =
                isRanked
                ? after.compared != nil && (after.rank == nil || after.values.count == order.columns.count)
                : after.values.count == order.columns.count && after.rank == nil
            guard after.order == name, isWhole else {
                throw KithError(
                    .invalid,
                    "`after` is no place in the answer to this query: it is what `next` of the part before was.")
            }
        }
        var page =
            isRanked
            ? try ranked(database, order, name, after, limit) : try ordered(database, order, name, after, limit)
        guard !content.shown.isEmpty else { return page }
        for index in page.entries.indices {
            page.entries[index].snippet = try Snippet(of: page.entries[index].id, content.shown, database)
        }
        return page
    }

    /// In the order of the database, until the page is full.
    private func ordered(
        _ database: Database, _ order: SearchOrder, _ name: String, _ after: SearchPlace?, _ limit: Int
    ) throws -> FoundPage {
        var page = FoundPage(entries: [], hasMore: false, total: nil, places: [])
        try forEach(database, Walk(order: order, behind: after?.values)) { found in
            if page.entries.count == limit {
                page.hasMore = true
                return false
            }
            page.entries.append(found.entry)
            page.places.append(SearchPlace(order: name, values: found.values))
            return true
        }
        if after == nil, !page.hasMore { page.total = page.entries.count }
        return page
    }

    /// The best of the first that match, then those after them.
    private func ranked(
        _ database: Database, _ order: SearchOrder, _ name: String, _ after: SearchPlace?, _ limit: Int
    ) throws -> FoundPage {
        var page = FoundPage(entries: [], hasMore: false, total: nil, places: [])
        let (compared, rank) = (after?.compared, after?.rank)
        var last = compared ?? .min
        // Some of those that were compared are still to come, or all of them.
        if after == nil || rank != nil {
            let words = query.condition.words
            let isReversed = query.sort.first?.isDescending ?? false
            var candidates: [(rank: Rank, found: Found)] = []
            var isWhole = true
            try forEach(database, Walk(byNumber: true, through: compared, order: order)) { found in
                if candidates.count == FileIndex.rankedLimit {
                    isWhole = false
                    return false
                }
                candidates.append((Rank(found.entry, words), found))
                return true
            }
            // They come by their numbers.
            if compared == nil { last = candidates.last?.found.entry.id ?? last }
            let isBefore = { (left: (rank: Rank, values: [SearchPlace.Value]), right: (Rank, [SearchPlace.Value])) in
                if order.columns.count > 1, left.rank.fit != right.0.fit {
                    return isReversed ? left.rank.fit > right.0.fit : left.rank.fit < right.0.fit
                }
                if order.columns.count > 1 { return order.isBefore(left.values, right.1) }
                return isReversed ? right.0 < left.rank : left.rank < right.0
            }
            candidates.sort { isBefore(($0.rank, $0.found.values), ($1.rank, $1.found.values)) }
            if after == nil, isWhole { page.total = candidates.count }
            for (rank, found) in candidates {
                if let after, let reached = after.rank, !isBefore((reached, after.values), (rank, found.values)) {
                    continue
                }
                if page.entries.count == limit {
                    page.hasMore = true
                    return page
                }
                page.entries.append(found.entry)
                page.places.append(SearchPlace(order: name, values: found.values, rank: rank, compared: last))
            }
            if compared == nil, isWhole { return page }
        }
        try forEach(database, Walk(byNumber: true, from: last, order: order)) { found in
            if page.entries.count == limit {
                page.hasMore = true
                return false
            }
            page.entries.append(found.entry)
            page.places.append(SearchPlace(order: name, values: [], compared: found.entry.id))
            return true
        }
        return page
    }

    // MARK: - The statement

    /// The way in which a search goes through the entries.
    struct Walk {
        /// The columns that are read of each, and its order unless it is that of the numbers.
        var order = SearchOrder([])
        var isByNumber = false
        var from: Int64?
        var through: Int64?
        var behind: [SearchPlace.Value]?

        /// Goes through them in an order.
        init(order: SearchOrder, behind: [SearchPlace.Value]?) { (self.order, self.behind) = (order, behind) }

        /// Goes through them by their numbers: those behind one, up to one.
        init(byNumber: Bool, from: Int64? = nil, through: Int64? = nil, order: SearchOrder = SearchOrder([])) {
            (isByNumber, self.from, self.through, self.order) = (byNumber, from, through, order)
        }
    }

    /// An entry, and the values of the columns of the order.
    struct Found {
        var entry: FoundEntry
        var values: [SearchPlace.Value]
    }

    /// Goes through what meets the condition, as long as `body` returns true.
    func forEach(
        _ database: Database, _ walk: Walk = Walk(byNumber: true), _ body: (Found) throws -> Bool
    ) throws {
        let (sql, arguments) = try statement(walk, database)
        let context = try Context(content, database)
        let rows = try Row.fetchCursor(
            try database.cachedStatement(sql: sql), arguments: StatementArguments(arguments))
        while let row = try rows.next() {
            visiting()
            if stop.isSet.load(ordering: .relaxed) { throw CancellationError() }
            guard let entry = try entry(row, context) else { continue }
            let values = try walk.order.columns.indices.map { try Self.value(row, Self.columnCount + $0) }
            guard try body(Found(entry: entry, values: values)) else { return }
        }
    }

    private static let columnCount = 17

    private static func value(_ row: Row, _ index: Int) throws -> SearchPlace.Value {
        switch (row[index] as DatabaseValue).storage {
        case .int64(let number): .integer(number)
        case .blob(let bytes): .bytes(bytes)
        case .string(let text): .bytes(Data(text.utf8))
        // No column of an order is either.
        case .double, .null: .integer(0)
        }
    }

    private func statement(
        _ walk: Walk, _ database: Database
    ) throws -> (String, [(any DatabaseValueConvertible)?]) {
        var tables = "entry JOIN folder ON folder.id = entry.folder"
        var conditions = ["entry.flags & 2 = 0", "folder.gone = 0"]
        var arguments: [(any DatabaseValueConvertible)?] = []
        var number = "entry.id"
        var parts = Narrowing.parts(of: query.condition)
        if walk.isByNumber, let pattern = query.condition.requiredPattern {
            // The index of names gives them by their numbers, one after the other: only as many as are wanted.
            number = "name_index.rowid"
            tables =
                "name_index CROSS JOIN entry ON entry.id = name_index.rowid CROSS JOIN folder ON folder.id = entry.folder"
            conditions.append("name_index MATCH ?")
            arguments.append(pattern)
            parts = parts.filter { !$0.asksNames }.map(\.withoutIndexes)
        } else if walk.isByNumber || walk.order.isIndexed {
            parts = try parts.compactMap { part in
                guard part.isIndexed, try isDense(part, database) else { return part }
                return part.asksNames ? nil : part.withoutIndexes
            }
        }
        for part in parts {
            conditions.append(part.sql)
            arguments += part.arguments
        }
        if let from = walk.from {
            conditions.append("\(number) > ?")
            arguments.append(from)
        }
        if let through = walk.through {
            conditions.append("\(number) <= ?")
            arguments.append(through)
        }
        if let behind = walk.behind {
            let condition = walk.order.condition(behind: behind)
            conditions.append(condition.sql)
            arguments += condition.arguments.map(Optional.some)
        }
        let empty =
            needs.emptiness
            ? """
            CASE entry.kind WHEN 0 THEN entry.size = 0
                WHEN 1 THEN NOT EXISTS (SELECT 1 FROM entry AS inner WHERE inner.folder = entry.id AND inner.flags & 2 = 0)
                    AND EXISTS (SELECT 1 FROM folder AS own WHERE own.id = entry.id AND own.problem IS NULL)
                ELSE 0 END
            """ : "0"
        let sql = """
            SELECT entry.id, folder.path, entry.name, entry.kind, entry.category, entry.size, entry.modified, entry.added,
                folder.location, entry.flags, \(empty),
                EXISTS (SELECT 1 FROM tag_use WHERE tag_use.entry = entry.id), entry.created,
                annotation.favorite, annotation.rating, annotation.note,
                \(needs.duplication ? IdentitySQL.isDuplicate : "0"),
                \(walk.order.columns.map(\.sql).joined(separator: ", "))
            FROM \(tables) LEFT JOIN annotation ON annotation.entry = entry.id
            WHERE \(conditions.joined(separator: " AND "))
            ORDER BY \(walk.isByNumber ? number : walk.order.sql)
            """
        return (sql, arguments)
    }

    /// Tells whether an index of the database would give so many that they are rather tried in the order of the answer.
    private func isDense(_ part: Narrowing, _ database: Database) throws -> Bool {
        let count = try Int.fetchOne(
            database,
            sql: """
                SELECT count(*) FROM (
                    SELECT 1 FROM entry JOIN folder ON folder.id = entry.folder WHERE \(part.sql)
                    LIMIT \(FileIndex.sortedLimit))
                """, arguments: StatementArguments(part.arguments))
        return count == FileIndex.sortedLimit
    }

    // MARK: - What was read

    /// What is the same for all entries.
    private struct Context {
        var locations: [Int64: (name: String, isOffline: Bool)] = [:]
        let tags: TagTree
        let database: Database
        let content: ContentKnowledge

        init(_ needs: ContentNeeds, _ database: Database) throws {
            self.database = database
            content = try ContentKnowledge(needs, database)
            for row in try Row.fetchAll(database, sql: "SELECT id, name, problem IS NOT NULL FROM location") {
                locations[row[0]] = (row[1], row[2])
            }
            tags = try TagTree(database)
        }
    }

    /// The entry of a row; `nil` when it does not meet the condition.
    private func entry(_ row: Row, _ context: Context) throws -> FoundEntry? {
        let bytes = { (index: Int) throws -> [UInt8] in
            try row.withUnsafeData(atIndex: index) { $0.map { [UInt8]($0) } ?? [] }
        }
        let nameBytes = try bytes(2)
        let name = NameFolding.display(nameBytes)
        guard names.allSatisfy({ $0.matches(name) }) else { return nil }
        let kind: EntryKind =
            switch StoredKind(rawValue: row[3]) {
            case .file: .file
            case .folder: .folder
            case .link: .link
            case .special, nil: .other
            }
        let flags = IndexSchema.Flags(rawValue: row[9])
        let size: Int64 = row[5]
        let id: Int64 = row[0]
        let entry = FoundEntry(
            id: id, folder: try bytes(1), name: nameBytes, kind: kind,
            category: kind == .other ? .other : FileCategory(rawValue: row[4]),
            size: kind == .file ? UInt64(clamping: size) : 0,
            modified: row[6], created: row[12], added: row[7], location: row[8], isHidden: flags.contains(.hidden),
            tags: row[11] ? try context.tags.paths(of: id, context.database) : [],
            annotation: Annotation(isFavorite: row[13] ?? false, rating: row[14] ?? 0, note: row[15]))
        let location = context.locations[entry.location]
        var found: Set<EntryFlag> = []
        if entry.isHidden { found.insert(.hidden) }
        if entry.annotation.isFavorite { found.insert(.favorite) }
        if row[10] { found.insert(.empty) }
        if row[16] { found.insert(.duplicate) }
        if location?.isOffline == true { found.insert(.offline) }
        var dates: [DateField: Int64] = [.modified: Self.seconds(entry.modified), .added: entry.added]
        if let created = entry.created { dates[.created] = Self.seconds(created) }
        var subject = Subject(
            name: name, path: needs.path ? NameFolding.display(entry.path) : "", kind: kind,
            category: entry.category, size: kind == .file ? entry.size : nil, dates: dates, tags: entry.tags,
            location: location?.name, device: device, flags: found, rating: entry.annotation.rating,
            note: entry.annotation.note)
        try context.content.complete(&subject, id)
        return query.matches(subject) ? entry : nil
    }

    private static func seconds(_ nanoseconds: Int64) -> Int64 {
        let (whole, rest) = nanoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
        return rest < 0 ? whole - 1 : whole
    }
}

extension Condition {
    /// What the name of every entry meets that meets this.
    fileprivate var requiredNames: [NameMatch] {
        switch self {
        case .all(let conditions): conditions.flatMap(\.requiredNames)
        case .term(.name(let match)): [match]
        case .everything, .any, .not, .term: []
        }
    }

    /// The texts that names are asked for, outside of negations.
    fileprivate var words: [String] {
        switch self {
        case .everything, .not: []
        case .all(let conditions), .any(let conditions): conditions.flatMap(\.words)
        case .term(.name(let match)):
            switch match {
            case .contains(let text), .prefix(let text), .suffix(let text), .exact(let text): [text]
            case .glob(let glob): glob.parts.compactMap { if case .text(let text) = $0 { text } else { nil } }
            case .regex(let expression): expression.requiredText.map { [$0] } ?? []
            }
        case .term: []
        }
    }
}
