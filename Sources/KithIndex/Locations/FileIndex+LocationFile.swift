import Foundation
import GRDB
package import KithWire

extension FileIndex {
    /// A location with what a person noted of files in it, for a file.
    ///
    /// - Throws: `.notFound`; `.exhausted` when more files have notes than a file may hold.
    package func locationFile(_ id: Int64) async throws(KithError) -> LocationFile {
        let location = try location(id)
        do {
            let notes = try await read { database in
                let tree = try TagTree(database)
                let rows = try Row.fetchAll(
                    database,
                    sql: """
                        SELECT entry.id, folder.path, entry.name FROM entry JOIN folder ON folder.id = entry.folder
                        WHERE folder.location = ? AND folder.gone = 0 AND entry.flags & 2 = 0
                            AND (entry.id IN (SELECT entry FROM tag_use) OR entry.id IN (SELECT entry FROM annotation))
                        ORDER BY folder.path, entry.name LIMIT ?
                        """, arguments: [id, LocationFile.noteLimit + 1])
                guard rows.count <= LocationFile.noteLimit else {
                    throw KithError(
                        .exhausted, "More than \(LocationFile.noteLimit) files have tags or notes. Export the library.")
                }
                return try rows.map { row in
                    let path = [UInt8](row[1] as Data).appending(name: [UInt8](row[2] as Data))
                    let start = location.path == [UInt8(ascii: "/")] ? 1 : location.path.count + 1
                    return LocationFile.Note(
                        path: Array(path.dropFirst(start)), tags: try tree.paths(of: row[0], database),
                        annotation: try Self.annotation(of: row[0], database))
                }
            }
            return LocationFile(
                name: location.name, path: location.path, mode: location.mode, rules: location.rules, notes: notes)
        } catch {
            throw Self.failure("export \(location.name)", error)
        }
    }

    /// Keeps what came with a location until a scan finds the files it is about.
    func keepPending(_ notes: [LocationFile.Note], of location: Int64, _ database: Database) throws {
        let insert = try database.cachedStatement(
            sql: """
                INSERT INTO pending_note (location, path, tags, favorite, rating, note) VALUES (?, ?, ?, ?, ?, ?)
                """)
        for note in notes {
            let tags = try JSONEncoder().encode(note.tags.map { $0.joined(separator: "/") })
            try insert.execute(arguments: [
                location, Data(note.path), String(decoding: tags, as: UTF8.self), note.annotation.isFavorite,
                note.annotation.rating, note.annotation.note,
            ])
        }
    }

    /// Notes what was pending of the files that are in the index by now; the rest waits for the next scan.
    ///
    /// What is noted of a file already is not taken away: tags are added, stars and notes are put where there are none.
    func takePending(of location: IndexLocation) async throws {
        var after = Data()
        var hasMore = true
        while hasMore {
            (after, hasMore) = try await database.write { [after] database in
                let rows = try Row.fetchAll(
                    database,
                    sql: """
                        SELECT path, tags, favorite, rating, note FROM pending_note
                        WHERE location = ? AND path > ? ORDER BY path LIMIT 500
                        """, arguments: [location.id, after])
                for row in rows {
                    let path = [UInt8](row[0] as Data)
                    let whole = location.path.appending(name: path)
                    guard let entry = try Self.knownEntry(at: whole, database) else { continue }
                    let tags = try JSONDecoder().decode([String].self, from: Data((row[1] as String).utf8))
                    for tag in tags {
                        try database.execute(
                            sql: "INSERT OR IGNORE INTO tag_use (entry, tag) VALUES (?, ?)",
                            arguments: [
                                entry, try Self.madeTag(tag.split(separator: "/").map(String.init), database),
                            ])
                    }
                    var noted = try Self.annotation(of: entry, database)
                    noted.isFavorite = noted.isFavorite || row[2]
                    if noted.rating == 0 { noted.rating = row[3] }
                    if noted.note == nil { noted.note = row[4] }
                    try Self.setAnnotation(of: entry, to: noted, database)
                    try database.execute(
                        sql: "DELETE FROM pending_note WHERE location = ? AND path = ?",
                        arguments: [location.id, Data(path)])
                }
                return (rows.last.map { $0[0] as Data } ?? after, rows.count == 500)
            }
        }
    }

    /// The number of files that what came with a location is about and that no scan has found yet.
    package func pendingNotes(of location: Int64) async throws(KithError) -> Int {
        do {
            return try await read { database in
                try Int.fetchOne(
                    database, sql: "SELECT count(*) FROM pending_note WHERE location = ?", arguments: [location]) ?? 0
            }
        } catch {
            throw Self.failure("count what is pending", error)
        }
    }
}
