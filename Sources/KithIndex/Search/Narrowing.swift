import Foundation
import GRDB
import KithCatalog

/// A condition in SQL that every entry meets which meets a ``Condition``, and as few others as it costs nothing to leave
/// out: what is read is tried on the condition itself.
struct Narrowing {
    /// An expression over the tables `entry` and `folder`; each of their columns is written with its table before it.
    var sql: String
    var arguments: [(any DatabaseValueConvertible)?]

    /// True when an index of the database gives what meets it.
    private(set) var isIndexed = false
    /// What its index alone can tell, where the rest has to be read from the table: true of all that meet it.
    private(set) var indexed: String?
    /// True when it says what the names in memory do.
    private(set) var asksNames = false

    /// The numbers of the entries whose names a match finds; `nil` when they are too many.
    typealias Numbers = (NameMatch) -> [Int64]?

    /// What narrows a condition down, each part by itself: an entry meets all of them.
    ///
    /// What it says of names alone is left out.
    static func parts(of condition: Condition, _ numbers: Numbers) -> [Narrowing] {
        let all = if case .all(let conditions) = condition { conditions } else { [condition] }
        return all.filter { !$0.isOnNames }.compactMap { Narrowing($0, numbers) }
    }

    /// The entries with these numbers.
    init(among ids: [Int64]) {
        self.init("entry.id IN (SELECT value FROM json_each(?))", [EntrySearch.list(ids)])
        (isIndexed, asksNames) = (true, true)
    }

    /// What narrows a condition down; `nil` when nothing does.
    private init?(_ condition: Condition, _ numbers: Numbers) {
        switch condition {
        case .everything, .not: return nil
        case .all(let conditions):
            let parts = conditions.compactMap { Narrowing($0, numbers) }
            self.init(parts, joined: " AND ")
            isIndexed = parts.contains(where: \.isIndexed)
        case .any(let conditions):
            // Of any, each has to be narrow.
            let parts = conditions.compactMap { Narrowing($0, numbers) }
            guard parts.count == conditions.count else { return nil }
            if parts.isEmpty { self.init("FALSE") } else { self.init(parts, joined: " OR ") }
            isIndexed = parts.allSatisfy(\.isIndexed)
        case .term(.name(let match)):
            guard let ids = numbers(match) else { return nil }
            self.init(among: ids)
        case .term(let term): self.init(term)
        }
    }

    /// The same, for a table that is read in another order than that of the columns in it.
    var withoutIndexes: Narrowing {
        // A sign before a column hides it from those.
        Narrowing(
            sql.replacing("entry.", with: "+entry.").replacing("folder.path", with: "+folder.path"), arguments)
    }

    private init(_ sql: String, _ arguments: [(any DatabaseValueConvertible)?] = []) {
        (self.sql, self.arguments) = (sql, arguments)
    }

    private init?(_ parts: [Narrowing], joined separator: String) {
        guard !parts.isEmpty else { return nil }
        self.init("(" + parts.map(\.sql).joined(separator: separator) + ")", parts.flatMap(\.arguments))
    }

    private init?(_ term: Term) {
        switch term {
        case .inFolder(let folder):
            // Not every file system keeps names in the form in which they are asked for.
            guard folder.utf8.first == UInt8(ascii: "/"), folder.utf8.allSatisfy({ $0 < 0x80 }) else { return nil }
            let path = Array(folder.utf8)
            self.init(
                "(folder.path = ? OR folder.path >= ? AND folder.path < ?)",
                [Data(path), path.beneath.from, path.beneath.to])
            isIndexed = true
        case .category(let categories):
            self.init("entry.category", in: categories.map(\.rawValue).sorted())
            // What is neither file, folder nor link is no file of a category in the database.
            if categories.contains(.other) { sql = "(\(sql) OR entry.kind = 3)" }
        case .entry(let kind): self.init("entry.kind = ?", [StoredKind(kind).rawValue])
        case .fileExtension(let extensions):
            // The last part of those with dots.
            let last = Set(extensions.map { $0.split(separator: ".").last.map(String.init) ?? $0 })
            guard last.allSatisfy({ $0.utf8.count <= 16 }) else { return nil }
            self.init("entry.extension", in: last.sorted())
            isIndexed = true
        case .size(let range):
            self.init(
                "entry.size", from: range.from.map(Int64.init(clamping:)),
                through: range.through.map(Int64.init(clamping:)))
            indexed = sql
            // Folders have a size on the disk, and none for a search.
            sql = "(entry.kind = 0 AND \(sql))"
            isIndexed = true
        case .date(.modified, let range):
            self.init(
                "entry.modified", from: range.from.map { Self.nanoseconds($0) },
                through: range.until.map { Self.nanoseconds($0) })
            isIndexed = true
        case .date(.created, let range):
            guard range.from != nil || range.until != nil else { return nil }
            self.init(
                "entry.created", from: range.from.map { Self.nanoseconds($0) },
                through: range.until.map { Self.nanoseconds($0) })
        case .date(.added, let range): self.init("entry.added", from: range.from, through: range.until)
        case .tag: self.init("entry.id IN (SELECT entry FROM tag_use)")
        case .flag(.hidden): self.init("entry.flags & 1")
        case .content(let phrase):
            self.init(
                "entry.id IN (SELECT rowid FROM text_index WHERE text_index MATCH ?)", [PhrasePattern.pattern(phrase)])
        case .date(.taken, let range):
            self = Self.media(Narrowing("taken", from: range.from, through: range.until))
        case .measure(let measure, let range):
            self = Self.media(
                Narrowing(
                    measure.rawValue, from: range.from.map(Int64.init(clamping:)),
                    through: range.through.map(Int64.init(clamping:))))
        case .camera: self = Self.media(Narrowing("camera IS NOT NULL"))
        case .has(.gps): self = Self.media(Narrowing("has_place"))
        case .has(.text): self.init("entry.id IN (SELECT entry FROM extraction WHERE text > 0)")
        case .flag(.favorite): self.init("entry.id IN (SELECT entry FROM annotation WHERE favorite)")
        case .rating(let range):
            guard range.lowerBound > 0 else { return nil }
            self.init(
                "entry.id IN (SELECT entry FROM annotation WHERE rating BETWEEN ? AND ?)",
                [range.lowerBound, range.upperBound])
        case .note: self.init("entry.id IN (SELECT entry FROM annotation WHERE note IS NOT NULL)")
        case .name, .path, .untagged, .location, .device, .flag, .date: return nil
        }
    }

    /// What is known of the content of a file.
    private static func media(_ condition: Narrowing?) -> Narrowing {
        Narrowing(
            "entry.id IN (SELECT entry FROM media WHERE \(condition?.sql ?? "TRUE"))", condition?.arguments ?? [])
    }

    private init(_ column: String, in values: [String]) {
        self.init(
            "\(column) IN (\(values.map { _ in "?" }.joined(separator: ", ")))", values)
    }

    private init?(_ column: String, from: Int64?, through: Int64?) {
        let parts = [from.map { Narrowing("\(column) >= ?", [$0]) }, through.map { Narrowing("\(column) <= ?", [$0]) }]
        self.init(parts.compactMap(\.self), joined: " AND ")
    }

    private static func nanoseconds(_ seconds: Int64) -> Int64 {
        let (whole, isTooLarge) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        return isTooLarge ? (seconds < 0 ? .min : .max) : whole
    }
}

extension Condition {
    /// True when it is on names alone.
    fileprivate var isOnNames: Bool {
        switch self {
        case .all(let conditions), .any(let conditions): conditions.allSatisfy(\.isOnNames)
        case .term(.name): true
        case .everything, .not, .term: false
        }
    }
}

extension StoredKind {
    init(_ kind: EntryKind) {
        self =
            switch kind {
            case .folder: .folder
            case .file: .file
            case .link: .link
            case .other: .special
            }
    }
}
