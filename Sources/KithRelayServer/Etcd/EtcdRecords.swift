import KithIdentity
import KithReach

/// A front end's records: what etcd holds, in memory, and what of it is still to be written there.
///
/// It is told of rows whose records were verified. What it says is to be written goes through ``writes``.
struct EtcdRecords {
    /// What a row of a record holds.
    enum Content: Hashable {
        case genuine(SignedRecord)
        /// Bytes that the device has not signed: the row is as good as none, and may be written over.
        case forged
    }

    /// The end of a write, for whoever waits for it.
    enum Resolution: Hashable {
        /// This record, or a newer one of the same device, is in etcd.
        case written(SignedRecord)
        /// etcd has this one, which is newer.
        case older(than: SignedRecord)
    }

    private let limits: DirectoryLimits
    private(set) var table: RecordTable
    private(set) var writes: EtcdWrites
    /// The revision of each row there is, also of those that are forged.
    private var revisions: [DeviceID: Int64] = [:]
    private(set) var relays: [String: EtcdRelay] = [:]
    private var places: [DeviceID: (relay: String, revision: Int64)] = [:]
    private var relayRevisions: [String: Int64] = [:]
    /// True from ``startOver()`` until a list is complete.
    private var isRestoring = false

    /// The most relays.
    static let relayLimit = 4_096

    init(_ limits: DirectoryLimits) {
        self.limits = limits
        table = RecordTable(limits)
        writes = EtcdWrites(limit: limits.pendingWrites)
    }

    /// The number of devices that are connected to a relay now.
    var placeCount: Int { places.count }

    /// The relay that a device is connected to, as that relay says: not signed by the device.
    func relay(of device: DeviceID) -> (id: String, relay: EtcdRelay)? {
        guard let id = places[device]?.relay, let relay = relays[id] else { return nil }
        return (id, relay)
    }

    // MARK: - Rows

    /// Takes a row of a record in.
    ///
    /// A list knows only when a row was written last, not when: `isListed` ones count as seen when they were signed, but
    /// within the last six of seven days, since a device's clock may be wrong.
    mutating func put(_ content: Content, of device: DeviceID, revision: Int64, isListed: Bool, at now: Int64) {
        // A member that is behind tells what is over.
        guard revision >= revisions[device] ?? 0 else { return }
        guard revisions[device] != nil || revisions.count < limits.records else { return }
        revisions[device] = revision
        let known = table.record(of: device, at: now)
        guard case .genuine(let record) = content else {
            // Who knows better says so.
            if let known { _ = writes.add(known, of: device) }
            return
        }
        if let known, known.replaces(record) {
            // A cluster that was set back, or another's hand.
            _ = writes.add(known, of: device)
        } else if known?.body == record.body {
            if !isListed { _ = table.repeated(device, at: now) }
        } else if known != nil || table.count < limits.records {
            let signedAt = Int64(clamping: record.time / 1_000_000)
            let seen = isListed ? min(now, max(signedAt, now - limits.keptSeconds / 7 * 6)) : now
            table.put(record, seen: seen)
        }
    }

    /// Takes a row of a relay in; a row that is none counts as deleted.
    mutating func put(_ relay: EtcdRelay?, of id: String, revision: Int64) {
        guard revision >= relayRevisions[id] ?? 0, relays[id] != nil || relays.count < Self.relayLimit else { return }
        relays[id] = relay
        relayRevisions[id] = relay == nil ? nil : revision
    }

    /// Takes a row of a device's relay in.
    mutating func put(relay id: String, of device: DeviceID, revision: Int64) {
        guard revision >= places[device]?.revision ?? 0, places[device] != nil || places.count < limits.records else {
            return
        }
        places[device] = (id, revision)
    }

    /// Takes notice that a row is gone.
    mutating func deleted(_ key: EtcdKey, revision: Int64) {
        switch key {
        case .record(let device):
            guard revision > revisions[device] ?? 0 else { return }
            revisions[device] = nil
            // What is still to be written is not gone.
            if !writes.contains(device) { table.remove(device) }
        case .at(let device): if revision > places[device]?.revision ?? 0 { places[device] = nil }
        case .relay(let id):
            guard revision > relayRevisions[id] ?? 0 else { return }
            (relays[id], relayRevisions[id]) = (nil, nil)
        }
    }

    /// Forgets what rows there are: another cluster answers, or the same from before.
    ///
    /// The records stay.
    mutating func startOver() {
        (revisions, places, relays, relayRevisions) = ([:], [:], [:], [:])
        isRestoring = true
    }

    /// Takes notice that of rows up to a revision there are these, and no others.
    mutating func listed(_ keys: Set<EtcdKey>, revision: Int64) {
        let (following, isOver) = revision.addingReportingOverflow(1)
        guard !isOver else { return }
        if isRestoring {
            isRestoring = false
            for record in table.records where revisions[record.device] == nil {
                _ = writes.add(record, of: record.device)  // one without room is repeated by its device
            }
        }
        for (device, row) in revisions where row <= revision && !keys.contains(.record(device)) {
            deleted(.record(device), revision: following)
        }
        for (device, place) in places where place.revision <= revision && !keys.contains(.at(device)) {
            places[device] = nil
        }
        for (id, row) in relayRevisions where row <= revision && !keys.contains(.relay(id)) {
            deleted(.relay(id), revision: following)
        }
    }

    // MARK: - Writing

    /// Takes in a record that was verified and judged newer: it is answered from now on, and written.
    ///
    /// False when there is no room.
    mutating func add(_ record: SignedRecord, at now: Int64) -> Bool {
        guard writes.add(record, of: record.device) else { return false }
        table.put(record, seen: now)
        return true
    }

    /// Notes that a record was repeated; true when that is all, false when it is being written.
    ///
    /// What is in etcd is not written again.
    mutating func repeated(_ record: SignedRecord, at now: Int64) -> Bool {
        _ = table.repeated(record.device, at: now)
        guard revisions[record.device] == nil || writes.contains(record.device) else { return true }
        return !writes.contains(record.device) && !writes.add(record, of: record.device)
    }

    /// The next batch of writes.
    mutating func nextBatch() -> [EtcdWrites.Write] { writes.nextBatch { revisions[$0] ?? 0 } }

    /// Takes notice of what became of a batch; `contents` are those of the rows that had changed.
    mutating func ended(
        _ results: [(write: EtcdWrites.Write, outcome: EtcdWrites.Outcome, content: Content?)], at now: Int64
    ) -> [Resolution] {
        writes.ended()
        var resolutions: [Resolution] = []
        for (write, outcome, content) in results {
            let device = write.device
            switch outcome {
            case .written(let revision):
                guard let record = write.record else {
                    deleted(.record(device), revision: revision)
                    continue
                }
                if revision > revisions[device] ?? 0 { revisions[device] = revision }
                resolutions.append(.written(record))
            case .changed(let row?):
                revisions[device] = row.revision
                // One that has come back to life is not deleted.
                guard let record = write.record else { continue }
                if case .genuine(let stored)? = content, !record.replaces(stored) {
                    let isSame = stored.body == record.body
                    resolutions.append(isSame ? .written(record) : .older(than: stored))
                    put(.genuine(stored), of: device, revision: row.revision, isListed: false, at: now)
                } else if !writes.contains(device) {
                    _ = writes.add(record, of: device)
                }
            case .changed(nil):
                revisions[device] = nil
                if let record = write.record, !writes.contains(device) { _ = writes.add(record, of: device) }
            }
        }
        return resolutions
    }

    /// Takes notice that nobody knows what became of a batch.
    mutating func failed() { writes.failed() }

    /// Takes out what no longer holds, here and in etcd.
    mutating func expire(at now: Int64) {
        for device in table.expire(at: now) where revisions[device] != nil { _ = writes.add(nil, of: device) }
    }
}
