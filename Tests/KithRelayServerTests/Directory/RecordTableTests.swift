import Foundation
import GRDB
import KithIdentity
import KithReach
import KithTesting
import KithWire
import Testing

@testable import KithRelayServer

@Suite("Records and limits of directories") struct RecordTableTests {
    private let key = DeviceKey()

    private func record(_ time: UInt64, by other: DeviceKey? = nil) throws -> SignedRecord {
        try DeviceRecord(userData: "hello").signed(by: other ?? key, at: time)
    }

    @Test func `the newest record of a device is kept`() throws {
        var table = RecordTable(DirectoryLimits())
        let first = try record(5)
        #expect(table.judge(first, at: 0) == .isNewer)
        table.put(first, seen: 0)
        #expect(table.judge(first, at: 0) == .isSame)
        #expect(table.judge(try record(4), at: 0) == .isOlder)
        #expect(table.judge(try record(6), at: 0) == .isNewer)
        #expect(table.judge(try record(.max), at: 0) == .isNewer)
    }

    @Test func `the database hears of a repeated record once in an hour`() throws {
        var table = RecordTable(DirectoryLimits())
        func repeated(_ device: DeviceID, at now: Int64) -> Bool { table.repeated(device, at: now) }
        table.put(try record(5), seen: 0)
        #expect(!repeated(key.id, at: 3_599))
        #expect(repeated(key.id, at: 3_600))
        #expect(!repeated(key.id, at: 3_601))
        #expect(!repeated(DeviceKey().id, at: 9_999))
    }

    @Test func `a record holds for its time after it was last seen, also when the clock is set back`() throws {
        var limits = DirectoryLimits()
        limits.keptSeconds = 100
        var table = RecordTable(limits)
        table.put(try record(5), seen: 1_000)
        #expect(table.record(of: key.id, at: 1_099) != nil)
        #expect(table.record(of: key.id, at: 1_100) == nil)
        #expect(table.record(of: key.id, at: -5_000) != nil)
        let before = table.expire(at: 1_099)
        #expect(before == [])
        let after = table.expire(at: 1_100)
        #expect(after == [key.id])
        #expect(table.count == 0)
    }

    private func network(_ address: String) throws -> RecordNetwork {
        RecordNetwork(of: try #require(NetworkAddress(address)))
    }

    @Test func `a network is a household's`() throws {
        #expect(try network("192.0.2.1:1") == network("192.0.2.255:9"))
        #expect(try network("192.0.2.1:1") != network("192.0.3.1:1"))
        #expect(try network("[2001:db8:1:200::1]:1") == network("[2001:db8:1:2ff:1::]:1"))
        #expect(try network("[2001:db8:1:200::1]:1") != network("[2001:db8:1:300::1]:1"))
        #expect(try network("0.0.0.1:1") != .unknown && network("[::1]:1") != .unknown)
        #expect(try network("0.0.0.1:1") != network("[::1]:1"))
    }

    @Test func `a network that fills a directory takes no other's room`() throws {
        var limits = DirectoryLimits()
        (limits.records, limits.recordsPerNetwork) = (8, 6)
        var table = RecordTable(limits)
        let (attacker, home) = (try network("192.0.2.1:1"), try network("198.51.100.1:1"))
        /// Puts a record in as a store does; returns those that give way, `nil` when there is no room.
        func put(_ record: SignedRecord, _ network: RecordNetwork, at now: Int64) -> [DeviceID]? {
            var evicted: [DeviceID] = []
            guard table.makeRoom(forOneOf: network, pending: 0, ofAll: 0, &evicted) else { return nil }
            table.put(record, from: network, seen: now)
            return evicted
        }
        let old = try (0..<2).map { _ in try record(1, by: DeviceKey()) }
        for record in old { #expect(put(record, .unknown, at: 0) == []) }
        let flood = try (0..<6).map { _ in try record(1, by: DeviceKey()) }
        for (index, record) in flood.enumerated() { #expect(put(record, attacker, at: 10 + Int64(index)) == []) }
        #expect(table.count == 8)
        // It has as many as it may: one more costs one of its own.
        let more = try record(1, by: DeviceKey())
        #expect(put(more, attacker, at: 20) == [flood[0].device])
        // All are taken: an honest device's costs the attacker one, the one nearest its end.
        #expect(put(try record(1), home, at: 21) == [flood[1].device])
        #expect(table.record(of: key.id, at: 21) != nil)
        _ = table.repeated(flood[2].device, at: 22)
        #expect(put(try record(1, by: DeviceKey()), home, at: 23) == [flood[3].device])
        // However many more it sends, it is its own that go; those of nobody knows where stay.
        for time in 30..<40 {
            let evicted = put(try record(1, by: DeviceKey()), attacker, at: Int64(time)) ?? []
            #expect(evicted.count == 1 && evicted.allSatisfy { device in !old.contains { $0.device == device } })
            #expect(evicted != [key.id])
        }
        for record in old { #expect(table.record(of: record.device, at: 40) != nil) }
        #expect(table.count == 8)
    }

    @Test func `records whose network nobody knows give way when there are no others`() throws {
        var limits = DirectoryLimits()
        limits.records = 1
        var table = RecordTable(limits)
        var evicted: [DeviceID] = []
        table.put(try record(1), seen: 0)
        let home = try network("192.0.2.1:1")
        let hasRoom = table.makeRoom(forOneOf: home, pending: 0, ofAll: 0, &evicted)
        #expect(hasRoom && evicted == [key.id])
        // What is to be put in already has the room.
        let hasMore = table.makeRoom(forOneOf: home, pending: 1, ofAll: 1, &evicted)
        #expect(!hasMore)
    }

    @Test func `a database of before is opened, and a record's network is kept`() throws {
        let folder = try TemporaryFolder()
        let first = try record(1)
        do {
            let queue = try DatabaseQueue(path: folder.path + "/records.sqlite")
            var migrator = DatabaseMigrator()
            migrator.registerMigration("records") { database in
                try database.execute(
                    sql: """
                        CREATE TABLE record (
                            key BLOB PRIMARY KEY, packet BLOB NOT NULL, time INTEGER NOT NULL, seen INTEGER NOT NULL
                        ) STRICT, WITHOUT ROWID;
                        """)
                try database.execute(
                    sql: "INSERT INTO record VALUES (?, ?, 1, 7)",
                    arguments: [Data(first.device.bytes), Data(first.body)])
            }
            try migrator.migrate(queue)
            try queue.close()
        }
        let (second, home) = (try record(1, by: DeviceKey()), try network("[2001:db8::1]:1"))
        let database = try RecordDatabase(folder: folder.path)
        try database.apply([.put(second, from: home, seen: 8)])
        let networks = Dictionary(
            uniqueKeysWithValues: try database.records(since: 0).map { ($0.record.device, $0.network) })
        #expect(networks == [key.id: .unknown, second.device: home])
        try database.close()
    }

    @Test func `a bucket empties, refills at its rate, and never beyond its size`() {
        var buckets = TokenBuckets<Int>(DirectoryLimits.Rate(perSecond: 2, burst: 3))
        func take(_ key: Int, at now: ContinuousClock.Instant) -> Bool { buckets.take(key, at: now) }
        let start = ContinuousClock.now
        for _ in 0..<3 { #expect(take(1, at: start)) }
        #expect(!take(1, at: start))
        #expect(take(2, at: start))
        #expect(!take(1, at: start + .milliseconds(499)))
        #expect(take(1, at: start + .milliseconds(501)))
        for _ in 0..<3 { #expect(take(1, at: start + .seconds(1_000))) }
        #expect(!take(1, at: start + .seconds(1_000)))
        // Time that goes back gives nothing.
        #expect(!take(1, at: start))
    }

    @Test func `no more buckets are remembered than there may be, and those in use before the full ones`() {
        var buckets = TokenBuckets<Int>(DirectoryLimits.Rate(perSecond: 1, burst: 2), limit: 8)
        func take(_ key: Int, at now: ContinuousClock.Instant) -> Bool { buckets.take(key, at: now) }
        let start = ContinuousClock.now
        for key in 0..<7 { #expect(take(key, at: start)) }
        let later = start + .seconds(60)
        for _ in 0..<2 { #expect(take(100, at: later)) }
        #expect(buckets.count == 8)
        #expect(take(101, at: later))
        #expect(buckets.count == 2)
        #expect(!take(100, at: later))
        for key in 200..<1_000 { _ = take(key, at: later) }
        #expect(buckets.count <= 8)
    }
}
