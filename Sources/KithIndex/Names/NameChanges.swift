import Foundation
import GRDB
import KithCatalog

/// What one transaction changes in the names of an index.
final class NameChanges {
    private let database: Database
    private let table: NameTable
    private let isNoted: Bool
    private var edits: [NameEdit] = []
    private var hasChanges = false

    init(_ database: Database, _ table: NameTable) {
        (self.database, self.table) = (database, table)
        isNoted = table.isFollowing
    }

    /// Notes that an entry has a name in a folder whose path has so many bytes, and of which kind it is.
    func set(_ id: Int64, _ name: [UInt8], folded: String, folder: Int, _ kind: StoredKind) {
        hasChanges = true
        guard isNoted else { return }
        edits.append(
            .set(id, Array(folded.utf8), .init(name: name.count, folder: folder, isFile: kind == .file)))
    }

    func remove(_ id: Int64) {
        hasChanges = true
        if isNoted { edits.append(.removed(id)) }
    }

    /// Notes where everything is that lies in a folder, or in those beneath it.
    func moved(to path: [UInt8]) throws {
        hasChanges = true
        guard isNoted else { return }
        let rows = try Row.fetchCursor(
            database,
            sql: """
                SELECT entry.id, length(folder.path) FROM folder JOIN entry ON entry.folder = folder.id
                WHERE folder.path = ? OR folder.path >= ? AND folder.path < ?
                """, arguments: [Data(path), path.beneath.from, path.beneath.to])
        while let row = try rows.next() { edits.append(.folder(row[0], length: row[1])) }
    }

    /// Counts the version up, and hands the changes on once the transaction is committed.
    func finish() throws {
        guard hasChanges else { return }
        hasChanges = false
        guard
            let version = try Int64.fetchOne(
                database.cachedStatement(sql: "UPDATE meta SET value = value + 1 WHERE name = 'names' RETURNING value"))
        else { throw DatabaseError(resultCode: .SQLITE_CORRUPT, message: "The index has no version of its names.") }
        let (table, edits) = (table, isNoted ? edits : nil)
        self.edits = []
        database.afterNextTransaction { _ in table.apply(edits, version: version) }
    }
}
