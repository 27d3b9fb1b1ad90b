import Foundation
import GRDB
import KithCatalog
import KithWire
import Synchronization

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
    private let requiredNames: [NameMatch]
    private let filter: NameFilter?
    private let words: [String]
    /// The names as its transaction sees them.
    private var names: NameTable.Names?

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
        requiredNames = query.condition.requiredNames
        filter = NameFilter(query.condition)
        words = query.condition.words
    }

    /// True when it cannot run without the names.
    var needsNames: Bool { isRanked || query.condition.asksForNames }

    func with(_ names: NameTable.Names) -> EntrySearch {
        var search = self
        search.names = names
        return search
    }

    private var isRanked: Bool {
        query.sort.first.map { $0.field == .relevance } ?? !words.isEmpty
    }

    // MARK: - Pages

    func page(_ database: Database, after: SearchPlace?, limit: Int) throws -> FoundPage {
        let order = SearchOrder(query.sort)
        let name = (isRanked ? "ranked " : "") + order.name
        if let after {
            let isWhole = after.values.count == order.columns.count && (after.rank != nil) == isRanked
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

    /// Those that fit best, whatever their number.
    private func ranked(
        _ database: Database, _ order: SearchOrder, _ name: String, _ after: SearchPlace?, _ limit: Int
    ) throws -> FoundPage {
        var page = FoundPage(entries: [], hasMore: false, total: nil, places: [])
        let isOfFiles = query.condition.isOfFiles
        var ranks = names?.ranks(filter, words, isOfFiles: isOfFiles) { stop.isSet.load(ordering: .relaxed) } ?? []
        if stop.isSet.load(ordering: .relaxed) { throw CancellationError() }
        if after == nil, filter?.isWhole == true, try !isAnythingGone(database) { page.total = ranks.count }
        try narrow(&ranks, database, isExhaustive: false)
        let isReversed = query.sort.first?.isDescending ?? false
        // Returns false once the page is full.
        func add(_ found: Found, _ rank: Rank) -> Bool {
            if page.entries.count == limit {
                page.hasMore = true
                return false
            }
            page.entries.append(found.entry)
            page.places.append(SearchPlace(order: name, values: found.values, rank: rank))
            return true
        }
        if order.columns.count > 1 {
            try forEachLevel(ranks, isReversed, order, after, database, add)
        } else {
            try forEachRank(&ranks, isReversed, limit, after, database, add)
        }
        guard after == nil, page.total == nil else { return page }
        if !page.hasMore {
            page.total = page.entries.count
        } else if ranks.count <= FileIndex.countedLimit {
            page.total = try count(ranks.map(\.id), database)
        }
        return page
    }

    /// Goes through the entries that meet the condition by their ranks.
    private func forEachRank(
        _ ranks: inout [Rank], _ isReversed: Bool, _ limit: Int, _ after: SearchPlace?, _ database: Database,
        _ body: (Found, Rank) throws -> Bool
    ) throws {
        let context = try Context(content, database)
        var (last, size, tried) = (after?.rank, limit + 14, 0)
        while true {
            let next = ranks.first(size, isReversed: isReversed, behind: last)
            // Few of the first met the rest of the query.
            let kept = tried > 0 ? try numbers(among: next, database) : nil
            var wanted = next.filter { kept?.contains($0.id) ?? true }[...]
            while !wanted.isEmpty {
                let part = wanted.prefix(limit + 14)
                wanted = wanted.dropFirst(part.count)
                var found: [Int64: Found] = [:]
                try forEach(database, Walk(order: SearchOrder([]), behind: nil, ids: part.map(\.id)), context) {
                    found[$0.entry.id] = $0
                    return true
                }
                for rank in part {
                    guard let found = found[rank.id] else { continue }
                    guard try body(found, rank) else { return }
                }
            }
            guard next.count == size, let behind = next.last else { return }
            last = behind
            tried += size
            size = min(size * 4, FileIndex.triedLimit)
            if tried >= FileIndex.triedLimit {
                try narrow(&ranks, database, isExhaustive: true)
                tried = .min
            }
        }
    }

    /// Goes through the entries that meet the condition by how well their names fit, and in an order of those that fit
    /// alike.
    private func forEachLevel(
        _ ranks: [Rank], _ isReversed: Bool, _ order: SearchOrder, _ after: SearchPlace?, _ database: Database,
        _ body: (Found, Rank) throws -> Bool
    ) throws {
        var levels: [UInt64: [Rank]] = [:]
        for rank in ranks { levels[rank.fit, default: []].append(rank) }
        for fit in levels.keys.sorted(by: { isReversed ? $1 < $0 : $0 < $1 }) {
            guard let level = levels[fit] else { continue }
            if let reached = after?.rank, isReversed ? reached.fit < fit : fit < reached.fit { continue }
            let behind = after?.rank?.fit == fit ? after?.values : nil
            let byNumber = Dictionary(level.map { ($0.id, $0) }, uniquingKeysWith: { first, _ in first })
            var isFull = false
            try forEach(database, Walk(order: order, behind: behind, ids: level.map(\.id))) { found in
                guard let rank = byNumber[found.entry.id] else { return true }
                isFull = try !body(found, rank)
                return !isFull
            }
            if isFull { return }
        }
    }

    /// Leaves out what does not meet the parts of the condition that are not on names: when few do, or in any case.
    private func narrow(_ ranks: inout [Rank], _ database: Database, isExhaustive: Bool) throws {
        var parts = parts
        if !isExhaustive { parts = try parts.filter { try $0.isIndexed && !isDense($0, database) } }
        guard !parts.isEmpty else { return }
        let kept = try numbers(parts, database)
        ranks.removeAll { !kept.contains($0.id) }
    }

    /// Those of some entries that meet the parts of the condition that are not on names; `nil` when there are none.
    private func numbers(among ranks: [Rank], _ database: Database) throws -> Set<Int64>? {
        let parts = parts.map(\.withoutIndexes)
        return parts.isEmpty ? nil : try numbers(parts + [Narrowing(among: ranks.map(\.id))], database)
    }

    private func numbers(_ parts: [Narrowing], _ database: Database) throws -> Set<Int64> {
        let tables =
            parts.contains { $0.sql.contains("folder.") } ? "entry JOIN folder ON folder.id = entry.folder" : "entry"
        let numbers = try Int64.fetchCursor(
            database,
            sql: "SELECT entry.id FROM \(tables) WHERE \(parts.map(\.sql).joined(separator: " AND "))",
            arguments: StatementArguments(parts.flatMap(\.arguments)))
        var kept: Set<Int64> = []
        while let number = try numbers.next() {
            if stop.isSet.load(ordering: .relaxed) { throw CancellationError() }
            kept.insert(number)
        }
        return kept
    }

    /// True when names may be in memory that are not found any more, as a scan has not ended.
    private func isAnythingGone(_ database: Database) throws -> Bool {
        try Bool.fetchOne(
            database.cachedStatement(
                sql: "SELECT EXISTS (SELECT 1 FROM entry WHERE flags & 2 AND folder <> 0)")) ?? true
    }

    private func count(_ ids: [Int64], _ database: Database) throws -> Int {
        var count = 0
        try forEach(database, Walk(byNumber: true, ids: ids)) { _ in
            count += 1
            return true
        }
        return count
    }

    // MARK: - The statement

    /// The way in which a search goes through the entries.
    struct Walk {
        /// The columns that are read of each, and its order unless it is that of the numbers.
        var order = SearchOrder([])
        var isByNumber = false
        var behind: [SearchPlace.Value]?
        /// Those among which it is.
        var ids: [Int64]?

        /// Goes through them in an order.
        init(order: SearchOrder, behind: [SearchPlace.Value]?, ids: [Int64]? = nil) {
            (self.order, self.behind, self.ids) = (order, behind, ids)
        }

        /// Goes through them by their numbers.
        init(byNumber: Bool, ids: [Int64]? = nil) { (isByNumber, self.ids) = (byNumber, ids) }
    }

    /// An entry, and the values of the columns of the order.
    struct Found {
        var entry: FoundEntry
        var values: [SearchPlace.Value]
    }

    /// Goes through what meets the condition, as long as `body` returns true.
    func forEach(
        _ database: Database, _ walk: Walk = Walk(byNumber: true), _ context: Context? = nil,
        _ body: (Found) throws -> Bool
    ) throws {
        let (sql, arguments) = try statement(walk, database)
        let context = try context ?? Context(content, database)
        let rows = try Row.fetchCursor(
            try database.cachedStatement(sql: sql), arguments: StatementArguments(arguments))
        while let row = try rows.next() {
            visiting()
            if stop.isSet.load(ordering: .relaxed) { throw CancellationError() }
            guard let found = try found(row, context, valueCount: walk.order.columns.count) else { continue }
            guard try body(found) else { return }
        }
    }

    private func found(_ row: Row, _ context: Context, valueCount: Int) throws -> Found? {
        guard let entry = try entry(row, context) else { return nil }
        return Found(
            entry: entry, values: try (0..<valueCount).map { try Self.value(row, Self.columnCount + $0) })
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
        var conditions = ["entry.flags & 2 = 0", "folder.gone = 0"]
        var arguments: [(any DatabaseValueConvertible)?] = []
        if let ids = walk.ids {
            conditions.append("entry.id IN (SELECT value FROM json_each(?))")
            arguments.append(Self.list(ids))
        } else {
            var parts = parts
            if walk.isByNumber || walk.order.isIndexed {
                parts = try parts.map { try $0.isIndexed && isDense($0, database) ? $0.withoutIndexes : $0 }
                if let few = few { parts.append(Narrowing(among: few)) }
            } else if let filter, !filter.choices.isEmpty, let numbers = names?.numbers(filter) {
                parts.append(Narrowing(among: numbers))
            }
            for part in parts {
                conditions.append(part.sql)
                arguments += part.arguments
            }
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
            FROM entry JOIN folder ON folder.id = entry.folder LEFT JOIN annotation ON annotation.entry = entry.id
            WHERE \(conditions.joined(separator: " AND "))
            ORDER BY \(walk.isByNumber ? "entry.id" : walk.order.sql)
            """
        return (sql, arguments)
    }

    /// What narrows the condition down, without what it says of names alone.
    private var parts: [Narrowing] {
        Narrowing.parts(of: query.condition) { match in
            // Of more it is cheaper to try the names of all.
            guard let names, let filter = NameFilter(.term(.name(match))) else { return nil }
            return names.numbers(filter, atMost: FileIndex.sortedLimit)
        }
    }

    /// The entries whose names pass, where they are few.
    private var few: [Int64]? {
        guard let names, let filter, !filter.choices.isEmpty else { return nil }
        return names.numbers(filter, atMost: FileIndex.sortedLimit)
    }

    static func list(_ ids: [Int64]) -> String { "[\(ids.map(String.init).joined(separator: ","))]" }

    /// Tells whether an index of the database would give so many that they are rather tried in the order of the answer.
    private func isDense(_ part: Narrowing, _ database: Database) throws -> Bool {
        if part.asksNames { return false }
        // Thousands of rows would be read from the table for a number that may be a little too high.
        let condition = part.indexed ?? part.sql
        let tables = condition.contains("folder.") ? "entry JOIN folder ON folder.id = entry.folder" : "entry"
        let count = try Int.fetchOne(
            database,
            sql: """
                SELECT count(*) FROM (
                    SELECT 1 FROM \(tables) WHERE \(condition) LIMIT \(FileIndex.sortedLimit))
                """, arguments: StatementArguments(part.arguments))
        return count == FileIndex.sortedLimit
    }

    // MARK: - What was read

    /// What is the same for all entries.
    struct Context {
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
        guard requiredNames.allSatisfy({ $0.matches(name) }) else { return nil }
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
    /// True when any part of it is on names.
    fileprivate var asksForNames: Bool {
        switch self {
        case .everything: false
        case .all(let conditions), .any(let conditions): conditions.contains(where: \.asksForNames)
        case .not(let condition): condition.asksForNames
        case .term(.name): true
        case .term: false
        }
    }

    /// True when only files meet it.
    fileprivate var isOfFiles: Bool {
        switch self {
        case .all(let conditions): conditions.contains(where: \.isOfFiles)
        case .any(let conditions): !conditions.isEmpty && conditions.allSatisfy(\.isOfFiles)
        case .term(.size), .term(.entry(.file)): true
        case .everything, .not, .term: false
        }
    }

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
