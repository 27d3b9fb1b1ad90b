import Foundation
import GRDB
import KithCatalog

/// Brings what an index holds of folders to what was listed of them, within one transaction.
///
/// What is not listed any more is marked as gone, and goes at the end of the scan: so long a name with the same inode that
/// turns up elsewhere is taken for the same file, moved, and keeps what was noted of it. What a person has noted something
/// of is kept longer, in no folder, until every location has been looked through.
///
/// A name that another file has taken keeps its number and notes (editors write a new file and give it the old name),
/// unless that file brings notes of its own, or the file before has another name in the same folder now.
struct ListingWriter {
    /// What goes on from one transaction to the next.
    struct State {
        let location: Int64
        /// The top of the location.
        let top: [UInt8]
        /// Folders that are new, or were moved, and are to be listed whole.
        var toList: [[UInt8]] = []
        /// False when they need not be told.
        var listsNew = true
        var counts = ScanCounts()
        /// What changes, where somebody wants to know.
        var changes: ChangeSet?
        /// True as long as nothing can have been moved here: the location is new, and nothing was in the index before.
        var isFirst: Bool
    }

    private let database: Database
    private let now: Int64
    private let keepsAnnotated: Bool
    private var nextID: Int64
    private let insertEntry: Statement
    private let names: NameChanges
    private let updateEntry: Statement
    private let markGone: Statement
    private let selectChildren: Statement
    private let selectFolder: Statement
    private let insertFolder: Statement
    private let selectInode: Statement

    /// Begins, at a time in seconds since 1970.
    ///
    /// Unless it `keepsAnnotated`, what is removed goes with all that was noted of it.
    init(_ database: Database, names: NameTable, now: Int64, keepsAnnotated: Bool = true) throws {
        self.database = database
        self.names = NameChanges(database, names)
        self.now = now
        self.keepsAnnotated = keepsAnnotated
        nextID = try IndexSchema.nextNumber(database)
        insertEntry = try database.cachedStatement(
            sql: """
                INSERT INTO entry
                    (id, folder, name, kind, category, extension, size, modified, changed, created, inode, added, flags)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """)
        updateEntry = try database.cachedStatement(
            sql: """
                UPDATE entry SET kind = ?, category = ?, size = ?, modified = ?, changed = ?, created = ?, inode = ?,
                    flags = ?
                WHERE id = ?
                """)
        markGone = try database.cachedStatement(sql: "UPDATE entry SET flags = flags | 2 WHERE id = ?")
        selectChildren = try database.cachedStatement(
            sql: "SELECT id, name, kind, size, modified, changed, inode, flags, created FROM entry WHERE folder = ?")
        selectFolder = try database.cachedStatement(sql: "SELECT id, location, device FROM folder WHERE path = ?")
        insertFolder = try database.cachedStatement(
            sql: "INSERT INTO folder (id, location, path, device) VALUES (?, ?, ?, ?)")
        selectInode = try database.cachedStatement(
            sql: """
                SELECT entry.id, entry.name, entry.kind, entry.size, entry.flags, entry.modified, entry.created,
                    folder.path, ifnull(folder.device, kept.device), kept.entry IS NOT NULL
                FROM entry LEFT JOIN folder ON folder.id = entry.folder LEFT JOIN kept ON kept.entry = entry.id
                WHERE entry.inode = ? AND ifnull(folder.device, kept.device) IS NOT NULL
                """)
    }

    /// Ends: what was used up of the numbers is kept, and the names that changed are told.
    func finish() throws {
        try names.finish()
        try database.cachedStatement(sql: "UPDATE meta SET value = ? WHERE name = 'next'").execute(arguments: [nextID])
    }

    /// A name that the index holds.
    private struct Known {
        let id: Int64
        let kind: Int
        let size: Int64
        let modified: Int64
        let changed: Int64
        let inode: Int64
        let flags: Int64
        let created: Int64?
    }

    /// Brings one folder to what was listed; one that the index does not hold (any more) is left.
    mutating func apply(_ listing: FolderListing, _ state: inout State) throws {
        guard let row = try Row.fetchOne(selectFolder, arguments: [Data(listing.path)]) else { return }
        let (id, device): (Int64, Int64) = (row[0], row[2])
        state.counts.folders += 1
        // Its file system has gone from beneath it, or another one came: what is known of it stays, to be found.
        if listing.problem == nil, listing.attributes.device != device, listing.path != state.top || device != 0 {
            try database.execute(
                sql: "UPDATE folder SET problem = ? WHERE id = ?",
                arguments: ["The file system that was here is not there now.", id])
            state.counts.problems += 1
            return
        }
        if let problem = listing.problem {
            state.counts.problems += 1
            try database.execute(sql: "UPDATE folder SET problem = ? WHERE id = ?", arguments: [problem, id])
            if listing.entries.isEmpty { return }
        } else {
            try database.cachedStatement(
                sql: "UPDATE folder SET problem = NULL WHERE id = ? AND problem IS NOT NULL"
            ).execute(arguments: [id])
        }
        var known: [[UInt8]: Known] = [:]
        let rows = try Row.fetchCursor(selectChildren, arguments: [id])
        while let row = try rows.next() {
            let name = try row.withUnsafeData(atIndex: 1) { $0.map { [UInt8]($0) } ?? [] }
            known[name] = Known(
                id: row[0], kind: row[2], size: row[3], modified: row[4], changed: row[5], inode: row[6], flags: row[7],
                created: row[8])
        }
        if listing.problem == nil, try noteAttributes(listing.attributes, of: id) { state.changes?.touch(id) }
        let folderIsHidden = try isHidden(id)
        for entry in listing.entries {
            state.counts.entries += 1
            if let old = known.removeValue(forKey: entry.name) {
                guard try old.inode != entry.attributes.inode && displaces(entry, old, listing, known) else {
                    try update(entry, old, id, folderIsHidden, listing, &state)
                    continue
                }
                try remove(old.id)
                state.changes?.touch(old.id)
                if old.kind == StoredKind.folder.rawValue {
                    state.changes?.empty(listing.path.appending(name: entry.name))
                }
            }
            if !state.isFirst, let id = try move(entry, into: id, folderIsHidden, listing, &state) {
                // One that had another name in this folder has it no more.
                if let before = known.first(where: { $0.value.id == id })?.key { known[before] = nil }
            } else {
                try insert(entry, into: id, folderIsHidden, listing, &state)
            }
        }
        for (name, old) in known where old.flags & IndexSchema.Flags.gone.rawValue == 0 {
            try markGone.execute(arguments: [old.id])
            state.changes?.touch(old.id)
            if old.kind == StoredKind.folder.rawValue {
                try setGone(true, beneath: listing.path.appending(name: name))
                state.changes?.empty(listing.path.appending(name: name))
            }
            state.counts.removed += 1
        }
    }

    /// Tells whether another file that has a name now takes the place of the one before, rather than go on with it.
    private func displaces(
        _ entry: ListedEntry, _ old: Known, _ listing: FolderListing, _ known: [[UInt8]: Known]
    ) throws -> Bool {
        // It was somewhere else, and brings what was noted of it.
        if let candidate = try candidate(entry.attributes), candidate.id != old.id,
            try isAnnotated(candidate.id)
        {
            return true
        }
        guard try isAnnotated(old.id) else { return false }
        // The one before has another name here now, and takes along what was noted of it.
        return listing.entries.contains { other in
            other.attributes.inode == old.inode && other.name != entry.name
                && Self.isSame(
                    other.attributes, kind: old.kind, size: old.size, modified: old.modified, created: old.created)
                && known[other.name]?.inode != old.inode
        }
    }

    /// Tells whether attributes are those of a file that had the same inode: numbers of inodes are used again.
    ///
    /// The time of making decides, where both are known; else what a move leaves as it was.
    private static func isSame(
        _ attributes: FileAttributes, kind: Int, size: Int64, modified: Int64, created: Int64?
    ) -> Bool {
        guard attributes.kind.rawValue == kind else { return false }
        if let before = created, let now = attributes.created { return before == now }
        return attributes.kind == .folder || attributes.size == size && attributes.modified == modified
    }

    /// Marks a folder and those beneath it as gone, so that what is in them is not found, or as there again.
    private func setGone(_ isGone: Bool, beneath path: [UInt8]) throws {
        try database.cachedStatement(
            sql: "UPDATE folder SET gone = ?1 WHERE (path = ?2 OR path >= ?3 AND path < ?4) AND gone <> ?1"
        ).execute(arguments: [isGone, Data(path), path.beneath.from, path.beneath.to])
    }

    private func isAnnotated(_ id: Int64) throws -> Bool {
        try Bool.fetchOne(
            database.cachedStatement(
                sql: """
                    SELECT EXISTS (SELECT 1 FROM tag_use WHERE entry = ?1)
                        OR EXISTS (SELECT 1 FROM annotation WHERE entry = ?1)
                    """), arguments: [id]) ?? false
    }

    /// Notes a folder's own times and size, which change with what is in it; the folder around it is not told.
    ///
    /// Returns true when they did.
    private func noteAttributes(_ attributes: FileAttributes, of id: Int64) throws -> Bool {
        try database.cachedStatement(
            sql: """
                UPDATE entry SET size = ?2, modified = ?3, changed = ?4
                WHERE id = ?1 AND (size <> ?2 OR modified <> ?3 OR changed <> ?4)
                """
        ).execute(arguments: [id, attributes.size, attributes.modified, attributes.changed])
        return database.changesCount > 0
    }

    private func isHidden(_ id: Int64) throws -> Bool {
        try
            (Int64.fetchOne(
                database.cachedStatement(sql: "SELECT flags FROM entry WHERE id = ?"), arguments: [id]) ?? 0) & 1 != 0
    }

    private func flags(_ name: [UInt8], _ isInHidden: Bool) -> Int64 {
        isInHidden || name.first == UInt8(ascii: ".") ? IndexSchema.Flags.hidden.rawValue : 0
    }

    private mutating func insert(
        _ entry: ListedEntry, into folder: Int64, _ isInHidden: Bool, _ listing: FolderListing, _ state: inout State
    ) throws {
        let (id, attributes) = (nextID, entry.attributes)
        nextID += 1
        let text = IndexedName(entry.name)
        insertEntry.setUncheckedArguments([
            id, folder, Data(entry.name), attributes.kind.rawValue, text.category(attributes.kind), text.fileExtension,
            attributes.size, attributes.modified, attributes.changed, attributes.created, attributes.inode, now,
            flags(entry.name, isInHidden),
        ])
        try insertEntry.execute()
        names.set(id, entry.name, folded: text.folded, folder: listing.path.count, attributes.kind)
        state.counts.added += 1
        state.changes?.note(id, .added, listing.path, entry.name)
        if attributes.kind == .folder {
            try addFolder(id, at: listing.path.appending(name: entry.name), attributes, &state)
        }
    }

    private func addFolder(
        _ id: Int64, at path: [UInt8], _ attributes: FileAttributes, _ state: inout State
    ) throws {
        insertFolder.setUncheckedArguments([id, state.location, Data(path), attributes.device])
        try insertFolder.execute()
        if state.listsNew { state.toList.append(path) }
    }

    private func update(
        _ entry: ListedEntry, _ old: Known, _ folder: Int64, _ isInHidden: Bool, _ listing: FolderListing,
        _ state: inout State
    ) throws {
        let attributes = entry.attributes
        let flags = flags(entry.name, isInHidden)
        let isSame =
            old.kind == attributes.kind.rawValue && old.inode == attributes.inode && old.size == attributes.size
            && old.modified == attributes.modified && old.changed == attributes.changed
        guard !isSame || old.flags != flags else {
            // An index of before the time of making was kept.
            if old.created == nil, let created = attributes.created {
                try database.cachedStatement(sql: "UPDATE entry SET created = ? WHERE id = ?").execute(
                    arguments: [created, old.id])
            }
            return
        }
        let path = listing.path.appending(name: entry.name)
        if old.kind == StoredKind.folder.rawValue, attributes.kind != .folder {
            try removeContents(of: old.id)
            state.changes?.empty(path)
            try database.cachedStatement(sql: "DELETE FROM folder WHERE id = ?").execute(arguments: [old.id])
        }
        try updateEntry.execute(arguments: [
            attributes.kind.rawValue, IndexedName(entry.name).category(attributes.kind), attributes.size,
            attributes.modified, attributes.changed, attributes.created, attributes.inode, flags, old.id,
        ])
        if old.kind != attributes.kind.rawValue {
            names.set(
                old.id, entry.name, folded: foldedName(entry.name), folder: listing.path.count, attributes.kind)
        }
        state.counts.changed += 1
        state.changes?.note(old.id, .changed, listing.path, entry.name)
        if attributes.kind == .folder {
            if old.kind != StoredKind.folder.rawValue {
                try addFolder(old.id, at: path, attributes, &state)
            } else if old.flags & IndexSchema.Flags.gone.rawValue != 0 || old.inode != attributes.inode {
                try setGone(false, beneath: path)
                state.changes?.touchEverything()
                if state.listsNew { state.toList.append(path) }
            }
        }
    }

    // MARK: - What has moved

    /// An entry of which a file elsewhere is the continuation.
    private struct Candidate {
        let id: Int64
        /// Its folder and its name there; `nil` when it is in none.
        let place: (folder: [UInt8], name: [UInt8])?
    }

    /// The entry of a file with these attributes that is not any more where the index has it.
    private func candidate(_ attributes: FileAttributes) throws -> Candidate? {
        for row in try Row.fetchAll(selectInode, arguments: [attributes.inode]) {
            guard row[8] == attributes.device,
                Self.isSame(attributes, kind: row[2], size: row[3], modified: row[5], created: row[6])
            else { continue }
            if row[9] { return Candidate(id: row[0], place: nil) }
            let (name, folder) = (try Self.bytes(row, 1), try Self.bytes(row, 7))
            if !IndexSchema.Flags(rawValue: row[4]).contains(.gone),
                let now = try? OpenFolder(path: folder).attributes(of: name), now.inode == attributes.inode
            {
                // Another name for it is no move.
                continue
            }
            return Candidate(id: row[0], place: (folder, name))
        }
        return nil
    }

    /// Takes a name that is new in its folder for one that was elsewhere, if that is so, and returns its number.
    private mutating func move(
        _ entry: ListedEntry, into folder: Int64, _ isInHidden: Bool, _ listing: FolderListing, _ state: inout State
    ) throws -> Int64? {
        let attributes = entry.attributes
        guard let candidate = try candidate(attributes) else { return nil }
        let id = candidate.id
        let text = IndexedName(entry.name)
        try database.cachedStatement(
            sql: """
                UPDATE entry SET folder = ?, name = ?, category = ?, extension = ?, modified = ?, changed = ?, created = ?,
                    size = ?, flags = ?
                WHERE id = ?
                """
        ).execute(arguments: [
            folder, Data(entry.name), text.category(attributes.kind), text.fileExtension, attributes.modified,
            attributes.changed, attributes.created, attributes.size, flags(entry.name, isInHidden), id,
        ])
        names.set(id, entry.name, folded: text.folded, folder: listing.path.count, attributes.kind)
        state.counts.moved += 1
        let new = listing.path.appending(name: entry.name)
        guard let place = candidate.place else {
            // It had gone, as far as anybody was told.
            state.changes?.note(id, .added, listing.path, entry.name)
            try database.cachedStatement(sql: "DELETE FROM kept WHERE entry = ?").execute(arguments: [id])
            if attributes.kind == .folder { try addFolder(id, at: new, attributes, &state) }
            return id
        }
        state.changes?.note(id, .moved(from: place.folder.appending(name: place.name)), listing.path, entry.name)
        if attributes.kind == .folder {
            let old = place.folder.appending(name: place.name)
            try database.execute(
                sql: """
                    UPDATE folder SET location = ?3, path = CAST(?2 || substr(path, ?4) AS BLOB), gone = 0
                    WHERE path = ?1 OR path >= ?5 AND path < ?6
                    """,
                arguments: [
                    Data(old), Data(new), state.location, old.count + 1, old.beneath.from, old.beneath.to,
                ])
            try names.moved(to: new)
            state.changes?.touchEverything()
            if state.listsNew { state.toList.append(new) }
        }
        return id
    }

    // MARK: - What has gone

    /// Removes what is marked as gone; up to `limit` names with all that is beneath them.
    ///
    /// Returns true when there may be more.
    func removeGone(limit: Int, _ changes: inout ChangeSet?) throws -> Bool {
        let ids = try Int64.fetchAll(
            database, sql: "SELECT id FROM entry WHERE flags & 2 AND folder <> 0 LIMIT ?", arguments: [limit])
        for id in ids {
            if changes != nil { try note(id, in: &changes) }
            try remove(id)
        }
        return ids.count == limit
    }

    /// Notes a name that is about to be removed, unless it was with the folder around it.
    private func note(_ id: Int64, in changes: inout ChangeSet?) throws {
        let row = try Row.fetchOne(
            database.cachedStatement(
                sql: """
                    SELECT entry.name, folder.path FROM entry JOIN folder ON folder.id = entry.folder WHERE entry.id = ?
                    """),
            arguments: [id])
        if let row { changes?.note(id, .removed, try Self.bytes(row, 1), try Self.bytes(row, 0)) }
    }

    /// Removes what was kept longer, once every location has been looked through from beginning to end since.
    func removeKept() throws {
        try database.execute(
            sql: """
                DELETE FROM entry
                WHERE id IN (SELECT entry FROM kept WHERE mark < (SELECT min(walked) FROM location))
                """)
    }

    /// Takes an entry out of its folder and of what is searched; what was noted of it waits for the file to turn up.
    private func keep(_ id: Int64) throws {
        names.remove(id)
        try database.cachedStatement(
            sql: """
                INSERT INTO kept (entry, device, mark)
                SELECT entry.id, folder.device, (SELECT value FROM meta WHERE name = 'scans')
                FROM entry JOIN folder ON folder.id = entry.folder WHERE entry.id = ?
                """
        ).execute(arguments: [id])
        // In no folder names are their numbers.
        try database.cachedStatement(
            sql: "UPDATE entry SET folder = 0, name = CAST('kept ' || id AS BLOB), flags = 2 WHERE id = ?"
        ).execute(arguments: [id])
    }

    /// Removes a name and all that is beneath it.
    func remove(_ id: Int64) throws {
        try removeContents(of: id)
        try database.cachedStatement(sql: "DELETE FROM folder WHERE id = ?").execute(arguments: [id])
        if keepsAnnotated, try isAnnotated(id) { return try keep(id) }
        names.remove(id)
        try database.cachedStatement(sql: "DELETE FROM entry WHERE id = ?").execute(arguments: [id])
    }

    /// Removes the top of a location, which has no name to forget, with what is in it.
    func removeTop(_ id: Int64) throws {
        try removeContents(of: id)
        try database.execute(sql: "DELETE FROM folder WHERE id = ?", arguments: [id])
        try database.execute(sql: "DELETE FROM entry WHERE id = ?", arguments: [id])
    }

    /// Removes what is in a folder, which stays as a name.
    func empty(_ id: Int64) throws { try removeContents(of: id) }

    private func removeContents(of id: Int64) throws {
        let path = try Data.fetchOne(
            database.cachedStatement(sql: "SELECT path FROM folder WHERE id = ?"), arguments: [id]
        ).map { [UInt8]($0) }
        guard let path else { return }
        // The folders beneath, and this one.
        let folders = try Int64.fetchAll(
            database, sql: "SELECT id FROM folder WHERE path = ? OR path >= ? AND path < ?",
            arguments: [Data(path), path.beneath.from, path.beneath.to])
        // What is kept is found by the device of its folder, so that the folders go last.
        if keepsAnnotated { for folder in folders { try keepAnnotated(in: folder) } }
        for folder in folders {
            let children = try Int64.fetchCursor(
                database.cachedStatement(sql: "SELECT id FROM entry WHERE folder = ?"), arguments: [folder])
            while let child = try children.next() { names.remove(child) }
            try database.cachedStatement(sql: "DELETE FROM entry WHERE folder = ?").execute(arguments: [folder])
            if folder != id {
                try database.cachedStatement(sql: "DELETE FROM folder WHERE id = ?").execute(arguments: [folder])
            }
        }
    }

    private func keepAnnotated(in folder: Int64) throws {
        let entries = try Int64.fetchAll(
            database.cachedStatement(
                sql: """
                    SELECT id FROM entry
                    WHERE folder = ? AND (EXISTS (SELECT 1 FROM tag_use WHERE tag_use.entry = entry.id)
                        OR EXISTS (SELECT 1 FROM annotation WHERE annotation.entry = entry.id))
                    """), arguments: [folder])
        for entry in entries { try keep(entry) }
    }

    private static func bytes(_ row: Row, _ index: Int) throws -> [UInt8] {
        try row.withUnsafeData(atIndex: index) { $0.map { [UInt8]($0) } ?? [] }
    }
}

/// What a scan did.
package struct ScanCounts: Hashable, Sendable {
    /// The folders listed.
    package var folders = 0
    /// The names seen in them.
    package var entries = 0
    package var added = 0
    package var changed = 0
    package var moved = 0
    package var removed = 0
    /// The folders that could not be listed.
    package var problems = 0

    package init() {}

    /// True when the index was as the disk is.
    package var foundNothingNew: Bool { added == 0 && changed == 0 && moved == 0 && removed == 0 }
}
