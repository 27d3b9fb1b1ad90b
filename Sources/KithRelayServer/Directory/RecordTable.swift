import KithIdentity
import KithReach

/// The records of a directory, in memory: the newest of each device, until it is not repeated for too long.
///
/// Each counts for the network it came from, so that one network's cannot take the room of all others'.
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
        var network: RecordNetwork
        var seen: Int64
        /// When it was last heard of, as the database has it.
        var written: Int64
    }

    private let limits: DirectoryLimits
    private var entries: [DeviceID: Entry] = [:]
    private var networks: [RecordNetwork: Set<DeviceID>] = [:]
    /// The networks that are known, by the number of their records; none is empty.
    private var networksByCount: [Int: Set<RecordNetwork>] = [:]
    /// The most records of a network that is known.
    private var highestCount = 0

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
    mutating func put(_ record: SignedRecord, from network: RecordNetwork = .unknown, seen: Int64) {
        remove(record.device)
        entries[record.device] = Entry(record: record, network: network, seen: seen, written: seen)
        networks[network, default: []].insert(record.device)
        countChanged(of: network, from: count(of: network) - 1)
    }

    /// The number of records of a network.
    func count(of network: RecordNetwork) -> Int { networks[network]?.count ?? 0 }

    /// Takes out what gives way to one more of a network, and adds it to `evicted`; false when there is no room.
    ///
    /// `pending` of the network, and `allPending` in all, are not in yet. A network that has as many as it may gives up its
    /// own. When there is no room for anybody it is the network with the most, and those whose network is not known come
    /// last. Of a network the one goes that was not repeated for the longest time. O(records of a network).
    mutating func makeRoom(
        forOneOf network: RecordNetwork, pending: Int, ofAll allPending: Int, _ evicted: inout [DeviceID]
    ) -> Bool {
        while network != .unknown, count(of: network) + pending >= limits.recordsPerNetwork {
            guard let device = oldest(of: network) else { return false }
            remove(device)
            evicted.append(device)
        }
        while count + allPending >= limits.records {
            let heaviest = networksByCount[highestCount]?.first
            guard let device = heaviest.flatMap({ oldest(of: $0) }) ?? oldest(of: .unknown) else { return false }
            remove(device)
            evicted.append(device)
        }
        return true
    }

    private func oldest(of network: RecordNetwork) -> DeviceID? {
        // Those of an unknown network may be all there are: some of them stand for the others.
        let limit = network == .unknown ? 256 : Int.max
        return networks[network]?.prefix(limit).min { entries[$0]?.seen ?? 0 < entries[$1]?.seen ?? 0 }
    }

    /// Keeps the networks by their counts.
    private mutating func countChanged(of network: RecordNetwork, from old: Int) {
        guard network != .unknown else { return }
        let new = count(of: network)
        networksByCount[old]?.remove(network)
        if networksByCount[old]?.isEmpty == true { networksByCount[old] = nil }
        if new > 0 { networksByCount[new, default: []].insert(network) }
        // A count changes by one at a time.
        if new > highestCount || networksByCount[highestCount] == nil { highestCount = new }
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
    mutating func remove(_ device: DeviceID) {
        guard let network = entries.removeValue(forKey: device)?.network else { return }
        networks[network]?.remove(device)
        if networks[network]?.isEmpty == true { networks[network] = nil }
        countChanged(of: network, from: count(of: network) + 1)
    }

    /// Takes out the records that no longer hold, and returns whose they were.
    mutating func expire(at now: Int64) -> [DeviceID] {
        let over = entries.filter { isOver($0.value, at: now) }.map(\.key)
        for device in over { remove(device) }
        return over
    }

    private func isOver(_ entry: Entry, at now: Int64) -> Bool { now - entry.seen >= limits.keptSeconds }
}
