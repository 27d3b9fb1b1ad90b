import Foundation
import GRDB
import KithIdentity
import KithTesting
import KithWire
import Testing

@testable import KithStore

/// The names that devices get here.
@Suite struct NameTests {
    @Test func `a device that looks like another when it pairs gets a number`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        try store.setSetting("name", "desk")
        #expect(try store.add(device(1, name: "laptop")).name == "laptop")
        for (number, claimed) in ["1aptop", "L\u{430}ptop", "lapt\u{200B}op", "laptop"].enumerated() {
            let free = try store.freeName(like: claimed, for: device(UInt8(10 + number)).id)
            let got = try store.add(device(UInt8(10 + number), name: claimed)).name
            #expect(got == free)
            #expect(got.hasSuffix("-\(number + 2)"), "\(got)")
        }
        #expect(try store.add(device(20, name: "DESK")).name == "DESK-2")
        #expect(try store.add(device(21, name: "this")).name == "this-2")
        #expect(try store.add(device(22, name: "laptop.")).name == "laptop.-2")
        // A number tells them apart, and hides nothing.
        let marked = try store.lookalikes()
        #expect(try marked[device(10).id]?.contains(.looksLike(name: "laptop", id: device(1).id)) == true)
        #expect(try marked[device(22).id]?.contains(.looksLike(name: "laptop", id: device(1).id)) == true)
        #expect(try marked[device(20).id] == [.looksLike(name: "desk", id: nil)])
        #expect(try marked[device(1).id] == nil)
        #expect(try marked[device(21).id] == nil)
    }

    @Test func `a device is not called like this device's own id`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        let own = try device(100).id
        try store.setSetting("id", own.description)
        #expect(try store.add(device(1, name: own.short)).name == "device")
        _ = try store.add(device(2, name: "tv"))
        #expect(throws: KithError(.conflict, "")) { try store.rename(device(2).id, to: own.short) }
        #expect(try store.devices().map(\.name) == ["device", "tv"])
    }

    @Test func `a device that is called like another's id gets a name of ours`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        let laptop = try store.add(device(1))
        #expect(try store.add(device(2, name: laptop.id.short)).name == "device")
        #expect(try store.add(device(3, name: laptop.id.short + "-x")).name == "device-2")
        #expect(throws: KithError(.conflict, "")) { try store.rename(device(2).id, to: laptop.id.short) }
        #expect(throws: KithError(.conflict, "")) { try store.rename(device(2).id, to: "Iaptop") }
        #expect(throws: KithError(.invalid, "")) { try store.rename(device(2).id, to: "this") }
        // What the owner has called it stays, whatever it calls itself when it pairs again.
        try store.rename(device(2).id, to: "tv")
        #expect(try store.add(device(2, name: "laptop")).name == "tv")
    }

    @Test func `a device whose id begins as another is called does not pair`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        // Somebody has tried keys for long.
        let id = try device(9).id
        _ = try store.add(device(1))
        try store.transaction("test") { database in
            try database.execute(sql: "UPDATE devices SET name = ?", arguments: [String(id.description.prefix(14))])
        }
        #expect(throws: KithError(.conflict, "")) { try store.add(device(9, name: "tv")) }
        #expect(try store.devices().count == 1)
    }

    @Test func `names that differ only between their letters stand side by side, and are marked`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        try store.setSetting("name", "my_desk")
        let names = ["laptop", "lap-top", "1ap.t0p", "tv", "mydesk", "lap_top-2"]
        for (index, name) in names.enumerated() {
            #expect(try store.add(device(UInt8(1 + index), name: name)).name == name)
        }
        let marked = try store.lookalikes().mapValues { conflicts in
            conflicts.map { if case .looksLike(let name, _) = $0 { name } else { "?" } }.sorted()
        }
        #expect(try marked[device(1).id] == ["1ap.t0p", "lap-top"])
        #expect(try marked[device(2).id] == ["1ap.t0p", "laptop"])
        #expect(try marked[device(3).id] == ["lap-top", "laptop"])
        #expect(try marked[device(4).id] == nil)
        #expect(try marked[device(5).id] == ["my_desk"])
        #expect(try marked[device(6).id] == ["1ap.t0p", "lap-top", "laptop"])
    }

    @Test func `names of an earlier version are kept, and marked`() throws {
        let folder = try TemporaryFolder()
        let (one, two) = (try device(1), try device(2))
        do {
            let store = try folder.open()
            defer { store.close() }
            _ = try store.add(one)
            _ = try store.add(device(2, name: "tv"))
            try store.transaction("test") { database in
                try database.execute(
                    sql: "UPDATE devices SET name = '1aptop' WHERE id = ?", arguments: [Data(two.id.bytes)])
            }
        }
        let store = try folder.open()
        defer { store.close() }
        #expect(try store.devices().map(\.name) == ["1aptop", "laptop"])
        #expect(
            try store.lookalikes() == [
                one.id: [.looksLike(name: "1aptop", id: two.id)], two.id: [.looksLike(name: "laptop", id: one.id)],
            ])
    }
}
