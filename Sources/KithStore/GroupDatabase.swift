import Crypto
import Foundation
import GRDB
public import KithIdentity
public import KithMLS
public import KithWire
import Synchronization

/// Groups in `groups.sqlite` of a data directory, every row sealed.
///
/// Two processes may have it open, an app and its extension: the slower one gets an error and loads the group again.
/// Every change is synchronised: killed at any moment, the file opens with every change that was reported done. There is
/// no write-ahead log, whose frames would hold what was deleted; pages are overwritten, and the journal with their old
/// content is empty again when a change is done.
///
/// What it holds is sealed with keys in the device's `KeyStore`, which step forward as secrets are deleted
/// (``GroupKeys``): a database restored from an old copy does not open once they have. Before, it opens, and each of its
/// groups says that it was rolled back: the number of changes that stands beside the keys is then ahead of its own.
///
/// Calls are synchronous, with a few flushes to the disk for a change.
public final class GroupDatabase: GroupStorage {
    /// The number of deleted or replaced secrets after which the key steps forward.
    static let erasuresPerStep: Int64 = 256
    /// The number of rows under an old key that a change seals anew besides.
    static let rewrapsPerChange = 4

    /// The bytes of a page: a change touches some ten rows in as many places, and the journal has each page whole.
    static let pageSize = 512

    private let database: DatabaseQueue
    private let keyStore: any KeyStore
    private let keys: Mutex<GroupKeys>

    /// Opens the groups of a data directory, making the directory and the database when they are not there.
    ///
    /// Without `keys` they are in files beside the database, sealed with a key of this machine (`FileKeyStore`): enough
    /// against a copy of the database, and not against one of the directory.
    ///
    /// ```swift
    /// let storage = try GroupDatabase.open(directory: place)
    /// ```
    ///
    /// - Throws: `KithError` `.denied` when we may not, `.corrupt` when the database or its keys are damaged, missing, of a
    ///   later version of Kith, or when one of them was restored from an old copy.
    public static func open(
        directory: String, keys: (any KeyStore)? = nil
    ) throws(KithError) -> GroupDatabase {
        try DataDirectory.prepare(directory)
        let keyStore = keys ?? FileKeyStore(directory: directory, seal: .machineKey)
        let path = directory + "/groups.sqlite"
        // Two processes that open a database of an earlier version at once would meet in the change of its mode, which
        // waits for nobody.
        let gate = try Gate(directory + "/groups.lock")
        defer { gate.release() }
        do {
            let database = try Store.openDatabase(
                at: path, label: "kith.groups", journal: "TRUNCATE", pageSize: Self.pageSize,
                migrator: GroupMigrations.migrator)
            let keys = try database.write { try Self.openKeys(keyStore, $0, path) }
            return GroupDatabase(database: database, keyStore: keyStore, keys: keys)
        } catch let error as KithError {
            throw error
        } catch {
            throw Store.failure("open \(path)", error)
        }
    }

    private init(database: DatabaseQueue, keyStore: any KeyStore, keys: GroupKeys) {
        self.database = database
        self.keyStore = keyStore
        self.keys = Mutex(keys)
    }

    private static func openKeys(_ store: any KeyStore, _ database: Database, _ path: String) throws -> GroupKeys {
        let generation = try Self.generation(database)
        guard let keys = try GroupKeys(store) else {
            guard generation == 0 else {
                throw KithError(
                    .corrupt, "The keys of \(path) are missing, and it cannot be opened. Restore them from a backup.")
            }
            let keys = GroupKeys()
            // The keys first: what is sealed must never wait for the key that opens it.
            try keys.write(to: store)
            try database.execute(sql: "UPDATE store SET generation = 1")
            try updateTag(database, keys.lasting)
            return keys
        }
        guard generation == 0 || (keys.oldest...keys.newest).contains(generation) else {
            throw KithError(
                .corrupt,
                "\(path) and its keys are not of the same time: one of them was restored from an old copy.")
        }
        try checkChanges(database, keys, generation: generation)
        // No generation yet: the process ended between the two lines above.
        if generation == 0 { try database.execute(sql: "UPDATE store SET generation = ?", arguments: [keys.newest]) }
        try updateTag(database, keys.lasting)
        let changes = try changes(database)
        guard changes > keys.changes else { return keys }
        // The process ended before it had written so: what is stored may leave from here on.
        var settled = keys
        settled.changes = changes
        try settled.write(to: store)
        return settled
    }

    /// Closes the database; nothing else may be called after it.
    public func close() {
        // The connection is gone either way, and there is nothing to lose: every change was synchronised.
        try? database.close()
    }

    // MARK: Reading

    /// The names of all groups.
    public func groups() throws(GroupStorageError) -> [[UInt8]] {
        try read { database in
            try Data.fetchAll(database, sql: "SELECT id FROM groups ORDER BY number").map { Array($0) }
        }
    }

    /// A group, or nil when it is not there.
    public func load(_ groupID: [UInt8]) throws(GroupStorageError) -> StoredGroup? {
        try settleOthers()
        return try read { database in
            guard
                let group = try Row.fetchOne(
                    database, sql: "SELECT number, version, rolled_back FROM groups WHERE id = ?",
                    arguments: [Data(groupID)])
            else { return nil }
            let number: Int64 = group["number"]
            let version: Int64 = group["version"]
            var rows: [GroupRow] = []
            let cursor = try Row.fetchCursor(
                database,
                sql: "SELECT epoch, kind, number, seal, content FROM group_rows WHERE group_number = ?",
                arguments: [number])
            while let row = try cursor.next() {
                guard
                    let kind = UInt8(exactly: try row.decode(Int64.self, forColumn: "kind"))
                        .flatMap(GroupRow.Kind.init(rawValue:))
                else {
                    throw GroupStorageError.laterFormat
                }
                let key = GroupRow.Key(
                    kind, epoch: UInt64(bitPattern: try row.decode(forColumn: "epoch")),
                    number: UInt64(bitPattern: try row.decode(forColumn: "number")))
                let location = GroupRowLocation(
                    group: groupID, kind: kind.rawValue, epoch: key.epoch, number: key.number)
                rows.append(GroupRow(key, try self.content(row, location)))
            }
            return StoredGroup(
                groupID: groupID, version: UInt64(bitPattern: version), rows: rows,
                isRolledBack: group["rolled_back"] != 0)
        }
    }

    /// Sees to it that what another process has stored may leave: it may have ended before it wrote so beside the keys.
    private func settleOthers() throws(GroupStorageError) {
        let changes = try read { database in try Self.changes(database) }
        guard changes > keys.withLock({ $0.changes }) else { return }
        do { try settleKeys() } catch { throw Self.failure(error) }
    }

    /// The version of a group that is stored.
    public func version(of groupID: [UInt8]) throws(GroupStorageError) -> UInt64? {
        try read { database in
            try Int64.fetchOne(database, sql: "SELECT version FROM groups WHERE id = ?", arguments: [Data(groupID)])
                .map { UInt64(bitPattern: $0) }
        }
    }

    /// The items of a kind.
    public func items(_ kind: StorageItem.Kind) throws(GroupStorageError) -> [StorageItem] {
        try read { database in
            try Row.fetchAll(
                database, sql: "SELECT name, seal, content FROM items WHERE kind = ? ORDER BY name",
                arguments: [Int64(kind.rawValue)]
            ).map { try self.item(kind, $0) }
        }
    }

    /// An item, or nil when it is not there.
    public func item(_ key: StorageItem.Key) throws(GroupStorageError) -> StorageItem? {
        try read { database in
            try Row.fetchOne(
                database, sql: "SELECT name, seal, content FROM items WHERE kind = ? AND name = ?",
                arguments: [Int64(key.kind.rawValue), Data(key.name)]
            ).map { try self.item(key.kind, $0) }
        }
    }

    private func item(_ kind: StorageItem.Kind, _ row: Row) throws -> StorageItem {
        let name = Array(try row.decode(Data.self, forColumn: "name"))
        return StorageItem(
            StorageItem.Key(kind, name), try content(row, GroupRowLocation(item: kind.rawValue, name: name)))
    }

    /// The content of a row, opened; a damaged file may have anything in any column.
    private func content(_ row: Row, _ location: GroupRowLocation) throws -> StoredBytes {
        try open(row.decode(forColumn: "content"), row.decode(forColumn: "seal"), location)
    }

    private func read<Value>(_ body: (Database) throws -> Value) throws(GroupStorageError) -> Value {
        do { return try database.read(body) } catch GroupStorageError.rolledBack {
            // Another process may have sealed everything anew and forgotten the key while this one was reading.
        } catch { throw Self.failure(error) }
        do { return try database.read(body) } catch { throw Self.failure(error) }
    }

    // MARK: Writing

    /// Writes changes of groups and items together.
    public func commit(_ changes: StorageChanges) throws(GroupStorageError) {
        guard !changes.isEmpty else { return }
        try write { database in
            let generation = try self.currentGeneration(database)
            var erased: Int64 = 0
            for change in changes.groups { try self.write(change, generation, &erased, database) }
            for key in changes.taken {
                guard try Self.remove(key, database) else { throw GroupStorageError.itemMissing }
                erased += 1
            }
            for key in changes.removed where try Self.remove(key, database) { erased += 1 }
            for item in changes.items { try self.put(item, generation, database) }
            for item in changes.added {
                guard try !Self.has(item.key, database) else { throw GroupStorageError.conflict }
                try self.put(item, generation, database)
            }
            try self.step(erased, Self.rewrapsPerChange, database)
        }
    }

    /// Seals up to `limit` rows that are still under an old key anew, and forgets the key when none is left.
    ///
    /// Every change does so with a few; a quiet moment is a good one for more. Gives how many are left.
    @discardableResult
    public func maintain(limit: Int = 1_000) throws(GroupStorageError) -> Int {
        try write { database in
            let generation = try self.currentGeneration(database)
            try self.step(0, limit, database)
            return try Int.fetchOne(
                database,
                sql: """
                    SELECT (SELECT count(*) FROM group_rows WHERE seal > 0 AND seal < ?)
                        + (SELECT count(*) FROM items WHERE seal > 0 AND seal < ?)
                    """, arguments: [generation, generation]) ?? 0
        }
    }

    private func write<Value>(_ body: (Database) throws -> Value) throws(GroupStorageError) -> Value {
        let value: Value
        do { value = try database.write(body) } catch { throw Self.failure(error) }
        // Nothing leaves before this is on the disk: a copy of the database from before is then an old one.
        do { try settleKeys() } catch {
            guard case .unavailable(let message) = Self.failure(error) else { throw Self.failure(error) }
            throw .unsettled(message)
        }
        return value
    }

    private func write(
        _ change: GroupChanges, _ generation: Int64, _ erased: inout Int64, _ database: Database
    ) throws {
        let id = Data(change.groupID)
        let stored = try Row.fetchOne(
            database, sql: "SELECT number, version FROM groups WHERE id = ?", arguments: [id])
        let version: Int64? = stored?["version"]
        guard version == change.expectedVersion.map({ Int64(bitPattern: $0) }) else {
            throw GroupStorageError.conflict
        }
        if change.deletesGroup {
            try database.execute(sql: "DELETE FROM groups WHERE id = ?", arguments: [id])
            erased += Self.erasuresPerStep
            guard !change.rows.isEmpty else { return }
        }
        let number: Int64
        if let stored, !change.deletesGroup {
            number = stored["number"]
            try database.cachedStatement(sql: "UPDATE groups SET version = ? WHERE number = ?")
                .execute(arguments: [Int64(bitPattern: change.nextVersion), number])
        } else {
            try database.execute(
                sql: "INSERT INTO groups (id, version) VALUES (?, ?)",
                arguments: [id, Int64(bitPattern: change.nextVersion)])
            number = database.lastInsertedRowID
        }
        if change.replacesState {
            try database.execute(
                sql: "DELETE FROM group_rows WHERE group_number = ? AND (kind < 32 OR kind >= 64)",
                arguments: [number])
            try database.execute(sql: "UPDATE groups SET rolled_back = 0 WHERE number = ?", arguments: [number])
            erased += Self.erasuresPerStep
        }
        for epoch in change.removedEpochs {
            try database.cachedStatement(
                sql: "DELETE FROM group_rows WHERE group_number = ? AND epoch = ? AND kind >= 64"
            ).execute(arguments: [number, Int64(bitPattern: epoch)])
            erased += Int64(database.changesCount)
        }
        for key in change.removed {
            try database.cachedStatement(
                sql: "DELETE FROM group_rows WHERE group_number = ? AND epoch = ? AND kind = ? AND number = ?"
            ).execute(arguments: [
                number, Int64(bitPattern: key.epoch), Int64(key.kind.rawValue), Int64(bitPattern: key.number),
            ])
            if key.kind.isSecret { erased += Int64(database.changesCount) }
        }
        for row in change.rows {
            let key = row.key
            let location = GroupRowLocation(
                group: change.groupID, kind: key.kind.rawValue, epoch: key.epoch, number: key.number)
            let seal = key.kind.isSecret ? generation : 0
            try database.cachedStatement(
                sql: """
                    INSERT INTO group_rows (group_number, epoch, kind, number, seal, content) VALUES (?, ?, ?, ?, ?, ?)
                    ON CONFLICT DO UPDATE SET seal = excluded.seal, content = excluded.content
                    """
            ).execute(arguments: [
                number, Int64(bitPattern: key.epoch), Int64(key.kind.rawValue), Int64(bitPattern: key.number), seal,
                try self.seal(row.content, seal, location),
            ])
            // Whether it replaced one is not known: counting too many steps too early, which is no harm.
            if key.kind == .ratchet || key.kind == .state { erased += 1 }
        }
    }

    private func put(_ item: StorageItem, _ generation: Int64, _ database: Database) throws {
        let location = GroupRowLocation(item: item.key.kind.rawValue, name: item.key.name)
        try database.cachedStatement(
            sql: """
                INSERT INTO items (kind, name, seal, content) VALUES (?, ?, ?, ?)
                ON CONFLICT DO UPDATE SET seal = excluded.seal, content = excluded.content
                """
        ).execute(arguments: [
            Int64(item.key.kind.rawValue), Data(item.key.name), generation,
            try seal(item.content, generation, location),
        ])
    }

    private static func has(_ key: StorageItem.Key, _ database: Database) throws -> Bool {
        try Bool.fetchOne(
            database, sql: "SELECT EXISTS (SELECT 1 FROM items WHERE kind = ? AND name = ?)",
            arguments: [Int64(key.kind.rawValue), Data(key.name)]) ?? false
    }

    private static func remove(_ key: StorageItem.Key, _ database: Database) throws -> Bool {
        try database.cachedStatement(sql: "DELETE FROM items WHERE kind = ? AND name = ?")
            .execute(arguments: [Int64(key.kind.rawValue), Data(key.name)])
        return database.changesCount == 1
    }

    static func failure(_ error: any Error) -> GroupStorageError {
        if let error = error as? GroupStorageError { return error }
        if error is RowDecodingError { return .corrupt }
        let known = error as? KithError ?? Store.failure("use the groups' database", error)
        return known.code == .corrupt ? .corrupt : .unavailable(known.message)
    }
}

// MARK: - Sealing

extension GroupDatabase {
    private static func generation(_ database: Database) throws -> Int64 {
        try Int64.fetchOne(database, sql: "SELECT generation FROM store") ?? 0
    }

    /// The key that rows are sealed with now; another process may have made it.
    private func currentGeneration(_ database: Database) throws -> Int64 {
        let generation = try Self.generation(database)
        _ = try key(generation)
        return generation
    }

    /// A generation's key, read again from the key store when it is not known.
    private func key(_ generation: Int64) throws -> SymmetricKey {
        try keys.withLock { keys in
            if let key = keys.key(generation) { return key }
            guard let stored = try GroupKeys(keyStore) else { throw GroupStorageError.corrupt }
            keys = stored
            guard let key = stored.key(generation) else { throw GroupStorageError.rolledBack }
            return key
        }
    }

    private func seal(_ content: StoredBytes, _ generation: Int64, _ location: GroupRowLocation) throws -> Data {
        let key = try key(generation)
        return try content.withBytes { bytes in
            try ChaChaPoly.seal(bytes, using: key, authenticating: location.bytes).combined
        }
    }

    private func open(_ sealed: Data, _ generation: Int64, _ location: GroupRowLocation) throws -> StoredBytes {
        let key = try key(generation)
        // Neither error says more than that it is not ours, or not in its place.
        guard let box = try? ChaChaPoly.SealedBox(combined: sealed),
            var bytes = try? ChaChaPoly.open(box, using: key, authenticating: location.bytes)
        else { throw GroupStorageError.corrupt }
        defer { bytes.resetBytes(in: bytes.startIndex..<bytes.endIndex) }
        var copy = Array(bytes)
        defer { for index in copy.indices { copy[index] = 0 } }
        return StoredBytes(copying: copy)
    }

    /// Counts what was erased, seals some rows anew, and begins the next generation when it is time.
    private func step(_ erased: Int64, _ limit: Int, _ database: Database) throws {
        let generation = try Self.generation(database)
        try rewrap(limit, generation, database)
        let total =
            try Int64.fetchOne(
                database, sql: "UPDATE store SET erased = erased + ?, changes = changes + 1 RETURNING erased",
                arguments: [erased]) ?? 0
        if total >= Self.erasuresPerStep { try beginGeneration(generation, database) }
        try Self.updateTag(database, keys.withLock { $0.lasting })
    }

    private func beginGeneration(_ generation: Int64, _ database: Database) throws {
        var stored = try GroupKeys(keyStore) ?? keys.withLock { $0 }
        // Not while rows may be under an older key: this very change may have replaced the last of them, and come to
        // nothing yet.
        guard stored.oldest == generation else { return }
        // The new key must be safe before a row is sealed with it; one that is there already was made by a process that
        // ended right here, and never used.
        if stored.newest == generation { stored.add() }
        try stored.write(to: keyStore)
        keys.withLock { $0 = stored }
        try database.execute(sql: "UPDATE store SET generation = ?, erased = 0", arguments: [stored.newest])
    }

    /// Seals at most `limit` rows under older keys with the current one.
    private func rewrap(_ limit: Int, _ generation: Int64, _ database: Database) throws {
        let rows = try Row.fetchAll(
            database.cachedStatement(
                sql: """
                    SELECT groups.id, group_rows.* FROM group_rows JOIN groups ON groups.number = group_number
                    WHERE seal > 0 AND seal < ? LIMIT ?
                    """), arguments: [generation, limit])
        for row in rows {
            let location = GroupRowLocation(
                group: Array(try row.decode(Data.self, forColumn: "id")),
                kind: UInt8(truncatingIfNeeded: try row.decode(Int64.self, forColumn: "kind")),
                epoch: UInt64(bitPattern: try row.decode(forColumn: "epoch")),
                number: UInt64(bitPattern: try row.decode(forColumn: "number")))
            try database.cachedStatement(
                sql: """
                    UPDATE group_rows SET seal = ?, content = ?
                    WHERE group_number = ? AND epoch = ? AND kind = ? AND number = ?
                    """
            ).execute(arguments: [
                generation, try seal(content(row, location), generation, location),
                row["group_number"] as Int64, row["epoch"] as Int64, row["kind"] as Int64, row["number"] as Int64,
            ])
        }
        guard rows.count < limit else { return }
        let items = try Row.fetchAll(
            database.cachedStatement(sql: "SELECT * FROM items WHERE seal > 0 AND seal < ? LIMIT ?"),
            arguments: [generation, limit - rows.count])
        for row in items {
            let name = try row.decode(Data.self, forColumn: "name")
            let kind = try row.decode(Int64.self, forColumn: "kind")
            let location = GroupRowLocation(item: UInt8(truncatingIfNeeded: kind), name: Array(name))
            try database.cachedStatement(sql: "UPDATE items SET seal = ?, content = ? WHERE kind = ? AND name = ?")
                .execute(arguments: [
                    generation, try seal(content(row, location), generation, location), kind, name,
                ])
        }
    }

    /// Writes the number of changes beside the keys, and forgets keys that no row is under any more: after the change
    /// that saw to it is on the disk, never before.
    private func settleKeys() throws {
        // Under the write lock: another process may be changing the keys as well.
        try database.write { database in
            let generation = try Self.generation(database)
            let changes = try Self.changes(database)
            guard var stored = try GroupKeys(self.keyStore) else { throw GroupStorageError.corrupt }
            // Another process has written this change's number with its own.
            let isTold = stored.changes == changes
            stored.changes = changes
            // It is, since it was opened.
            stored.tagsChanges = true
            guard stored.oldest < generation else {
                if !isTold { try stored.write(to: self.keyStore) }
                self.keys.withLock { $0 = stored }
                return
            }
            let isUsed = try Bool.fetchOne(
                database,
                sql: """
                    SELECT EXISTS (SELECT 1 FROM group_rows WHERE seal > 0 AND seal < ?)
                        OR EXISTS (SELECT 1 FROM items WHERE seal > 0 AND seal < ?)
                    """, arguments: [generation, generation])
            // What a copy or the disk still holds is sealed with the key that goes.
            if isUsed == false { stored.forget(before: generation) }
            if isUsed == false || !isTold { try stored.write(to: self.keyStore) }
            self.keys.withLock { $0 = stored }
        }
    }
}
