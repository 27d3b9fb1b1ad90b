import KithIdentity
import KithReach
import KithTesting
import KithWire
import Testing

@testable import KithRelayServer

@Suite("A front end's records") struct EtcdRecordsTests {
    private let now: Int64 = 1_800_000_000
    private let key = DeviceKey()

    private func record(_ time: UInt64, by key: DeviceKey? = nil) throws -> SignedRecord {
        try DeviceRecord().signed(by: key ?? self.key, at: time)
    }

    private func records(
        kept: Int = 8, waiting: Int = 4, _ change: (inout EtcdRecords) -> Void = { _ in }
    ) -> EtcdRecords {
        var limits = DirectoryLimits()
        (limits.records, limits.pendingWrites) = (kept, waiting)
        var records = EtcdRecords(limits)
        change(&records)
        return records
    }

    private func row(_ record: SignedRecord, _ revision: Int64) -> EtcdMessages.Row {
        EtcdMessages.Row(
            key: EtcdKey.record(record.device).bytes, value: record.device.bytes + record.body, revision: revision)
    }

    @Test func `a record is answered at once, and written where the row is the one that was judged`() throws {
        let (first, second) = (try record(1), try record(2))
        var records = records { records in
            records.put(.genuine(first), of: key.id, revision: 7, isListed: false, at: now)
            #expect(records.add(second, at: now) == true)
        }
        #expect(records.table.record(of: key.id, at: now) == second)
        let batch = records.nextBatch()
        #expect(batch == [EtcdWrites.Write(device: key.id, record: second, revision: 7)])
        #expect(records.nextBatch() == [], "one batch is on its way at a time")
        #expect(records.ended([(batch[0], .written(8), nil)], at: now) == [.written(second)])
        #expect(records.writes.count == 0)
        // The watch tells of it as well.
        records.put(.genuine(second), of: key.id, revision: 8, isListed: false, at: now)
        #expect(records.writes.count == 0)
        // Repeated, it is not written again.
        #expect(records.repeated(second, at: now) == true)
        #expect(records.writes.count == 0)
    }

    @Test func `of what waits the newest of each device is written, and no more waits than may`() throws {
        var records = records(waiting: 2)
        let other = DeviceKey()
        for key in [key, other] { #expect(try records.add(record(1, by: key), at: now) == true) }
        #expect(try records.add(record(1, by: DeviceKey()), at: now) == false)
        #expect(try records.add(record(2), at: now) == true)
        #expect(try records.nextBatch().map(\.record) == [record(2), record(1, by: other)])
        // Nobody knows what became of it: it goes back, but for what is newer by now.
        #expect(try records.add(record(3), at: now) == false, "what is on its way counts")
        records.failed()
        #expect(try records.add(record(3), at: now) == true)
        #expect(try records.nextBatch().map(\.record) == [record(3), record(1, by: other)])
    }

    @Test func `a row that changed meanwhile is judged again`() throws {
        let (older, ours, newer) = (try record(1), try record(2), try record(3))
        for (stored, resolution, isLeft) in [
            (older, nil, true), (ours, EtcdRecords.Resolution.written(ours), false),
            (newer, .older(than: newer), false),
        ] {
            var records = records()
            #expect(records.add(ours, at: now) == true)
            let batch = records.nextBatch()
            let result = records.ended([(batch[0], .changed(row(stored, 9)), .genuine(stored))], at: now)
            #expect(result == (resolution.map { [$0] } ?? []))
            #expect(records.nextBatch().map(\.revision) == (isLeft ? [9] : []))
            #expect(records.table.record(of: key.id, at: now) == (stored == newer ? newer : ours))
        }
        // A row that is gone, or was never signed, is written over.
        for (row, content) in [(nil, nil), (row(newer, 9), EtcdRecords.Content.forged)] {
            var records = records()
            #expect(records.add(ours, at: now) == true)
            let batch = records.nextBatch()
            #expect(records.ended([(batch[0], .changed(row), content)], at: now) == [])
            #expect(records.nextBatch().map(\.revision) == [row?.revision ?? 0])
        }
    }

    @Test func `a row that was rolled back or forged is put right by who knows better`() throws {
        let (older, newer) = (try record(1), try record(2))
        for content in [EtcdRecords.Content.genuine(older), .forged] {
            var records = records()
            records.put(.genuine(newer), of: key.id, revision: 5, isListed: false, at: now)
            records.put(content, of: key.id, revision: 6, isListed: false, at: now)
            #expect(records.table.record(of: key.id, at: now) == newer)
            #expect(records.nextBatch() == [EtcdWrites.Write(device: key.id, record: newer, revision: 6)])
        }
        // What a member that is behind tells is no news.
        var records = records()
        records.put(.genuine(newer), of: key.id, revision: 5, isListed: false, at: now)
        records.put(.genuine(older), of: key.id, revision: 4, isListed: true, at: now)
        #expect(records.nextBatch() == [])
    }

    @Test func `what a list lacks is gone, but not what is newer than the list or still to be written`() throws {
        let keys = (0..<3).map { _ in DeviceKey() }
        var records = records()
        for (index, key) in keys.enumerated() {
            let record = try record(1, by: key)
            records.put(.genuine(record), of: key.id, revision: Int64(4 + index), isListed: false, at: now)
        }
        #expect(try records.add(record(2, by: keys[1]), at: now) == true)
        records.listed([], revision: 5)
        #expect(records.table.record(of: keys[0].id, at: now) == nil)
        #expect(try records.table.record(of: keys[1].id, at: now) == record(2, by: keys[1]))
        #expect(try records.table.record(of: keys[2].id, at: now) == record(1, by: keys[2]))
        #expect(records.nextBatch().map(\.revision) == [0])
    }

    @Test func `a cluster that begins from nothing is given what is known`() throws {
        var records = records()
        let record = try record(1)
        records.put(.genuine(record), of: key.id, revision: 900, isListed: false, at: now)
        records.startOver()
        records.listed([], revision: 2)
        #expect(records.table.record(of: key.id, at: now) == record)
        #expect(records.nextBatch() == [EtcdWrites.Write(device: key.id, record: record, revision: 0)])
    }

    @Test func `a row that nobody repeats for seven days is deleted, unless it comes to life`() throws {
        let days: Int64 = 86_400
        var records = records()
        let record = try record(UInt64(now) * 1_000_000)
        records.put(.genuine(record), of: key.id, revision: 5, isListed: false, at: now)
        records.expire(at: now + 7 * days - 1)
        #expect(records.nextBatch() == [])
        records.expire(at: now + 7 * days)
        #expect(records.table.count == 0)
        let batch = records.nextBatch()
        #expect(batch == [EtcdWrites.Write(device: key.id, record: nil, revision: 5)])
        #expect(records.ended([(batch[0], .changed(row(record, 6)), .genuine(record))], at: now + 7 * days) == [])
        #expect(records.nextBatch() == [])
    }

    @Test func `a list tells how long a record was not repeated, but a device's clock may be wrong`() throws {
        let days: Int64 = 86_400
        for (signedAt, lasts) in [(now, 7 * days), (now - 3 * days, 4 * days), (5, days), (now + 900 * days, 7 * days)]
        {
            var records = records()
            let record = try record(UInt64(signedAt) * 1_000_000)
            records.put(.genuine(record), of: key.id, revision: 5, isListed: true, at: now)
            #expect(records.table.record(of: key.id, at: now + lasts - 1) != nil)
            #expect(records.table.record(of: key.id, at: now + lasts) == nil)
        }
    }

    @Test func `who is where is known while its relay lives, and of no more than may be`() throws {
        var records = records(kept: 2)
        let relay = EtcdRelay(url: try #require(RelayAddress("https://r.example")), load: 1, region: "fra")
        records.put(relay: "r1", of: key.id, revision: 3)
        #expect(records.relay(of: key.id) == nil)
        records.put(relay, of: "r1", revision: 4)
        #expect(records.relay(of: key.id)?.relay == relay)
        for revision in Int64(5)..<9 { records.put(relay: "r1", of: DeviceKey().id, revision: revision) }
        #expect(records.placeCount == 2)
        records.deleted(.relay("r1"), revision: 9)
        records.deleted(.at(key.id), revision: 9)
        #expect(records.relay(of: key.id) == nil && records.placeCount == 1)
        #expect(EtcdRelay(relay.bytes) == relay)
        for wrong in [
            "{}", #"{"url":"https://r.example","load":-1,"region":""}"#, #"{"url":"ftp://r","load":1,"region":""}"#,
            #"{"url":"https://r.example","load":1,"region":"\u0007"}"#, String(repeating: " ", count: 1_025),
        ] { #expect(EtcdRelay(Array(wrong.utf8)) == nil) }
    }
}
