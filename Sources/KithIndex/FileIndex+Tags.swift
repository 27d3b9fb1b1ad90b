import Foundation
import GRDB
package import KithWire

extension FileIndex {
    /// The most bytes of the name of one tag.
    package static let tagNameLimit = 256
    /// The most tags in one another.
    package static let tagDepthLimit = 16

    /// All tags by their paths, with the number of entries that carry each itself.
    package func tags() throws(KithError) -> [(path: [String], uses: Int)] {
        do {
            return try database.read { database in
                let tree = try TagTree(database)
                return try Row.fetchAll(
                    database,
                    sql: """
                        SELECT id, (
                            SELECT count(*) FROM tag_use JOIN entry ON entry.id = tag_use.entry
                            WHERE tag_use.tag = tag.id AND entry.flags & 2 = 0)
                        FROM tag
                        """
                ).map { (path: tree.path(of: $0[0]), uses: $0[1]) }.sorted {
                    $0.path.lexicographicallyPrecedes($1.path)
                }
            }
        } catch {
            throw Self.failure("list the tags", error)
        }
    }

    /// Gives entries tags and takes some away, all or nothing.
    ///
    /// - Parameters:
    ///   - paths: The paths of the entries.
    ///   - add: Tags, each with those above it; those that are not there are made.
    ///   - remove: Tags; one that an entry does not carry is none the less.
    /// - Returns: the number of entries that were changed.
    /// - Throws: `.notFound` for a path that is not in the index, or a tag to be taken away that does not exist.
    package func changeTags(of paths: [[UInt8]], add: [[String]], remove: [[String]]) async throws(KithError) -> Int {
        do {
            let changed = try await database.write { [now] database in
                let entries = try paths.map { try Self.entry(at: $0, database) }
                var changed: Set<Int64> = []
                var recorder = ChangeRecorder(.tags)
                for path in add {
                    let tag = try Self.madeTag(path, database) { recorder.add(.tag($0), before: false, after: true) }
                    for entry in entries {
                        try database.execute(
                            sql: "INSERT OR IGNORE INTO tag_use (entry, tag) VALUES (?, ?)", arguments: [entry, tag])
                        guard database.changesCount > 0 else { continue }
                        changed.insert(entry)
                        recorder.add(.use(entry, path), before: false, after: true)
                    }
                }
                for path in remove {
                    let tag = try Self.tag(path, database)
                    for entry in entries {
                        try database.execute(
                            sql: "DELETE FROM tag_use WHERE entry = ? AND tag = ?", arguments: [entry, tag])
                        guard database.changesCount > 0 else { continue }
                        changed.insert(entry)
                        recorder.add(.use(entry, path), before: true, after: false)
                    }
                }
                try recorder.finish(database, now: now())
                return changed
            }
            tell()
            if var changes = newChangeSet() {
                changes.note(ChangeSet.Tags(added: add, removed: remove, paths: paths))
                for id in changed { changes.touch(id) }
                tell(changes)
            }
            return changed.count
        } catch {
            throw Self.failure("change tags", error)
        }
    }

    /// Deletes a tag and those beneath it.
    ///
    /// - Throws: `.notFound`.
    package func deleteTag(_ path: [String]) async throws(KithError) {
        do {
            try await database.write { [now] database in
                let top = try Self.tag(path, database)
                let beneath = """
                    WITH RECURSIVE beneath (id) AS (
                        VALUES (?) UNION SELECT tag.id FROM tag JOIN beneath ON tag.parent = beneath.id
                    )
                    """
                var recorder = ChangeRecorder(.deletedTag)
                let tree = try TagTree(database)
                let uses = try Row.fetchAll(
                    database, sql: beneath + " SELECT entry, tag FROM tag_use WHERE tag IN beneath", arguments: [top])
                for use in uses { recorder.add(.use(use[0], tree.path(of: use[1])), before: true, after: false) }
                // Taken back from the last to the first, those above others are made first.
                let tags = try Int64.fetchAll(database, sql: beneath + " SELECT id FROM beneath", arguments: [top])
                for tag in tags.map({ tree.path(of: $0) }).sorted(by: { $0.count > $1.count }) {
                    recorder.add(.tag(tag), before: true, after: false)
                }
                try database.execute(sql: beneath + " DELETE FROM tag WHERE id IN beneath", arguments: [top])
                try recorder.finish(database, now: now())
            }
            tell()
            if var changes = newChangeSet() {
                changes.note(ChangeSet.Tags(deleted: [path]))
                changes.touchEverything()
                tell(changes)
            }
        } catch {
            throw Self.failure("delete the tag", error)
        }
    }

    static func entry(at path: [UInt8], _ database: Database) throws -> Int64 {
        if let id = try knownEntry(at: path, database) { return id }
        throw KithError(
            .notFound,
            "\(String(decoding: path, as: UTF8.self)) is not in the library. `kith add FOLDER` adds what is in one.")
    }

    /// The number of the entry at a path; `nil` when there is none.
    static func knownEntry(at path: [UInt8], _ database: Database) throws -> Int64? {
        guard let (folder, name) = path.splitPath else { return nil }
        return try Int64.fetchOne(
            database,
            sql: """
                SELECT entry.id FROM entry JOIN folder ON folder.id = entry.folder
                WHERE folder.path = ? AND folder.gone = 0 AND entry.name = ? AND entry.flags & 2 = 0
                """, arguments: [Data(folder), Data(name)])
    }

    /// Tells whether a text may be the name of one tag.
    static func isTagName(_ name: String) -> Bool {
        !name.isEmpty && name.utf8.count <= tagNameLimit && !name.unicodeScalars.contains { $0.value < 32 }
    }

    private static func tag(_ path: [String], _ database: Database) throws -> Int64 {
        guard !path.isEmpty else { throw KithError(.invalid, "A tag has a name.") }
        guard let tag = try knownTag(path, database) else {
            throw KithError(
                .notFound, "There is no tag \(path.joined(separator: "/")). `kith tags` lists those there are.")
        }
        return tag
    }

    /// The number of a tag; `nil` when there is none.
    static func knownTag(_ path: [String], _ database: Database) throws -> Int64? {
        var parent: Int64?
        for name in path {
            guard let id = try child(name, of: parent, database) else { return nil }
            parent = id
        }
        return parent
    }

    /// The number of a tag, made with those above it where they are not there; calls back with each that is made.
    static func madeTag(
        _ path: [String], _ database: Database, made: ([String]) -> Void = { _ in }
    ) throws -> Int64 {
        guard path.count <= tagDepthLimit else {
            throw KithError(.invalid, "Tags lie at most \(tagDepthLimit) deep.")
        }
        var parent: Int64?
        for (index, name) in path.enumerated() {
            guard isTagName(name) else {
                throw KithError(
                    .invalid, "The name of a tag has 1 to \(tagNameLimit) bytes and no control characters.")
            }
            if let id = try child(name, of: parent, database) {
                parent = id
            } else {
                try database.execute(sql: "INSERT INTO tag (name, parent) VALUES (?, ?)", arguments: [name, parent])
                parent = database.lastInsertedRowID
                made(Array(path[...index]))
            }
        }
        guard let parent else { throw KithError(.invalid, "A tag has a name.") }
        return parent
    }

    private static func child(_ name: String, of parent: Int64?, _ database: Database) throws -> Int64? {
        try Int64.fetchOne(
            database, sql: "SELECT id FROM tag WHERE name = ? AND parent IS ?", arguments: [name, parent])
    }
}
