import Foundation
import GRDB
import KithIO
package import KithWire

/// A folder whose files an index holds.
package struct IndexLocation: Hashable, Sendable, Identifiable {
    package var id: Int64
    /// Its path from the top of the file system.
    package var path: [UInt8]
    package var name: String
    package var rules: LocationRules
    package var mode = LocationMode.recursive
    /// Seconds since 1970.
    package var added: Int64
    /// When it was scanned last to the end, in seconds since 1970; `nil`: not yet.
    package var scanned: Int64?
    /// Why it could not be scanned.
    package var problem: String?
    /// The names in it; `nil` where they were not counted.
    package var entries: Int?
    /// The folders among them.
    package var folders: Int?
}

extension FileIndex {
    /// Refuses a folder on a disk that does not answer, before anything else waits for it.
    ///
    /// What else is wrong with it is said by whatever opens it.
    ///
    /// - Throws: `.unreachable`, `.cancelled`.
    package func checkAnswers(_ path: [UInt8]) async throws(KithError) {
        do { _ = try await presence.attributes(of: path) } catch let error as SystemError {
            guard error.number == ETIMEDOUT else { return }
            throw KithError(.unreachable, "\(String(decoding: path, as: UTF8.self)) does not answer.")
        } catch {
            throw Self.failure("look at \(String(decoding: path, as: UTF8.self))", error)
        }
    }

    /// Adds a folder; what is in it is not there before ``scan(_:progress:)``.
    ///
    /// `notes` came with it from elsewhere: they are put on its files when a scan finds those.
    ///
    /// - Throws: `.notFound` when it is not there, `.invalid` when it is no folder, `.conflict` when it is in the index
    ///   already, or lies within a location, or around one.
    package func addLocation(
        at path: [UInt8], name: String? = nil, rules: LocationRules = LocationRules(),
        mode: LocationMode = .recursive, notes: [LocationFile.Note] = []
    ) throws(KithError) -> IndexLocation {
        let shown = String(decoding: path, as: UTF8.self)
        let attributes: FileAttributes
        do throws(SystemError) {
            attributes = try OpenFolder(path: path).attributes()
        } catch {
            let code: KithError.Code = error.number == ENOENT ? .notFound : error.number == ENOTDIR ? .invalid : .denied
            throw KithError(code, "\(shown) cannot be added: \(error).")
        }
        if let excluded, path.isWithin(excluded) {
            throw KithError(.invalid, "\(shown) is part of this device's own data, which changes with each search.")
        }
        _ = try ruleStack(rules)
        let text = try Self.encoded(rules)
        do {
            return try database.write { database in
                for location in try Self.locations(database) {
                    let other = String(decoding: location.path, as: UTF8.self)
                    if location.path == path { throw KithError(.conflict, "\(shown) is in the library already.") }
                    if path.isWithin(location.path) {
                        throw KithError(
                            .conflict, "\(shown) is in the library already: it lies in \(other).")
                    }
                    if location.path.isWithin(path) {
                        throw KithError(
                            .conflict, "\(other) is in the library already and lies in \(shown). Remove it first.")
                    }
                }
                let now = now()
                let id = try IndexSchema.nextNumber(database)
                try database.execute(sql: "UPDATE meta SET value = ? WHERE name = 'next'", arguments: [id + 1])
                // Its own row: in no folder, and not among the names that are searched.
                try database.execute(
                    sql: """
                        INSERT INTO entry
                            (id, folder, name, kind, category, extension, size, modified, changed, inode, added, flags)
                        VALUES (?, 0, ?, 1, '', '', 0, ?, ?, ?, ?, 0)
                        """,
                    arguments: [id, Data(path), attributes.modified, attributes.changed, attributes.inode, now])
                try database.execute(
                    sql: """
                        INSERT INTO location (entry, path, name, rules, device, added, mode)
                        VALUES (?, ?, ?, ?, ?, ?, ?)
                        """,
                    arguments: [
                        id, Data(path),
                        name ?? path.splitPath.map { String(decoding: $0.name, as: UTF8.self) } ?? shown, text,
                        attributes.device, now, mode.rawValue,
                    ])
                let location = database.lastInsertedRowID
                try database.execute(
                    sql: "INSERT INTO folder (id, location, path, device) VALUES (?, ?, ?, ?)",
                    arguments: [id, location, Data(path), attributes.device])
                try keepPending(notes, of: location, database)
                guard let added = try Self.locations(database).first(where: { $0.id == location }) else {
                    throw KithError(.internal, "\(shown) was added and is not there.")
                }
                return added
            }
        } catch {
            throw Self.failure("add \(shown)", error)
        }
    }

    /// The locations, in the order in which they were added.
    ///
    /// Counting what is in them takes time with its number: a tenth of a second for a million.
    package func locations(counted: Bool = false) throws(KithError) -> [IndexLocation] {
        do { return try database.read { try Self.locations($0, counted: counted) } } catch {
            throw Self.failure("read the locations", error)
        }
    }

    /// One of them.
    ///
    /// - Throws: `.notFound`.
    package func location(_ id: Int64) throws(KithError) -> IndexLocation {
        guard let location = try locations().first(where: { $0.id == id }) else {
            throw KithError(.notFound, "There is no location \(id).")
        }
        return location
    }

    /// Removes a location with all that the index holds of it; the files stay as they are.
    package func removeLocation(_ id: Int64) async throws(KithError) {
        let location = try location(id)
        do {
            // A part at a time, so that nobody waits long to read or write.
            while true {
                let hasMore = try await database.write { database in
                    let folders = try Int64.fetchAll(
                        database,
                        sql: "SELECT id FROM folder WHERE location = ? AND path <> ? ORDER BY path DESC LIMIT 200",
                        arguments: [id, Data(location.path)])
                    let writer = try ListingWriter(
                        database, names: names, now: now(), keepsAnnotated: false)
                    for folder in folders { try writer.remove(folder) }
                    try writer.finish()
                    if !folders.isEmpty { return true }
                    if let entry = try Int64.fetchOne(
                        database, sql: "SELECT entry FROM location WHERE id = ?", arguments: [id])
                    {
                        try writer.removeTop(entry)
                        try writer.finish()
                    }
                    try database.execute(sql: "DELETE FROM location WHERE id = ?", arguments: [id])
                    return false
                }
                tellEverything()
                if !hasMore { return }
            }
        } catch {
            throw Self.failure("remove \(location.name)", error)
        }
    }

    func ruleStack(_ rules: LocationRules) throws(KithError) -> RuleStack {
        do { return try RuleStack(rules) } catch { throw Self.failure("read the rules", error) }
    }

    static func encoded(_ rules: LocationRules) throws(KithError) -> String {
        do { return String(decoding: try JSONEncoder().encode(rules), as: UTF8.self) } catch {
            throw failure("keep the rules", error)
        }
    }

    static func locations(_ database: Database, counted: Bool = false) throws -> [IndexLocation] {
        var locations = try Row.fetchAll(
            database, sql: "SELECT id, path, name, rules, added, scanned, problem, mode FROM location ORDER BY id"
        ).map { row in
            let rules: String = row[3]
            return IndexLocation(
                id: row[0], path: [UInt8](row[1] as Data), name: row[2],
                rules: try JSONDecoder().decode(LocationRules.self, from: Data(rules.utf8)),
                mode: LocationMode(rawValue: row[7]) ?? .recursive, added: row[4],
                scanned: row[5], problem: row[6])
        }
        guard counted else { return locations }
        for index in locations.indices {
            locations[index].entries = try Int.fetchOne(
                database,
                sql: """
                    SELECT count(*) FROM entry JOIN folder ON entry.folder = folder.id
                    WHERE folder.location = ? AND folder.gone = 0 AND entry.flags & 2 = 0
                    """, arguments: [locations[index].id])
            // But its own.
            locations[index].folders = try Int.fetchOne(
                database, sql: "SELECT count(*) - 1 FROM folder WHERE location = ? AND gone = 0",
                arguments: [locations[index].id]
            ).map { max($0, 0) }
        }
        return locations
    }

    /// True when a location is the only one, and nothing of it is in the index, nor kept of one that was.
    func isEmpty(_ location: IndexLocation) async throws -> Bool {
        try await read { database in
            try Bool.fetchOne(
                database,
                sql: """
                    SELECT NOT EXISTS (SELECT 1 FROM location WHERE id <> ?) AND NOT EXISTS (SELECT 1 FROM kept)
                        AND NOT EXISTS (
                            SELECT 1 FROM entry JOIN folder ON entry.folder = folder.id WHERE folder.location = ?)
                    """, arguments: [location.id, location.id]) == true
        }
    }
}

/// A folder that a scan could not read, or not whole.
package struct FolderProblem: Hashable, Sendable {
    /// The number of the folder's entry.
    package var id: Int64
    package var location: Int64
    package var path: [UInt8]
    /// Why.
    package var problem: String
}

extension FileIndex {
    /// The folders that could not be read when they were looked at last, in the order of their numbers.
    ///
    /// - Parameters:
    ///   - location: Only those of this one; `nil`: of all.
    ///   - after: Those whose numbers are larger.
    ///   - limit: The most, 1…1,000; more count as that.
    /// - Returns: the folders; fewer than `limit` at the end.
    /// - Throws: what the database says.
    package func problems(
        in location: Int64? = nil, after: Int64 = 0, limit: Int = 100
    ) async throws(KithError) -> [FolderProblem] {
        do {
            return try await read { database in
                try Row.fetchAll(
                    database,
                    sql: """
                        SELECT id, location, path, problem FROM folder
                        WHERE problem IS NOT NULL AND gone = 0 AND id > ?1 AND (?2 IS NULL OR location = ?2)
                        ORDER BY id LIMIT ?3
                        """, arguments: [after, location, min(max(limit, 1), Self.pageLimit)]
                ).map { FolderProblem(id: $0[0], location: $0[1], path: [UInt8]($0[2] as Data), problem: $0[3]) }
            }
        } catch {
            throw Self.failure("list the folders that could not be read", error)
        }
    }
}
