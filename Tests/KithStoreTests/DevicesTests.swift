import Foundation
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
        #expect(DeviceName.plain(name) == plain)
        #expect(DeviceName.plain(plain) == plain)
        #expect(DeviceName.plain(String(repeating: "é", count: 99)).utf8.count <= 63)
    }

    @Test func `a grant with an end is there until then, and is taken away with it`() throws {
        let folder = try TemporaryFolder()
        var store = try folder.open()
        let id = try store.add(device(1, grants: [.forward])).id
        func change(_ grants: [Grant], limited: [Grant] = [], until end: Int64? = nil) throws {
            _ = try store.changeGrants(of: id, limited: limited, until: end) { _ in grants }
        }
        try change([.forward, .shell, .library], limited: [.shell, .library], until: 100)
        store.close()
        store = try folder.open()
        defer { store.close() }
        var known = try #require(try store.device(id))
        #expect(known.grantEnds == [.shell: 100, .library: 100] && known.grants.count == 3)
        #expect(known.grants(at: 99) == known.grants && known.grants(at: 100) == [.forward])
        #expect(try store.nextGrantEnd() == 100 && store.endGrants(now: 99).isEmpty)
        // Given again it lasts; what another device has is its own.
        try change(known.grants, limited: [.library])
        let other = try store.add(device(2, grants: [.library])).id
        let ended = try store.endGrants(now: 100)
        #expect(ended.map(\.device.id) == [id] && ended.map(\.lost) == [[.shell]])
        known = try #require(try store.device(id))
        #expect(known.grants == [.forward, .library] && known.grantEnds.isEmpty)
        #expect(try store.nextGrantEnd() == nil && store.device(other)?.grants == [.library])
        // One that is taken away takes its end with it.
        try change([.forward, .shell], limited: [.shell], until: 200)
        try change([.forward])
        try change([.forward, .shell])
        #expect(try store.device(id)?.grantEnds == [:])
        try change([.forward, .shell], limited: [.shell], until: 200)
        #expect(try store.forget(id) && store.nextGrantEnd() == nil)
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

    private func address(_ host: Int, port: Int = 9) throws -> NetworkAddress {
        try #require(NetworkAddress("[2001:db8::\(host)]:\(port)"))
    }

    @Test func `the last address comes first, and sixteen are kept, each with when it was last good`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        let id = try store.add(device(1)).id
        for host in 1...20 { try store.sawDevice(id, at: [address(host)], time: Int64(host)) }
        try store.sawDevice(id, at: [address(10)], time: 30)
        try store.sawDevice(id, at: [], time: 31)
        let found = try store.device(id)
        let device = try #require(found)
        #expect(device.lastSeen == 31)
        let hosts = [10, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 9, 8, 7, 6, 5]
        #expect(try device.addresses == hosts.map { try address($0) })
        #expect(try store.addressBook(of: id).entries.map(\.lastGood) == [30] + hosts.dropFirst().map { Int64($0) })
        // A device that was forgotten meanwhile is not there again because it was seen, or said something.
        let other = try KithStoreTests.device(7).id
        try store.sawDevice(other, at: [address(1)], time: 1)
        try store.deviceAnnounced(other, [address(1)], time: 1)
        try store.setStanding(Standing(grants: [], time: 1), at: other)
        #expect(try store.devices().count == 1)
        #expect(try store.addressBook(of: other).entries.isEmpty)
        #expect(try store.standing(at: other) == nil)
    }

    @Test func `what a device says of where it listens comes first, and takes the place of what it said before`() throws
    {
        var book = AddressBook(announced: try [address(1), address(2), address(1)], at: 1)
        #expect(try book.addresses == [address(1), address(2)])
        book.reached(try [address(2)], at: 2)
        book.announced(try [address(3), address(4)], at: 3)
        // The first was never proven, and is claimed no more; the second was.
        #expect(try book.addresses == [address(3), address(4), address(2)])
        #expect(book.entries.map(\.lastGood) == [nil, nil, 2])
        // Where the connection goes now comes before what was said, and another port of that host has had its time.
        book.reached(try [address(5, port: 1), address(3)], at: 4)
        book.reached(try [address(5, port: 2)], at: 5)
        #expect(try book.addresses == [address(5, port: 2), address(3), address(4), address(2)])
        // However much it says, what was proven last stays.
        for time in 6...9 as ClosedRange<Int64> {
            book.announced(try (0..<40).map { try address(100 * Int(time) + $0) }, at: time)
        }
        #expect(book.addresses.count <= AddressBook.limit)
        #expect(try book.addresses.contains(address(5, port: 2)))
    }

    @Test func `what this device may do elsewhere is kept until it is paired anew`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        let id = try store.add(device(1)).id
        #expect(try store.standing(at: id) == nil)
        let standing = Standing(grants: [.shell, .files(.read, root: "/srv/a b\nc")], time: 5)
        try store.setStanding(standing, at: id)
        #expect(try store.standing(at: id) == standing)
        let forgotten = Standing(isForgotten: true, grants: [], time: 6)
        try store.setStanding(forgotten, at: id)
        #expect(try store.standing(at: id) == forgotten)
        _ = try store.add(device(1))
        #expect(try store.standing(at: id) == nil)
    }

    @Test func `a database of the first shape keeps its addresses`() throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/kith.sqlite"
        let old = try DatabaseQueue(path: path)
        try Migrations.migrator.migrate(old, upTo: "1")
        let key = try KithStoreTests.device(1).id.bytes
        try old.write {
            try $0.execute(
                sql: "INSERT INTO devices VALUES (?, 'laptop', ?, '', 5, 7)",
                arguments: [Data(key), "[2001:db8::1]:9\n[2001:db8::2]:9"])
        }
        try old.close()
        let store = try folder.open()
        defer { store.close() }
        #expect(try store.device(device(1).id)?.addresses == [address(1), address(2)])
        let entries = try store.addressBook(of: device(1).id).entries
        #expect(entries.map(\.lastGood) == [7, nil] && entries.map(\.announcedAt) == [5, 5])
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
