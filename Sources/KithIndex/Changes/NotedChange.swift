import Foundation
import GRDB

/// A change of tags, stars, marks and notes that a person made, kept so that it can be taken back.
package struct NotedChange: Hashable, Sendable {
    /// What was done.
    package enum Kind: String, Hashable, Sendable {
        /// Entries got tags, or lost some.
        case tags
        /// A tag was deleted with those beneath it.
        case deletedTag
        /// Stars, marks as a favourite or notes were changed.
        case annotation
        /// A change was taken back.
        case undo
    }

    /// Its name, a UUID in small letters.
    package var id: String
    package var kind: Kind
    /// Seconds since 1970.
    package var made: Int64
    /// The path of the first entry that is there still.
    package var first: [UInt8]?
    /// The number of entries it is about.
    package var entries: Int
    /// Some of its tags, each with those above it.
    package var tags: [String]
    /// Which of stars (`rating`), mark (`favorite`) and note (`note`) it changed.
    package var fields: [String]
    /// The change that this one took back.
    package var undoes: String?
    /// The change that took this one back.
    package var undoneBy: String?
}

/// What one step of a change is about.
enum ChangeTarget: Hashable {
    /// A tag itself, which is there or not.
    case tag([String])
    /// A tag of an entry.
    case use(Int64, [String])
    /// The mark of an entry as a favourite, 0 or 1.
    case favorite(Int64)
    /// The stars of an entry.
    case rating(Int64)
    /// The note on an entry, or none.
    case note(Int64)

    /// Reads one as it is stored; `nil` for what a later version wrote.
    init?(field: String, entry: Int64?, tag: String?) {
        let path = tag?.split(separator: "/").map(String.init)
        switch (field, entry, path) {
        case ("tag", nil, let path?): self = .tag(path)
        case ("tag", let entry?, let path?): self = .use(entry, path)
        case ("favorite", let entry?, nil): self = .favorite(entry)
        case ("rating", let entry?, nil): self = .rating(entry)
        case ("note", let entry?, nil): self = .note(entry)
        default: return nil
        }
    }

    /// The entry it is about.
    var entry: Int64? {
        switch self {
        case .tag: nil
        case .use(let entry, _), .favorite(let entry), .rating(let entry), .note(let entry): entry
        }
    }

    var field: String {
        switch self {
        case .tag, .use: "tag"
        case .favorite: "favorite"
        case .rating: "rating"
        case .note: "note"
        }
    }

    var tag: String? {
        switch self {
        case .tag(let path), .use(_, let path): path.joined(separator: "/")
        case .favorite, .rating, .note: nil
        }
    }
}

/// Takes the steps of a change together, and keeps them in its transaction.
struct ChangeRecorder {
    /// The most changes that are kept.
    static let maximumChanges = 1_000
    /// The most steps of all of them together.
    static let maximumSteps = 1_000_000
    /// How long a change is kept, in seconds.
    static let maximumAge: Int64 = 90 * 86_400

    private let kind: NotedChange.Kind
    private let undoes: String?
    private(set) var steps: [(target: ChangeTarget, before: DatabaseValue, after: DatabaseValue)] = []

    init(_ kind: NotedChange.Kind, undoes: String? = nil) { (self.kind, self.undoes) = (kind, undoes) }

    mutating func add(
        _ target: ChangeTarget, before: some DatabaseValueConvertible, after: some DatabaseValueConvertible
    ) {
        let (before, after) = (before.databaseValue, after.databaseValue)
        if before != after { steps.append((target, before, after)) }
    }

    /// Adds what is not as before of what is noted of an entry.
    mutating func add(_ entry: Int64, before: Annotation, after: Annotation) {
        add(.favorite(entry), before: before.isFavorite, after: after.isFavorite)
        add(.rating(entry), before: before.rating, after: after.rating)
        add(.note(entry), before: before.note.databaseValue, after: after.note.databaseValue)
    }

    /// Keeps the change; nothing when nothing has changed.
    ///
    /// - Returns: its name.
    @discardableResult
    func finish(_ database: Database, now: Int64) throws -> String? {
        guard !steps.isEmpty else { return nil }
        let id = UUID().uuidString.lowercased()
        try database.execute(
            sql: "INSERT INTO change (uuid, kind, made, steps, undoes) VALUES (?, ?, ?, ?, ?)",
            arguments: [id, kind.rawValue, now, steps.count, undoes])
        let change = database.lastInsertedRowID
        let insert = try database.cachedStatement(
            sql: """
                INSERT INTO change_step (change, number, entry, field, tag, before, after) VALUES (?, ?, ?, ?, ?, ?, ?)
                """)
        for (number, step) in steps.enumerated() {
            try insert.execute(arguments: [
                change, number, step.target.entry, step.target.field, step.target.tag, step.before, step.after,
            ])
        }
        if let undoes {
            try database.execute(sql: "UPDATE change SET undone_by = ? WHERE uuid = ?", arguments: [id, undoes])
        }
        try Self.prune(database, now: now, keeping: change)
        return id
    }

    /// Forgets what is too old, or too much; the last change always stays.
    private static func prune(_ database: Database, now: Int64, keeping last: Int64) throws {
        try database.execute(
            sql: """
                DELETE FROM change WHERE id <> ?1 AND (made < ?2 OR id NOT IN (
                    SELECT id FROM change ORDER BY id DESC LIMIT ?3))
                """, arguments: [last, now - maximumAge, maximumChanges])
        var left = maximumSteps
        for row in try Row.fetchAll(database, sql: "SELECT id, steps FROM change ORDER BY id DESC") {
            let (change, steps): (Int64, Int) = (row[0], row[1])
            left -= steps
            if left < 0, change != last {
                try database.execute(sql: "DELETE FROM change WHERE id = ?", arguments: [change])
            }
        }
    }
}
