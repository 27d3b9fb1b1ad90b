import KithTesting
@testable import KithStore
import GRDB
import KithIdentity
import KithWire
import Testing

@Suite struct DevicesTests {
    @Test func `no two devices have one name`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        #expect(try store.add(device(1)).name == "laptop")
        #expect(try store.add(device(2, name: "Laptop")).name == "Laptop-2")
        #expect(try store.add(device(3)).name == "laptop-3")
        // The same key again replaces what was known of it, but for what it may do.
        let held = try store.device(device(1).id)?.grants
        #expect(try store.add(device(1, grants: [.forward])).name == "laptop")
        #expect(try store.devices().map(\.name) == ["laptop", "Laptop-2", "laptop-3"])
        #expect(try Set(store.device(device(1).id)?.grants ?? []) == Set(held ?? []).union([.forward]))
        #expect(throws: KithError(.conflict, "")) { try store.rename(device(2).id, to: "LAPTOP") }
        #expect(throws: KithError(.notFound, "")) { try store.rename(device(9).id, to: "other") }
        try store.rename(device(2).id, to: "LAPTOP-2")
        try store.rename(device(2).id, to: "desk")
        #expect(try store.device(device(2).id)?.name == "desk")
    }

    @Test(arguments: [
        ("laptop", "laptop"), ("Ana's Büro", "Ana-s-Büro"), ("", "device"), ("--help", "help"), ("..", "device"),
        ("a/b:c\n\u{1B}[2J", "a-b-c---2J"), ("水", "水"),
    ])
    func `a name needs no quoting`(name: String, plain: String) {
        #expect(PairedDevice.plainName(name) == plain)
        #expect(PairedDevice.plainName(plain) == plain)
        #expect(PairedDevice.plainName(String(repeating: "é", count: 99)).utf8.count <= 63)
    }

    @Test func `a forgotten device is gone with its grants`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        let id = try store.add(device(1, grants: [.shell, .forward])).id
        #expect(try store.forget(id))
        #expect(try !store.forget(id))
        #expect(try store.device(id) == nil)
        #expect(try store.add(device(1, grants: [])).grants == [])
        #expect(try store.device(id)?.grants == [])
    }

    @Test func `grants are replaced as a whole`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        let id = try store.add(device(1, grants: [])).id
        let grants: [Grant] = [.shell, .files(.read, root: "/srv/a b=c"), .shell]
        try store.setGrants(grants, of: id)
        #expect(Set(try store.device(id)?.grants ?? []) == Set(grants))
        #expect(try store.device(id)?.grants.count == 2)
        try store.setGrants([], of: id)
        #expect(try store.device(id)?.grants == [])
        #expect(throws: KithError(.notFound, "")) { try store.setGrants([.shell], of: device(2).id) }
    }

    @Test func `a grant nobody knows is an error, not nothing`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        let id = try store.add(device(1)).id
        try store.transaction("test") { try $0.execute(sql: "UPDATE grants SET grant_text = 'fly:high'") }
        #expect(throws: KithError(.corrupt, "")) { _ = try store.device(id) }
    }

    @Test func `the last address comes first, and sixteen are kept`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        let id = try store.add(device(1)).id
        for port in 1...20 {
            try store.sawDevice(id, at: NetworkAddress("[2001:db8::1]:\(port)"), time: Int64(port))
        }
        try store.sawDevice(id, at: NetworkAddress("[2001:db8::1]:10"), time: 30)
        try store.sawDevice(id, at: nil, time: 31)
        let found = try store.device(id)
        let device = try #require(found)
        #expect(device.lastSeen == 31)
        #expect(device.addresses.map(\.port) == [10, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 9, 8, 7, 6, 5])
        try store.setAddresses([], of: id)
        #expect(try store.device(id)?.addresses == [])
        // A device that was forgotten meanwhile is not there again because it was seen.
        try store.sawDevice(KithStoreTests.device(7).id, at: nil, time: 1)
        #expect(try store.devices().count == 1)
    }

    @Test func `the audit log keeps the newest, newest first`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        func entry(_ number: Int) -> AuditEntry {
            AuditEntry(
                time: Int64(number), device: "laptop", method: "files.list",
                decision: number % 2 == 0 ? .allowed : .denied,
                detail: String(repeating: "x", count: number == 1 ? 5_000 : 3))
        }
        try store.record(entry(1))
        #expect(try store.audit(limit: 5).first?.detail.count == 500)
        try store.transaction("test") { database in
            for number in 2...Store.auditLimit {
                try database.execute(
                    sql:
                        "INSERT INTO audit (time, device, method, decision, detail) VALUES (?, 'd', 'm', 'denied', '')",
                    arguments: [number])
            }
        }
        for number in 1...3 { try store.record(entry(Store.auditLimit + number)) }
        #expect(try store.audit(limit: 1 << 20).count == Store.auditLimit)
        #expect(try store.audit(limit: 2).map(\.time) == [10_003, 10_002])
        #expect(try store.audit(limit: 2).map(\.decision) == [.denied, .allowed])
        #expect(try store.audit(limit: 1 << 20).last?.time == 4)
        #expect(try store.audit(limit: -1).isEmpty)
    }
}
