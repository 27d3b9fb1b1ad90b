import Crypto
import Foundation
import GRDB
import KithMLS
import KithWire

/// The numbers by which an old copy is told from the newest state.
///
/// They stand in the open, and whoever puts a copy back could change them: a tag vouches for them, made with a key that is
/// in the key store.
extension GroupDatabase {
    /// Marks everything as an old copy when it has seen fewer changes than the keys, or when its numbers were changed.
    static func checkChanges(_ database: Database, _ keys: GroupKeys, generation: Int64) throws {
        let changes = try changes(database)
        let tag = try Data.fetchOne(database, sql: "SELECT tag FROM store")
        // Nothing was written yet, or nothing since tags are made.
        let isUntagged = generation == 0 && keys.changes == 0 || !keys.tagsChanges && tag == nil
        let isGenuine = try isUntagged || tag == self.tag(database, keys.lasting)
        if !isGenuine || changes < keys.changes { try markRolledBack(database, changes: keys.changes) }
    }

    /// The number of changes that were written.
    static func changes(_ database: Database) throws -> Int64 {
        try Int64.fetchOne(database, sql: "SELECT changes FROM store") ?? 0
    }

    /// Notes that what is here is an old copy: none of its groups may go on, and none of its key packages open another.
    private static func markRolledBack(_ database: Database, changes: Int64) throws {
        // A version that no process remembers.
        try database.execute(sql: "UPDATE groups SET rolled_back = 1, version = version + (1 << 40)")
        try database.execute(
            sql: "DELETE FROM items WHERE kind IN (?, ?)",
            arguments: [
                Int64(StorageItem.Kind.keyPackage.rawValue), Int64(StorageItem.Kind.lastResort.rawValue),
            ])
        try database.execute(sql: "UPDATE store SET changes = ?", arguments: [changes])
    }

    /// Makes the tag anew, if it is another.
    static func updateTag(_ database: Database, _ key: SymmetricKey) throws {
        try database.cachedStatement(sql: "UPDATE store SET tag = ?1 WHERE tag IS NOT ?1")
            .execute(arguments: [try tag(database, key)])
    }

    /// The tag: over the numbers of the store, and over the groups that are known to be old.
    private static func tag(_ database: Database, _ key: SymmetricKey) throws -> Data {
        var bytes = Data("kith groups' changes".utf8)
        func append(_ number: Int64) {
            for shift in stride(from: 56, through: 0, by: -8) {
                bytes.append(UInt8(truncatingIfNeeded: number >> shift))
            }
        }
        let numbers = try Row.fetchOne(
            database.cachedStatement(sql: "SELECT generation, erased, changes FROM store"))
        for column in ["generation", "erased", "changes"] {
            append(try numbers?.decode(Int64.self, forColumn: column) ?? 0)
        }
        let old = try Data.fetchAll(
            database.cachedStatement(sql: "SELECT id FROM groups WHERE rolled_back = 1 ORDER BY id"))
        for id in old {
            append(Int64(id.count))
            bytes.append(id)
        }
        let own = HKDF<SHA256>.deriveKey(
            inputKeyMaterial: key, info: Data("kith groups' changes".utf8), outputByteCount: 32)
        return Data(HMAC<SHA256>.authenticationCode(for: bytes, using: own))
    }
}
