import Foundation
import GRDB
import KithIdentity
import KithTesting
import KithWire
import Testing

@testable import KithStore

@Suite struct RootsTests {
    @Test func `the root of a grant is what it led to when it was granted, for every device`() throws {
        let folder = try TemporaryFolder()
        let top = Store.resolved(folder.path)
        try folder.open().close()
        for name in ["real", "other"] {
            try FileManager.default.createDirectory(atPath: top + "/" + name, withIntermediateDirectories: false)
        }
        let link = top + "/link"
        #expect(symlink("real", link) == 0)
        let grant = Grant.files(.read, root: link + "/a/b")
        var store = try folder.open()
        _ = try store.add(try device(1, name: "one", grants: [grant]))
        #expect(try store.grantedRoot(link + "/a/b") == top + "/real/a/b")
        #expect(try store.grantedRoot("/never/granted") == "/never/granted")
        #expect(unlink(link) == 0 && symlink("other", link) == 0)
        _ = try store.add(try device(2, name: "two", grants: [grant]))
        #expect(try store.grantedRoot(link + "/a/b") == top + "/real/a/b")
        store.close()
        store = try folder.open()
        defer { store.close() }
        #expect(try store.grantedRoot(link + "/a/b") == top + "/real/a/b")

        // Taken from all and given again, it is looked at again.
        try store.setGrants([], of: try device(1).id)
        #expect(try store.grantedRoot(link + "/a/b") == top + "/real/a/b")
        _ = try store.forget(try device(2).id)
        try store.setGrants([grant], of: try device(1).id)
        #expect(try store.grantedRoot(link + "/a/b") == top + "/other/a/b")
    }

    @Test func `an invitation is good for the folder that it was made for`() throws {
        let folder = try TemporaryFolder()
        let top = Store.resolved(folder.path)
        let store = try folder.open()
        defer { store.close() }
        let grant = Grant.files(.read, root: top + "/shared")
        let record = InvitationRecord(try invitation(), grants: [grant], isAutomatic: true)
        try store.add(record, now: 1_000)
        #expect(symlink("/", top + "/shared") == 0)
        let phone = try device(1, grants: [grant])
        let (number, _) = try store.beginAttempt(by: record.id, from: phone.id, at: "", now: 1_001)
        _ = try store.pair(phone, invitation: record.id, attempt: number, now: 1_001)
        #expect(try store.grantedRoot(top + "/shared") == top + "/shared")
    }

    @Test func `of old grants, no link is believed that a device may have made`() throws {
        let folder = try TemporaryFolder()
        let top = Store.resolved(folder.path)
        try FileManager.default.createDirectory(atPath: top + "/srv", withIntermediateDirectories: false)
        #expect(symlink("/", top + "/srv/made") == 0 && symlink("srv", top + "/own") == 0)
        let queue = try DatabaseQueue()
        try Migrations.migrator.migrate(queue, upTo: "1")
        try queue.write { database in
            try database.execute(
                sql: "INSERT INTO devices VALUES (?, 'laptop', '', '', 0, NULL)",
                arguments: [Data(repeating: 1, count: 32)])
            for grant in [
                "files:write=\(top)/srv", "files:read=\(top)/srv/made", "files:read=\(top)/own",
                "files:read=\(top)/own/made",
                "shell",
            ] {
                try database.execute(
                    sql: "INSERT INTO grants VALUES (?, ?)", arguments: [Data(repeating: 1, count: 32), grant])
            }
        }
        try Migrations.migrator.migrate(queue)
        let roots = try queue.read { database in
            try Row.fetchAll(database, sql: "SELECT * FROM roots").map { ($0["root"] as String, $0["path"] as String) }
        }
        #expect(
            Dictionary(uniqueKeysWithValues: roots) == [
                top + "/srv": top + "/srv", top + "/srv/made": top + "/srv/made", top + "/own": top + "/srv",
                // Resolved it would be "/", by a link that the laptop may have made.
                top + "/own/made": top + "/own/made",
            ])
    }
}
