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
                let beneath = Self.beneath
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

    /// What came of giving a tag another name.
    package struct RenamedTag: Hashable, Sendable {
        /// The tags that have another name: the tag, and those beneath it.
        package var tags: Int
        /// The entries that carry one of them.
        package var entries: Int
        /// Whether there was a tag of the new name, which both are now.
        package var isMerged: Bool
    }

    /// Gives a tag another name, and with it those beneath it, all or nothing; entries that carry them carry the new ones.
    ///
    /// Where there is a tag of the new name already, both are one from then on.
    ///
    /// - Throws: `.notFound` when there is no such tag, `.invalid` for what is not a name.
    package func renameTag(_ old: [String], to new: [String]) async throws(KithError) -> RenamedTag {
        do {
            let (renamed, noted, entries) = try await database.write { [now] database in
                try Self.renameTag(old, to: new, database, now: now())
            }
            guard renamed.tags > 0 else { return renamed }
            tell()
            if var changes = newChangeSet() {
                changes.note(noted)
                for entry in entries { changes.touch(entry) }
                tell(changes)
            }
            return renamed
        } catch {
            throw Self.failure("rename the tag", error)
        }
    }

    /// Gives a tag another name in a transaction.
    ///
    /// - Returns: what came of it, what is told of it, and the entries that are to be searched again.
    private static func renameTag(
        _ old: [String], to new: [String], _ database: Database, now: Int64
    ) throws -> (RenamedTag, ChangeSet.Tags, [Int64]) {
        let top = try Self.tag(old, database)
        guard old != new else { return (RenamedTag(tags: 0, entries: 0, isMerged: false), ChangeSet.Tags(), []) }
        let tree = try TagTree(database)
        func renamed(_ path: [String]) -> [String] { new + path.dropFirst(old.count) }
        let tags = try Int64.fetchAll(
            database, sql: Self.beneath + " SELECT id FROM beneath", arguments: [top]
        ).map { tree.path(of: $0) }.sorted { $0.count < $1.count }
        let uses = try Row.fetchAll(
            database,
            sql: Self.beneath + """
                 SELECT tag_use.entry, tag_use.tag, entry.flags & 2 = 0
                FROM tag_use JOIN entry ON entry.id = tag_use.entry WHERE tag_use.tag IN beneath
                """, arguments: [top]
        ).map { (row: Row) -> (entry: Int64, path: [String], isThere: Bool) in (row[0], tree.path(of: row[1]), row[2]) }
        // All of the old goes first: the new name may be of a tag among them, or lie beneath one.
        var recorder = ChangeRecorder(.tags)
        for use in uses { recorder.add(.use(use.entry, use.path), before: true, after: false) }
        for tag in tags.reversed() { recorder.add(.tag(tag), before: true, after: false) }
        try database.execute(
            sql: Self.beneath + " DELETE FROM tag WHERE id IN beneath", arguments: [top])
        let isMerged = try Self.knownTag(new, database) != nil
        for tag in tags {
            _ = try Self.madeTag(renamed(tag), database) { recorder.add(.tag($0), before: false, after: true) }
        }
        for use in uses {
            let path = renamed(use.path)
            try database.execute(
                sql: "INSERT OR IGNORE INTO tag_use (entry, tag) VALUES (?, ?)",
                arguments: [use.entry, try Self.madeTag(path, database)])
            guard database.changesCount > 0 else { continue }
            recorder.add(.use(use.entry, path), before: false, after: true)
        }
        try recorder.finish(database, now: now)
        // What has gone keeps its tags for a while, and is not counted.
        let entries = Set(uses.filter(\.isThere).map(\.entry)).sorted()
        var noted = ChangeSet.Tags(added: [new])
        // Where the new one lies beneath it, it is there still.
        if try Self.knownTag(old, database) == nil { noted.deleted = [old] } else { noted.removed = [old] }
        noted.paths = try entries.prefix(ChangeSet.limit).compactMap { try Self.path(of: $0, database) }
        noted.more = entries.count - noted.paths.count
        return (RenamedTag(tags: tags.count, entries: entries.count, isMerged: isMerged), noted, entries)
    }

    /// The tag whose number is the argument, and those beneath it.
    private static let beneath = """
        WITH RECURSIVE beneath (id) AS (
            VALUES (?) UNION SELECT tag.id FROM tag JOIN beneath ON tag.parent = beneath.id
        )
        """

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
