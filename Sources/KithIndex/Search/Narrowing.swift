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
    /// True when that is the index of names.
    private(set) var asksNames = false

    /// What narrows a condition down, each part by itself: an entry meets all of them.
    static func parts(of condition: Condition) -> [Narrowing] {
        // One question to the index of names, not one for each word.
        let names = condition.requiredPattern.map { [Self.names($0)] } ?? []
        let rest = if case .all(let conditions) = condition { conditions } else { [condition] }
        return names + rest.filter { $0.namePattern == nil }.compactMap { Narrowing($0) }
    }

    /// What narrows a condition down; `nil` when nothing does.
    private init?(_ condition: Condition) {
        if let pattern = condition.namePattern {
            self = Self.names(pattern)
            return
        }
        switch condition {
        case .everything, .not: return nil
        case .all:
            let parts = Self.parts(of: condition)
            self.init(parts, joined: " AND ")
            isIndexed = parts.contains(where: \.isIndexed)
        case .any(let conditions):
            // Of any, each has to be narrow.
            let parts = conditions.compactMap { Narrowing($0) }
            guard parts.count == conditions.count else { return nil }
            if parts.isEmpty { self.init("FALSE") } else { self.init(parts, joined: " OR ") }
            isIndexed = parts.allSatisfy(\.isIndexed)
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
        case .name(let match):
            guard let text = NameParts(match).shortText else { return nil }
            self.init("CAST(entry.name AS TEXT) LIKE ? ESCAPE '\\'", ["%\(text)%"])
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
        case .path, .untagged, .location, .device, .flag, .date: return nil
        }
    }

    /// What is known of the content of a file.
    private static func media(_ condition: Narrowing?) -> Narrowing {
        Narrowing(
            "entry.id IN (SELECT entry FROM media WHERE \(condition?.sql ?? "TRUE"))", condition?.arguments ?? [])
    }

    private static func names(_ pattern: String) -> Narrowing {
        var names = Narrowing("entry.id IN (SELECT rowid FROM name_index WHERE name_index MATCH ?)", [pattern])
        (names.isIndexed, names.asksNames) = (true, true)
        return names
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
    /// The question for the index of names that says as much as this condition does; `nil` for one not on names alone.
    fileprivate var namePattern: String? {
        switch self {
        case .term(.name(let match)): return NameParts(match).pattern
        case .any(let conditions):
            let patterns = conditions.compactMap(\.namePattern)
            guard !patterns.isEmpty, patterns.count == conditions.count else { return nil }
            return patterns.map { "(\($0))" }.joined(separator: " OR ")
        case .all, .everything, .not, .term: return nil
        }
    }

    /// The question for the index of names that every entry answers which meets this condition.
    var requiredPattern: String? {
        if let namePattern { return namePattern }
        guard case .all(let conditions) = self else { return nil }
        let patterns = conditions.compactMap(\.namePattern)
        return patterns.isEmpty ? nil : patterns.map { "(\($0))" }.joined(separator: " AND ")
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

/// The texts of three characters or more that every name has which a match finds.
struct NameParts {
    private var texts: [String]

    init(_ match: NameMatch) {
        switch match {
        case .contains(let text), .prefix(let text), .suffix(let text), .exact(let text): texts = [text]
        case .glob(let glob):
            texts = glob.parts.compactMap { if case .text(let text) = $0 { text } else { nil } }
        case .regex(let expression): texts = expression.requiredText.map { [$0] } ?? []
        }
    }

    /// A text in ASCII, too short for the index of names, as a pattern of LIKE; `nil` when there is none.
    ///
    /// LIKE knows no case but that of ASCII: the Kelvin sign is a `k` for it only after folding.
    var shortText: String? {
        guard let text = texts.max(by: { $0.utf8.count < $1.utf8.count }), !text.isEmpty,
            text.utf8.allSatisfy({ $0 < 0x80 && $0 != UInt8(ascii: "k") })
        else { return nil }
        return text.replacing("\\", with: "\\\\").replacing("%", with: "\\%").replacing("_", with: "\\_")
    }

    /// The query for the index of names; `nil` when no part is long enough.
    var pattern: String? {
        var parts: [String] = []
        for text in texts {
            let scalars = Array(text.unicodeScalars)
            guard scalars.count >= 3 else { continue }
            // Overlapping parts say no more than those side by side, and the last one.
            for start in Array(stride(from: 0, through: scalars.count - 3, by: 3)) + [scalars.count - 3] {
                var part = ""
                part.unicodeScalars.append(contentsOf: scalars[start..<(start + 3)])
                let quoted = "\"\(part.replacing("\"", with: "\"\""))\""
                if !parts.contains(quoted) { parts.append(quoted) }
            }
        }
        return parts.isEmpty ? nil : parts.joined(separator: " AND ")
    }
}
