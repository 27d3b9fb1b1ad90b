import KithIdentity
import KithReach

/// The records of a directory, in memory: the newest of each device, until it is not repeated for too long.
struct RecordTable {
    /// The outcome of an attempt to put a record in.
    enum Verdict: Hashable {
        /// It is new, or replaces an older one.
        case isNewer
        /// It is the one that is there.
        case isSame
        /// There is a newer one.
        case isOlder
        /// There is no room for one more device.
        case isFull
    }

    /// One record, and when it was last heard of, in seconds since 1970.
    struct Entry {
        var record: SignedRecord
        var seen: Int64
        /// When it was last heard of, as the database has it.
        var written: Int64
    }

    private let limits: DirectoryLimits
    private var entries: [DeviceID: Entry] = [:]

    /// The number of records.
    var count: Int { entries.count }

    init(_ limits: DirectoryLimits) { self.limits = limits }

    /// The record of a device; `nil` when there is none that holds.
    func record(of device: DeviceID, at now: Int64) -> SignedRecord? {
        guard let entry = entries[device], !isOver(entry, at: now) else { return nil }
        return entry.record
    }

    /// Judges a record; changes nothing.
    func judge(_ record: SignedRecord, at now: Int64) -> Verdict {
        guard let entry = entries[record.device], !isOver(entry, at: now) else {
            return entries[record.device] == nil && count >= limits.records ? .isFull : .isNewer
        }
        if record.replaces(entry.record) { return .isNewer }
        return record.time == entry.record.time && record.message == entry.record.message ? .isSame : .isOlder
    }

    /// Puts a record in that was judged newer, and is in the database.
    mutating func put(_ record: SignedRecord, seen: Int64) {
        entries[record.device] = Entry(record: record, seen: seen, written: seen)
    }

    /// Notes that a record was repeated; true when the database should be told, which is once in an hour.
    mutating func repeated(_ device: DeviceID, at now: Int64) -> Bool {
        guard var entry = entries[device] else { return false }
        entry.seen = max(entry.seen, now)
        let isDue = entry.seen - entry.written >= 3_600
        if isDue { entry.written = entry.seen }
        entries[device] = entry
        return isDue
    }

    /// All records, also those that no longer hold.
    var records: some Sequence<SignedRecord> { entries.values.lazy.map(\.record) }

    /// Takes a device's record out.
    mutating func remove(_ device: DeviceID) { entries[device] = nil }

    /// Takes out the records that no longer hold, and returns whose they were.
    mutating func expire(at now: Int64) -> [DeviceID] {
        let over = entries.filter { isOver($0.value, at: now) }.map(\.key)
        for device in over { entries[device] = nil }
        return over
    }

    private func isOver(_ entry: Entry, at now: Int64) -> Bool { now - entry.seen >= limits.keptSeconds }
}
