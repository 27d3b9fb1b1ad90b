import GRDB
import KithIdentity
import KithTesting
import KithWire
import Testing

@testable import KithStore

/// The lines that unpaired devices cost the log, and the known devices that need no disk.
@Suite struct AttemptTests {
    private func attempt(_ device: DeviceID, _ detail: String = "not paired") -> UnpairedAttempt {
        UnpairedAttempt(
            device: device, address: NetworkAddress("192.0.2.9:4433"), method: "connect", detail: detail)
    }

    @Test func `the attempts of a key are one line in an hour`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        let key = DeviceKey().id
        for second in 0..<300 { store.countAttempt(attempt(key), now: Int64(second)) }
        #expect(
            try store.audit(limit: 10) == [
                AuditEntry(
                    time: 299, device: key.description, method: "connect", decision: .denied,
                    detail: "not paired; from 192.0.2.9; 300 times within the hour")
            ])
        // The line is written again, not another one.
        store.countAttempt(attempt(key), now: 400)
        #expect(try store.audit(limit: 10).map(\.time) == [400])
        store.countAttempt(attempt(key), now: 3_600)
        #expect(try store.audit(limit: 10).map(\.time) == [3_600, 400])
    }

    @Test func `a line is short whatever its letters are`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        // One letter, to Swift.
        let letter = "a" + String(repeating: "\u{301}", count: 50_000)
        #expect(letter.count == 1)
        try store.record(
            calls: [AuditEntry.Decision.allowed, .denied].map { decision in
                AuditEntry(time: 1, device: "phone", method: "files.read", decision: decision, detail: letter)
            })
        #expect(try store.audit(limit: 10).map(\.detail.utf8.count).sorted() == [399, 499])
    }

    @Test func `however many keys try, an hour has seventeen lines`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        for _ in 0..<500 { store.countAttempt(attempt(DeviceKey().id), now: 10) }
        let lines = try store.audit(limit: 1_000)
        #expect(lines.count == UnpairedAttempts.keysPerHour + 1)
        #expect(
            lines.first { $0.device == UnpairedAttempts.others }?.detail
                == "not paired; from 192.0.2.9, the last of them; 484 times within the hour")
        // What was counted and not read is there after a stop.
        store.countAttempt(attempt(DeviceKey().id), now: 7_200)
        store.close()
        let again = try folder.open()
        defer { again.close() }
        #expect(try again.audit(limit: 1_000).count == UnpairedAttempts.keysPerHour + 2)
    }

    @Test func `unpaired devices push nothing out of the log, and their own lines are few`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        try store.record(
            AuditEntry(time: 1, device: "laptop", method: "shell.open", decision: .allowed, detail: "shell"))
        for hour in 0..<Int64(70) {
            for _ in 0..<20 { store.countAttempt(attempt(DeviceKey().id), now: 3_600 * hour) }
            store.writeAttempts()
        }
        let lines = try store.audit(limit: Store.auditLimit)
        #expect(lines.count == Store.attemptLimit + 1)
        #expect(lines.last?.device == "laptop")
    }

    @Test func `one device cannot push the lines of others out of the log`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        func record(_ device: String, _ time: Int64) throws {
            try store.record(
                AuditEntry(time: time, device: device, method: "files.read", decision: .denied, detail: ""))
        }
        for number in 0..<100 { try record("phone", Int64(number)) }
        try store.transaction("test") { database in
            for number in 0..<Store.auditLimit {
                try database.execute(
                    sql:
                        "INSERT INTO audit (time, device, method, decision, detail) VALUES (?, 'tv', 'm', 'denied', '')",
                    arguments: [1_000 + number])
            }
        }
        for number in 0..<64 { try record("tv", Int64(20_000 + number)) }
        let lines = try store.audit(limit: Store.auditLimit)
        #expect(lines.count { $0.device == "phone" } == 100)
        #expect(lines.first?.time == 20_063)
    }

    private func refusal(_ device: String, _ method: String, _ detail: String, at time: Int64) -> AuditEntry {
        AuditEntry(time: time, device: device, method: method, decision: .denied, detail: detail)
    }

    @Test func `the same refusal of a paired device is one line in an hour, the newest`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        let shell = AuditEntry(time: 1, device: "phone", method: "shell.open", decision: .allowed, detail: "shell")
        for second in 0..<300 {
            try store.record(calls: [refusal("phone", "offer.send", "paired: too many", at: Int64(second))])
            if second == 1 { try store.record(calls: [shell]) }
        }
        let counted = refusal("phone", "offer.send", "paired: too many; 300 times within the hour", at: 299)
        #expect(try store.audit(limit: 10) == [counted, shell])
        try store.record(calls: [refusal("phone", "offer.send", "paired: too many", at: 3_600)])
        // What was counted and not read is there after a stop.
        try store.record(calls: [refusal("phone", "offer.send", "paired: too many", at: 3_601)])
        store.close()
        let again = try folder.open()
        defer { again.close() }
        let next = refusal("phone", "offer.send", "paired: too many; 2 times within the hour", at: 3_601)
        #expect(try again.audit(limit: 10) == [next, counted, shell])
    }

    @Test func `the first of a refusal is on the disk at once, the others are counted in memory`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        let denied = refusal("phone", "files.read", "files:read=/etc", at: 5)
        try store.record(calls: [denied])
        func lines() throws -> Int {
            try store.transaction("test") { try Int.fetchOne($0, sql: "SELECT count(*) FROM audit") ?? 0 }
        }
        #expect(try lines() == 1)
        let before = try store.transaction("test") { $0.totalChangesCount }
        for _ in 0..<1_000 { try store.record(calls: [denied]) }
        #expect(try store.transaction("test") { $0.totalChangesCount } <= before + 2)
        #expect(try lines() == 1)
    }

    @Test func `however different its refusals are, a device has few lines of them in an hour`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        for number in 0..<2_000 {
            try store.record(calls: [refusal("phone", number % 2 == 0 ? "a" : "b", "file \(number)", at: 10)])
        }
        try store.record(calls: [refusal("tv", "a", "file", at: 11)])
        let lines = try store.audit(limit: Store.auditLimit)
        // One for each of the first, and one for each method.
        #expect(lines.count == PairedRefusals.ownPerHour + 2 + 1)
        #expect(
            Set(lines.map(\.detail)).isSuperset(of: [
                "file 1998, the last of several; 992 times within the hour",
                "file 1999, the last of several; 992 times within the hour", "file 0", "file",
            ]))
    }

    @Test func `calls are written in their order, whatever came of them`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        let calls = (0..<20).map { number in
            AuditEntry(
                time: 7, device: "phone", method: "m", decision: number % 3 == 0 ? .denied : .allowed,
                detail: "\(number)")
        }
        try store.record(calls: calls)
        #expect(try store.audit(limit: 100) == calls.reversed())
    }

    @Test func `nobody gives up more than the room takes`() {
        #expect(FairShare.cut([], to: 10) == [])
        #expect(FairShare.cut([3, 4], to: 10) == [0, 0])
        #expect(FairShare.cut([100, 4], to: 10) == [94, 0])
        #expect(FairShare.cut([100, 4, 50], to: 10) == [97, 0, 47])
        #expect(FairShare.cut([5, 5, 5], to: 14) == [0, 0, 1])
        #expect(FairShare.cut([5, 5], to: 0) == [5, 5])
    }

    @Test func `who is known is known at once`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        let (phone, laptop) = (try device(1), try device(2))
        #expect(store.reception(of: phone.id, now: 0) == .unknown)
        let record = InvitationRecord(try invitation(), grants: [], isAutomatic: false)
        try store.add(record, now: 1_000)
        #expect(store.reception(of: phone.id, now: 1_999) == .invited)
        #expect(store.reception(of: phone.id, now: 2_000) == .unknown)
        let (number, _) = try store.beginAttempt(by: record.id, from: phone.id, at: "", now: 1_500)
        _ = try store.pair(phone, invitation: record.id, attempt: number, now: 1_500)
        #expect(store.reception(of: phone.id, now: 1_600) == .paired)
        #expect(store.reception(of: laptop.id, now: 1_600) == .unknown)
        store.close()
        let again = try folder.open()
        defer { again.close() }
        #expect(again.reception(of: phone.id, now: 0) == .paired)
        #expect(try again.forget(phone.id))
        #expect(again.reception(of: phone.id, now: 0) == .unknown)
        // A change that fails changes nothing here either.
        #expect(throws: KithError.self) {
            try again.transaction("fail") { database in
                _ = try Store.insert(laptop, database)
                throw KithError(.internal, "as asked")
            }
        }
        #expect(again.reception(of: laptop.id, now: 0) == .unknown)
    }
}
