/// The records that others have said, as long as they hold (RFC 6762 §10).
///
/// Bounded: at most 512, and of one name and type 4, except those of a list; the oldest of a name goes for a new one.
struct MDNSCache {
    /// What became of a record.
    enum Insertion: Hashable {
        /// Nothing like it was there.
        case new
        /// It holds for longer now.
        case renewed
        /// There is no room.
        case full
    }

    private struct Key: Hashable {
        let name: DNSName
        let type: DNSType
    }

    private struct Entry {
        var record: DNSRecord
        var received: ContinuousClock.Instant
        var end: ContinuousClock.Instant
        /// How often it has been asked about since.
        var refreshes = 0
        /// When it is asked about again; `nil`: no more.
        var refresh: ContinuousClock.Instant?
    }

    static let maxRecords = 512
    static let maxPerName = 4
    /// The longest time that a record is taken to hold; what holds for longer is asked about again.
    static let maxLifetime: UInt32 = MDNS.lifetime
    /// Parts of a lifetime, in percent, after which is asked whether it still holds.
    private static let refreshes = [80, 85, 90, 95]

    private var entries: [Key: [Entry]] = [:]
    private(set) var count = 0

    /// The next time at which something ends, or is to be asked about.
    var nextDeadline: ContinuousClock.Instant? {
        entries.values.lazy.joined().map { entry in entry.refresh.map { min($0, entry.end) } ?? entry.end }.min()
    }

    /// Takes a record; one that holds for no time ends in a second.
    ///
    /// `jitter` is from 0 to 2, percent of its time. `isList`: many records are of that name.
    mutating func insert(
        _ record: DNSRecord, isList: Bool = false, jitter: Int, at now: ContinuousClock.Instant
    ) -> Insertion {
        let key = Key(name: record.name, type: record.type)
        var all = entries[key] ?? []
        defer { entries[key] = all.isEmpty ? nil : all }
        if record.flushesCache {
            // Those of the last second came with it (§10.2); the others may be defended within another.
            for index in all.indices where all[index].received + .seconds(1) < now {
                all[index].end = min(all[index].end, now + .seconds(1))
            }
        }
        let seconds = min(record.timeToLive, Self.maxLifetime)
        let lifetime = Duration.seconds(Int64(max(seconds, 1)))
        let refresh = seconds == 0 ? nil : now + lifetime * (Self.refreshes[0] + jitter) / 100
        let entry = Entry(record: record.plain.holding(seconds), received: now, end: now + lifetime, refresh: refresh)
        if let index = all.firstIndex(where: { $0.record.saysTheSame(as: record) }) {
            if seconds == 0 {
                all[index].end = min(all[index].end, entry.end)
                all[index].refresh = nil
            } else {
                all[index] = entry
            }
            return .renewed
        }
        // What was never there need not end.
        guard seconds > 0 else { return .renewed }
        if !isList, all.count >= Self.maxPerName {
            all.remove(at: all.indices.min { all[$0].received < all[$1].received } ?? 0)
            count -= 1
        }
        guard count < Self.maxRecords else { return .full }
        all.append(entry)
        count += 1
        return .new
    }

    /// Forgets what is there by a name and type, or only what says the same as a record.
    mutating func remove(_ name: DNSName, _ type: DNSType, like record: DNSRecord? = nil) {
        let key = Key(name: name, type: type)
        guard let all = entries[key] else { return }
        let rest = all.filter { entry in record.map { !entry.record.saysTheSame(as: $0) } ?? false }
        count -= all.count - rest.count
        entries[key] = rest.isEmpty ? nil : rest
    }

    /// The records of a name and type, with the seconds that are left.
    func records(_ name: DNSName, _ type: DNSType, at now: ContinuousClock.Instant) -> [DNSRecord] {
        (entries[Key(name: name, type: type)] ?? []).filter { $0.end > now }.map { Self.left($0, at: now) }
    }

    /// Those of which more than half of the time is left: whoever asks says that it knows them (§7.1).
    func known(_ name: DNSName, _ type: DNSType, at now: ContinuousClock.Instant) -> [DNSRecord] {
        (entries[Key(name: name, type: type)] ?? [])
            .filter { ($0.end - now) * 2 > .seconds(Int64($0.record.timeToLive)) }.map { Self.left($0, at: now) }
    }

    private static func left(_ entry: Entry, at now: ContinuousClock.Instant) -> DNSRecord {
        entry.record.holding(UInt32(clamping: (entry.end - now).components.seconds))
    }

    /// Drops what has ended.
    mutating func expire(at now: ContinuousClock.Instant) {
        for (key, all) in entries where all.contains(where: { $0.end <= now }) {
            let rest = all.filter { $0.end > now }
            count -= all.count - rest.count
            entries[key] = rest.isEmpty ? nil : rest
        }
    }

    /// The names and types that are to be asked about now, so that they do not end.
    mutating func takeRefreshes(jitter: Int, at now: ContinuousClock.Instant) -> [DNSMessage.Question] {
        var due: [DNSMessage.Question] = []
        for (key, all) in entries {
            var isDue = false
            for (index, entry) in all.enumerated() where entry.refresh.map({ $0 <= now }) ?? false {
                isDue = true
                let next = entry.refreshes + 1
                let lifetime = Duration.seconds(Int64(entry.record.timeToLive))
                entries[key]?[index].refreshes = next
                entries[key]?[index].refresh =
                    next < Self.refreshes.count
                    ? entry.received + lifetime * (Self.refreshes[next] + jitter) / 100 : nil
            }
            if isDue { due.append(DNSMessage.Question(key.name, key.type)) }
        }
        return due
    }
}
