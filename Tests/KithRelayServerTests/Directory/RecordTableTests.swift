import KithIdentity
import KithReach
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
