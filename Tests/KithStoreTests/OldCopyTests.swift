import Foundation
import GRDB
import KithIdentity
import KithMLS
import KithStore
import KithTesting
import Testing

/// An old copy of the groups' database whose numbers somebody has changed.
@Suite struct OldCopyTests {
    private let folder: TemporaryFolder
    private let keys = MemoryKeyStore()

    init() throws { folder = try TemporaryFolder() }

    private func open() throws -> GroupDatabase { try GroupDatabase.open(directory: folder.path, keys: keys) }

    /// Writes the group and closes the database again; gives the file.
    @discardableResult
    private func write(_ text: String) throws -> [UInt8] {
        let database = try open()
        var changes = GroupChanges([1], expectedVersion: try database.version(of: [1]))
        changes.rows = [GroupRow(GroupRow.Key(.state), StoredBytes(copying: Array(text.utf8)))]
        try database.commit(StorageChanges(changes))
        database.close()
        return try folder.bytes("groups.sqlite")
    }

    private func isRolledBack() throws -> Bool? {
        let database = try open()
        defer { database.close() }
        return try database.load([1])?.isRolledBack
    }

    private func edit(_ sql: String) throws {
        let database = try DatabaseQueue(path: folder.path + "/groups.sqlite")
        try database.write { try $0.execute(sql: sql) }
        try database.close()
    }

    @Test(arguments: [
        "changes = 1 << 60", "changes = changes + 1", "changes = 1 << 60, tag = NULL",
        "changes = 1 << 60, generation = 0", "changes = 1 << 60, generation = 0, tag = NULL",
        "changes = 1 << 60, tag = zeroblob(32)", "tag = NULL",
    ])
    func `an old copy is noticed though it says another number of changes`(numbers: String) throws {
        let old = try write("one")
        try write("two")
        try folder.write(old, to: "groups.sqlite")
        try edit("UPDATE store SET \(numbers)")
        for _ in 0..<2 { #expect(try isRolledBack() == true) }
        // The keys have not believed it either.
        try folder.write(old, to: "groups.sqlite")
        #expect(try isRolledBack() == true)
    }

    @Test func `a group that was found to be old stays so, and a count of deletions is not put back`() throws {
        let old = try write("one")
        let new = try write("two")
        try folder.write(old, to: "groups.sqlite")
        #expect(try isRolledBack() == true)
        try edit("UPDATE groups SET rolled_back = 0")
        #expect(try isRolledBack() == true)
        try folder.write(new, to: "groups.sqlite")
        #expect(try isRolledBack() == false)
        try edit("UPDATE store SET erased = -1000000")
        #expect(try isRolledBack() == true)
    }

    @Test func `a database from before there were tags is believed once`() throws {
        try write("one")
        var secret = try #require(try keys.secret(named: "groups"))
        secret[0] = 2
        try keys.store(secret, named: "groups")
        try edit("UPDATE store SET tag = NULL")
        #expect(try isRolledBack() == false)
        try write("two")
        #expect(try keys.secret(named: "groups")?.first == 3)
        try edit("UPDATE store SET tag = NULL")
        #expect(try isRolledBack() == true)
    }
}
