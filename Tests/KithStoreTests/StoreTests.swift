import Foundation
import GRDB
import KithIdentity
@testable import KithStore
import KithTesting
import KithWire
import Testing

@Suite struct StoreTests {
    // MARK: - The directory

    @Test func `folder and files are for their owner only`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        try store.setSetting("name", "x")
        #expect(try folder.mode(of: "") == 0o700)
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) {
            #expect(try folder.mode(of: name) == 0o600, "\(name)")
        }
    }

    @Test func `the mode of a file is tightened, that of a folder never changed`() throws {
        let folder = try TemporaryFolder()
        try folder.open().close()
        try folder.setMode(0o644, of: "kith.sqlite")
        try folder.open().close()
        #expect(try folder.mode(of: "kith.sqlite") == 0o600)
        for mode in [0o755, 0o710, 0o770, 0o1777] {
            try folder.setMode(mode, of: "")
            do {
                try folder.open().close()
                Issue.record("opened with mode \(String(mode, radix: 8))")
            } catch {
                #expect(error.code == .denied && error.message.contains("chmod 700"))
            }
            #expect(try folder.mode(of: "") == mode)
        }
    }

    @Test func `folders on the way are made`() throws {
        let folder = try TemporaryFolder()
        let store = try openStore(folder.path + "/a/b/")
        store.close()
        #expect(try folder.mode(of: "a/b") == 0o700)
    }

    @Test func `a path that is relative, or a file, is refused`() throws {
        #expect(throws: KithError(.invalid, "")) { _ = try openStore("here/data") }
        let folder = try TemporaryFolder()
        try folder.write([1], to: "file")
        #expect(throws: KithError(.invalid, "")) { _ = try openStore(folder.path + "/file") }
        #expect(throws: KithError.self) { _ = try openStore(folder.path + "/file/below") }
        #expect(try folder.bytes("file") == [1])
    }

    // MARK: - The lock

    @Test func `a second one is refused, and told who has it`() throws {
        let folder = try TemporaryFolder()
        #expect(Store.holder(of: folder.path) == nil)
        let store = try folder.open()
        #expect(Store.holder(of: folder.path) == getpid())
        do {
            _ = try folder.open()
            Issue.record("it opened twice")
        } catch {
            #expect(error.code == .conflict && error.message.contains("process \(getpid())"), "\(error)")
        }
        // The refused one has taken nothing from the first.
        try store.setSetting("a", "b")
        store.close()
        #expect(Store.holder(of: folder.path) == nil)
        let again = try folder.open()
        #expect(try again.setting("a") == "b")
        again.close()
    }

    @Test func `asking who holds it never stands in the way of who wants it`() async throws {
        let folder = try TemporaryFolder()
        try folder.open().close()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<2 {
                group.addTask {
                    while !Task.isCancelled {
                        _ = Store.holder(of: folder.path)
                        await Task.yield()
                    }
                }
            }
            for _ in 0..<30 {
                try folder.open().close()
                await Task.yield()
            }
            group.cancelAll()
        }
    }

    // MARK: - The file

    @Test func `everything is there again after closing`() throws {
        let folder = try TemporaryFolder()
        let invitation = try invitation()
        var store = try folder.open()
        let added = try store.add(device(1, grants: [.shell, .files(.write, root: "/srv")]))
        try store.add(InvitationRecord(invitation, grants: [.forward], isAutomatic: true), now: 1_000)
        try store.setSetting("port", "4433")
        try store.setSetting("port", "4434")
        #expect(try store.takeSetting("none") == nil)
        try store.setSetting("memory", "once")
        #expect(try store.takeSetting("memory") == "once")
        #expect(try store.takeSetting("memory") == nil && store.setting("memory") == nil)
        try store.record(AuditEntry(time: 5, device: "laptop", method: "x", decision: .denied, detail: "why"))
        store.close()
        store = try folder.open()
        defer { store.close() }
        #expect(try store.devices() == [added])
        #expect(try store.setting("port") == "4434" && store.setting("none") == nil)
        let found = try store.usableInvitation(invitation.id, now: 1_500)
        #expect(found == InvitationRecord(invitation, grants: [.forward], isAutomatic: true))
        #expect(try store.audit(limit: 10).map(\.detail) == ["why"])
    }

    @Test func `a database of a later version is refused and stays as it is`() throws {
        let folder = try TemporaryFolder()
        try folder.open().close()
        do {
            let database = try DatabaseQueue(path: folder.path + "/kith.sqlite")
            try database.write { try $0.execute(sql: "INSERT INTO grdb_migrations VALUES ('999')") }
            try database.close()
        }
        let before = try folder.bytes("kith.sqlite")
        do {
            _ = try folder.open()
            Issue.record("it opened")
        } catch {
            #expect(error.code == .corrupt && error.message.contains("later version"), "\(error)")
        }
        #expect(try folder.bytes("kith.sqlite") == before)
        #expect(Store.holder(of: folder.path) == nil)
    }

    @Test(arguments: [
        "not a database, but long enough to be one; ", "SQLite format 3\0 and then nothing that is right; ",
    ])
    func `a damaged file is refused and stays as it is`(text: String) throws {
        let folder = try TemporaryFolder()
        let bytes = Array(String(repeating: text, count: 200).utf8)
        try folder.write(bytes, to: "kith.sqlite")
        do {
            _ = try folder.open()
            Issue.record("it opened")
        } catch {
            #expect(error.code == .corrupt, "\(error)")
        }
        #expect(try folder.bytes("kith.sqlite") == bytes)
        #expect(Store.holder(of: folder.path) == nil)
    }

    @Test func `the first tables of the database never change`() throws {
        let folder = try TemporaryFolder()
        let database = try DatabaseQueue(path: folder.path + "/kith.sqlite")
        try Migrations.migrator.migrate(database, upTo: "1")
        let shape = try database.read { database in
            try String.fetchAll(
                database,
                sql: """
                    SELECT m.name || '.' || p.name FROM sqlite_schema m, pragma_table_info(m.name) p
                    WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%' AND m.name <> 'attempts' ORDER BY m.name, p.cid
                    """)
        }
        #expect(
            shape == [
                "audit.number", "audit.time", "audit.device", "audit.method", "audit.decision", "audit.detail",
                "devices.id", "devices.name", "devices.addresses", "devices.relays", "devices.paired_at",
                "devices.last_seen", "grants.device", "grants.grant_text", "grdb_migrations.identifier",
                "invitations.id", "invitations.proof_key", "invitations.grants", "invitations.expires_at",
                "invitations.is_automatic", "invitations.used_at", "invitations.used_by", "settings.name",
                "settings.value",
            ])
    }
}
