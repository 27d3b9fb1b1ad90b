import Foundation
import GRDB
package import KithWire

extension FileIndex {
    /// The most tags of a change that are named.
    private static let namedTags = 8

    /// What came of taking a change back.
    package struct Undone: Hashable, Sendable {
        /// The change that was taken back.
        package var change: NotedChange
        /// The number of entries that are as they were before.
        package var restored: Int
        /// The number of entries of which something was changed again since, or that have gone: left as they are.
        package var skipped: Int
    }

    /// The changes of tags and notes that are kept, the latest first.
    ///
    /// At most `limit` of them come, 1…1,000; more count as that.
    package func noteChanges(limit: Int = 100) async throws(KithError) -> [NotedChange] {
        do {
            return try await read { database in
                try Row.fetchAll(
                    database, sql: "SELECT * FROM change ORDER BY id DESC LIMIT ?",
                    arguments: [min(max(limit, 1), ChangeRecorder.maximumChanges)]
                ).compactMap { try Self.change($0, database) }
            }
        } catch {
            throw Self.failure("list what was changed", error)
        }
    }

    /// Takes back a change of tags or notes; what was changed again since stays as it is.
    ///
    /// Taking back is a change itself: to take that back does the first one again. Without an `id` it is the latest that was
    /// not taken back, and takes none back.
    ///
    /// - Throws: `.notFound` when there is none, `.conflict` when it was taken back already.
    package func undoNoteChange(_ id: String? = nil) async throws(KithError) -> Undone {
        do {
            let (undone, tags, notes) = try await database.write { [now] database in
                let row =
                    if let id {
                        try Row.fetchOne(database, sql: "SELECT * FROM change WHERE uuid = ?", arguments: [id])
                    } else {
                        try Row.fetchOne(
                            database,
                            sql: """
                                SELECT * FROM change WHERE undone_by IS NULL AND kind <> 'undo' ORDER BY id DESC LIMIT 1
                                """)
                    }
                guard let row, let change = try Self.change(row, database) else {
                    throw KithError(
                        .notFound,
                        id == nil
                            ? "There is no change of tags or notes that could be taken back."
                            : "There is no such change of tags or notes. They are kept for 90 days, the last 1,000.")
                }
                guard change.undoneBy == nil else {
                    throw KithError(.conflict, "That change was taken back already.")
                }
                return try Self.undo(row["id"], change, database, now: now())
            }
            tellEverything()
            if var changes = newChangeSet() {
                changes.note(tags)
                changes.note(notes)
                tell(changes)
            }
            return undone
        } catch {
            throw Self.failure("take the change back", error)
        }
    }

    private static func undo(
        _ row: Int64, _ change: NotedChange, _ database: Database, now: Int64
    ) throws -> (Undone, ChangeSet.Tags, ChangeSet.Notes) {
        var recorder = ChangeRecorder(.undo, undoes: change.id)
        var tags = ChangeSet.Tags()
        var notes = ChangeSet.Notes()
        var skipped: Set<Int64> = []
        let steps = try Row.fetchAll(
            database,
            sql: "SELECT entry, field, tag, before, after FROM change_step WHERE change = ? ORDER BY number DESC",
            arguments: [row])
        for step in steps {
            guard let target = ChangeTarget(field: step["field"], entry: step["entry"], tag: step["tag"]) else {
                continue
            }
            let (before, after): (DatabaseValue, DatabaseValue) = (step["before"], step["after"])
            guard try value(of: target, database) == after, try set(target, to: before, database) else {
                if let entry = target.entry { skipped.insert(entry) }
                continue
            }
            recorder.add(target, before: after, after: before)
            switch target {
            case .tag: break
            case .use(let entry, let tag):
                let isAdded = before == true.databaseValue
                if isAdded, !tags.added.contains(tag) { tags.added.append(tag) }
                if !isAdded, !tags.removed.contains(tag) { tags.removed.append(tag) }
                if let path = try path(of: entry, database), tags.paths.last != path { tags.paths.append(path) }
            case .favorite(let entry), .rating(let entry), .note(let entry):
                notes.fields.insert(target.field)
                if let path = try path(of: entry, database), notes.paths.last != path { notes.paths.append(path) }
            }
        }
        try recorder.finish(database, now: now)
        let restored = Set(recorder.steps.compactMap(\.target.entry)).subtracting(skipped)
        return (Undone(change: change, restored: restored.count, skipped: skipped.count), tags, notes)
    }

    // MARK: - Values

    /// What something is now; `nil` for an entry that has gone.
    private static func value(of target: ChangeTarget, _ database: Database) throws -> DatabaseValue? {
        if let entry = target.entry {
            let isThere = try Bool.fetchOne(
                database, sql: "SELECT EXISTS (SELECT 1 FROM entry WHERE id = ?)", arguments: [entry])
            guard isThere == true else { return nil }
        }
        switch target {
        case .tag(let path): return (try knownTag(path, database) != nil).databaseValue
        case .use(let entry, let path):
            guard let tag = try knownTag(path, database) else { return false.databaseValue }
            return try Bool.fetchOne(
                database, sql: "SELECT EXISTS (SELECT 1 FROM tag_use WHERE entry = ? AND tag = ?)",
                arguments: [entry, tag])?.databaseValue
        case .favorite(let entry): return try annotation(of: entry, database).isFavorite.databaseValue
        case .rating(let entry): return try annotation(of: entry, database).rating.databaseValue
        case .note(let entry): return try annotation(of: entry, database).note.databaseValue
        }
    }

    /// Makes something what it was; false when that cannot be.
    private static func set(_ target: ChangeTarget, to value: DatabaseValue, _ database: Database) throws -> Bool {
        switch target {
        case .tag(let path):
            if value == true.databaseValue {
                _ = try madeTag(path, database)
                return true
            }
            // One that somebody has used since stays.
            try database.execute(
                sql: """
                    DELETE FROM tag WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM tag_use WHERE tag = ?1)
                        AND NOT EXISTS (SELECT 1 FROM tag AS below WHERE below.parent = ?1)
                    """, arguments: [try knownTag(path, database)])
            return database.changesCount > 0
        case .use(let entry, let path):
            let tag = try madeTag(path, database)
            try database.execute(
                sql: value == true.databaseValue
                    ? "INSERT OR IGNORE INTO tag_use (entry, tag) VALUES (?, ?)"
                    : "DELETE FROM tag_use WHERE entry = ? AND tag = ?", arguments: [entry, tag])
            return true
        case .favorite(let entry), .rating(let entry), .note(let entry):
            var noted = try annotation(of: entry, database)
            switch target {
            case .favorite: noted.isFavorite = Bool.fromDatabaseValue(value) ?? false
            case .rating: noted.rating = min(max(Int.fromDatabaseValue(value) ?? 0, 0), 5)
            default: noted.note = String.fromDatabaseValue(value)
            }
            try setAnnotation(of: entry, to: noted, database)
            return true
        }
    }

    // MARK: - Describing

    private static func change(_ row: Row, _ database: Database) throws -> NotedChange? {
        // A kind of a later version is not shown.
        guard let kind = NotedChange.Kind(rawValue: row["kind"]) else { return nil }
        let id: Int64 = row["id"]
        let first = try Int64.fetchOne(
            database,
            sql: """
                SELECT entry FROM change_step WHERE change = ? AND entry IN (SELECT id FROM entry WHERE folder <> 0)
                ORDER BY number LIMIT 1
                """, arguments: [id])
        return NotedChange(
            id: row["uuid"], kind: kind, made: row["made"], first: try first.flatMap { try path(of: $0, database) },
            entries: try Int.fetchOne(
                database, sql: "SELECT count(DISTINCT entry) FROM change_step WHERE change = ?", arguments: [id]) ?? 0,
            tags: try String.fetchAll(
                database,
                sql: "SELECT DISTINCT tag FROM change_step WHERE change = ? AND tag IS NOT NULL ORDER BY 1 LIMIT ?",
                arguments: [id, namedTags]),
            fields: try String.fetchAll(
                database,
                sql: "SELECT DISTINCT field FROM change_step WHERE change = ? AND field <> 'tag' ORDER BY 1",
                arguments: [id]),
            undoes: row["undoes"], undoneBy: row["undone_by"])
    }

    /// The path of an entry; `nil` for one that has gone.
    static func path(of entry: Int64, _ database: Database) throws -> [UInt8]? {
        try Row.fetchOne(
            database,
            sql: """
                SELECT folder.path, entry.name FROM entry JOIN folder ON folder.id = entry.folder WHERE entry.id = ?
                """, arguments: [entry]
        ).map { [UInt8]($0[0] as Data).appending(name: [UInt8]($0[1] as Data)) }
    }
}
