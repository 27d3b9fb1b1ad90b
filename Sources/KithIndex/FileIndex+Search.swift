import Foundation
import GRDB
package import KithCatalog
package import KithWire

extension FileIndex {
    /// The most entries of a page.
    package static let pageLimit = 1_000
    /// The last place at which a page may begin.
    package static let placeLimit = 10_000_000
    /// Of so many that match, those that fit best come first; the rest follows as it was found.
    static let rankedLimit = 1_000

    /// Finds entries.
    ///
    /// Without an order of its own a query that names words answers with those that fit best: the whole name, its
    /// beginning, the beginning of a word, then anywhere; shorter names first.
    ///
    /// - Parameters:
    ///   - query: What is searched. Of its order the first key counts, then the path.
    ///   - device: The name of this device, for `device:`.
    ///   - after: Where the page begins: ``FoundPage/next`` of the one before, 0 at first; more than 10,000,000 counts as
    ///     that.
    ///   - limit: The most entries, 1…1,000; more count as that.
    /// - Returns: what was found of it.
    /// - Throws: `.unsupported` for a property that the index does not hold; `.internal`, `.corrupt` for what the database
    ///   says.
    package func search(
        _ query: SearchQuery, device: String = "", after: Int = 0, limit: Int = 50
    ) async throws(KithError) -> FoundPage {
        if let unknown = query.unknownProperty {
            throw KithError(.unsupported, "The library does not know \(unknown) yet: nothing can be found by it.")
        }
        do {
            let search = Search(
                query, device: device, skip: min(max(after, 0), Self.placeLimit),
                limit: min(max(limit, 1), Self.pageLimit))
            return try await database.read { try search.run($0) }
        } catch {
            throw Self.failure("search", error)
        }
    }
}

/// One search, within one transaction.
private struct Search: Sendable {
    private let query: SearchQuery
    private let device: String
    private let skip: Int
    private let limit: Int
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

    init(_ query: SearchQuery, device: String, skip: Int, limit: Int) {
        (self.query, self.device, self.skip, self.limit) = (query, device, skip, limit)
        needs = Needs(query.condition)
        content = ContentNeeds(query.condition)
        names = query.condition.requiredNames
    }

    func run(_ database: Database) throws -> FoundPage {
        var page = try page(database)
        guard !content.shown.isEmpty else { return page }
        for index in page.entries.indices {
            page.entries[index].snippet = try Snippet(of: page.entries[index].id, content.shown, database)
        }
        return page
    }

    private func page(_ database: Database) throws -> FoundPage {
        let words = query.condition.words
        let key = query.sort.first
        let isRanked = key.map { $0.field == .relevance } ?? !words.isEmpty
        let (sql, arguments) = statement(isRanked: isRanked)
        let context = try Context(content, database)
        let rows = try Row.fetchCursor(
            try database.cachedStatement(sql: sql), arguments: StatementArguments(arguments))
        return isRanked ? try ranked(rows, context, words) : try ordered(rows, context)
    }

    /// In the order of the database, until the page is full.
    private func ordered(_ rows: RowCursor, _ context: Context) throws -> FoundPage {
        var (entries, seen) = ([FoundEntry](), 0)
        while let row = try rows.next() {
            guard let entry = try entry(row, context) else { continue }
            seen += 1
            guard seen > skip else { continue }
            if entries.count == limit { return FoundPage(entries: entries, next: skip + limit, total: nil) }
            entries.append(entry)
        }
        return FoundPage(entries: entries, next: nil, total: seen)
    }

    /// The best of the first that match, then those after them.
    private func ranked(_ rows: RowCursor, _ context: Context, _ words: [String]) throws -> FoundPage {
        var candidates: [(rank: Rank, entry: FoundEntry)] = []
        var isWhole = true
        let most = max(FileIndex.rankedLimit, skip + limit + 1)
        while let row = try rows.next() {
            guard let entry = try entry(row, context) else { continue }
            if candidates.count == most {
                isWhole = false
                break
            }
            candidates.append((Rank(entry, words), entry))
        }
        candidates.sort { $0.rank < $1.rank }
        let page = candidates.dropFirst(skip).prefix(limit).map(\.entry)
        let hasMore = !isWhole || candidates.count > skip + limit
        return FoundPage(
            entries: page, next: hasMore && !page.isEmpty ? skip + page.count : nil,
            total: isWhole ? candidates.count : nil)
    }

    // MARK: - The statement

    private func statement(isRanked: Bool) -> (String, [(any DatabaseValueConvertible)?]) {
        let narrowing = Narrowing(query.condition)
        let empty =
            needs.emptiness
            ? """
            CASE entry.kind WHEN 0 THEN entry.size = 0
                WHEN 1 THEN NOT EXISTS (SELECT 1 FROM entry AS inner WHERE inner.folder = entry.id)
                    AND EXISTS (SELECT 1 FROM folder AS own WHERE own.id = entry.id AND own.problem IS NULL)
                ELSE 0 END
            """ : "0"
        let sql = """
            SELECT entry.id, folder.path, entry.name, entry.kind, entry.category, entry.size, entry.modified, entry.added,
                folder.location, entry.flags, \(empty),
                EXISTS (SELECT 1 FROM tag_use WHERE tag_use.entry = entry.id),
                \(needs.duplication ? IdentitySQL.isDuplicate : "0")
            FROM entry JOIN folder ON folder.id = entry.folder
            WHERE entry.flags & 2 = 0 AND \(narrowing?.sql ?? "TRUE")
            \(isRanked ? "" : "ORDER BY \(order)")
            """
        return (sql, narrowing?.arguments ?? [])
    }

    /// The first key, then what makes the order one that holds from page to page.
    private var order: String {
        let key = query.sort.first ?? SortKey(.name)
        let column =
            switch key.field {
            case .relevance, .name: "lower(CAST(entry.name AS TEXT))"
            case .path: "folder.path"
            case .size: "entry.size"
            case .kind: "entry.kind"
            case .ext: "entry.extension"
            case .modified: "entry.modified"
            // The last two are refused before.
            case .added, .created, .rating: "entry.added"
            }
        let direction = key.isDescending ? "DESC" : "ASC"
        let then =
            switch key.field {
            case .path: "entry.name \(direction)"
            case .kind: "entry.category \(direction), entry.id"
            default: "entry.id \(direction)"
            }
        return "\(column) \(direction), \(then)"
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
            case .folder: .folder
            case .link: .link
            default: .file
            }
        let flags = IndexSchema.Flags(rawValue: row[9])
        let size: Int64 = row[5]
        let id: Int64 = row[0]
        let entry = FoundEntry(
            id: id, folder: try bytes(1), name: nameBytes, kind: kind,
            category: FileCategory(rawValue: row[4]), size: kind == .file ? UInt64(clamping: size) : 0,
            modified: row[6], added: row[7], location: row[8], isHidden: flags.contains(.hidden),
            tags: row[11] ? try context.tags.paths(of: id, context.database) : [])
        let location = context.locations[entry.location]
        var found: Set<EntryFlag> = []
        if entry.isHidden { found.insert(.hidden) }
        if row[10] { found.insert(.empty) }
        if row[12] { found.insert(.duplicate) }
        if location?.isOffline == true { found.insert(.offline) }
        var subject = Subject(
            name: name, path: needs.path ? NameFolding.display(entry.path) : "", kind: kind,
            category: entry.category, size: kind == .file ? entry.size : nil,
            dates: [.modified: Self.seconds(entry.modified), .added: entry.added], tags: entry.tags,
            location: location?.name, device: device, flags: found)
        try context.content.complete(&subject, id)
        return query.matches(subject) ? entry : nil
    }

    private static func seconds(_ nanoseconds: Int64) -> Int64 {
        let (whole, rest) = nanoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
        return rest < 0 ? whole - 1 : whole
    }
}

/// How well the name of an entry fits the words of a query; the least fits best.
private struct Rank: Comparable {
    private let place: Int
    private let length: Int
    private let folder: Int
    private let id: Int64

    init(_ entry: FoundEntry, _ words: [String]) {
        let name = foldedName(entry.name)
        place = words.map { Self.place(of: $0, in: name) }.reduce(0, +)
        (length, folder, id) = (entry.name.count, entry.folder.count, entry.id)
    }

    private static func place(of word: String, in name: String) -> Int {
        let (text, wanted) = (Array(name.utf8), Array(word.utf8))
        guard !wanted.isEmpty, text.count >= wanted.count else { return 4 }
        if text.starts(with: wanted) {
            if text.count == wanted.count { return 0 }
            return text[wanted.count] == UInt8(ascii: ".") ? 1 : 2
        }
        // At the beginning of a word: after what is neither a letter nor a digit.
        for start in 1..<max(text.count - wanted.count + 1, 1)
        where text[start] == wanted[0] && !Self.isWordByte(text[start - 1]) && text[start...].starts(with: wanted) {
            return 3
        }
        return 4
    }

    private static func isWordByte(_ byte: UInt8) -> Bool {
        byte >= 0x80 || byte >= 0x30 && byte <= 0x39 || byte >= 0x61 && byte <= 0x7A
    }

    static func < (left: Rank, right: Rank) -> Bool {
        (left.place, left.length, left.folder, left.id) < (right.place, right.length, right.folder, right.id)
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

extension SearchQuery {
    /// A property that is asked for, or sorted by, and that no index holds yet; `nil` when there is none.
    fileprivate var unknownProperty: String? {
        if let unknown = condition.unknownProperty { return unknown }
        for key in sort where key.field == .created || key.field == .rating { return "sort:\(key.field.rawValue)" }
        return nil
    }
}

extension Condition {
    fileprivate var unknownProperty: String? {
        switch self {
        case .everything: return nil
        case .not(let condition): return condition.unknownProperty
        case .all(let conditions), .any(let conditions):
            return conditions.lazy.compactMap(\.unknownProperty).first
        case .term(let term):
            switch term {
            case .date(.created, _): return "created:"
            case .flag(.favorite): return "is:favorite"
            case .rating: return "rating:"
            case .note: return "note:"
            case .content, .measure, .camera, .has, .name, .path, .inFolder, .category, .entry, .fileExtension, .size, .date, .tag, .untagged, .location,
                .device, .flag:
                return nil
            }
        }
    }
}
