import Foundation
import KithIdentity
import KithReach

/// What a relay tells etcd of itself and of who is connected to it: rows on one lease.
///
/// ```
///  without a lease ──granted──▶ with one: kept alive each quarter of its life, changes written
///        ▲                        │ it has run out
///        └────────────────────────┘ all rows are written again
/// ```
/// A relay that dies says nothing: its lease runs out, and all its rows vanish at once.
struct EtcdPresence {
    /// What the driver does next.
    enum Step: Hashable {
        /// Ask for a lease.
        case grant(seconds: Int64)
        /// Keep the lease alive.
        case keepAlive(lease: Int64)
        /// Write rows: the relay's own where it is given, and those of devices that came or went.
        case write(lease: Int64, relay: EtcdRelay?, came: [DeviceID], went: [DeviceID])
        /// Nothing until then.
        case wait(until: ContinuousClock.Instant)
    }

    /// The seconds that a lease lasts.
    static let lifetime: Int64 = 20
    /// The most rows of a transaction, the relay's own included.
    static let batchLimit = 64
    /// The least time between two writes of the number of clients.
    static let loadInterval = Duration.seconds(10)

    private struct Lease {
        var id: Int64
        /// When it is to be kept alive.
        var due: ContinuousClock.Instant
    }

    private var lease: Lease?
    private var changed: Set<DeviceID> = []
    /// The row of the relay as it is to be.
    private var wanted: EtcdRelay
    /// The row of the relay as it is in etcd, and since when.
    private var written: (relay: EtcdRelay, at: ContinuousClock.Instant)?
    /// Until when nothing is asked, after a failure.
    private var pausedUntil: ContinuousClock.Instant?

    /// The number of devices of which something is to be written.
    var pending: Int { changed.count }

    init(_ relay: EtcdRelay) { wanted = relay }

    /// Notes that a device has come or gone.
    mutating func noted(_ device: DeviceID) { changed.insert(device) }

    /// Notes the number of clients.
    mutating func noted(load: Int) { wanted.load = load }

    /// The next step; `isHere` tells who is connected now.
    mutating func next(at now: ContinuousClock.Instant, isHere: (DeviceID) -> Bool) -> Step {
        if let pausedUntil, now < pausedUntil { return .wait(until: pausedUntil) }
        guard let lease else { return .grant(seconds: Self.lifetime) }
        if now >= lease.due { return .keepAlive(lease: lease.id) }
        // The number of clients alone is not worth a write each time.
        let isRelayDue = written.map { $0.relay != wanted && now - $0.at >= Self.loadInterval } ?? true
        if isRelayDue || !changed.isEmpty {
            let devices = changed.prefix(Self.batchLimit - 1)
            let here = devices.filter { isHere($0) }
            return .write(
                lease: lease.id, relay: isRelayDue ? wanted : nil, came: Array(here),
                went: devices.filter { !here.contains($0) })
        }
        let loadDue = written.flatMap { $0.relay != wanted ? $0.at + Self.loadInterval : nil }
        return .wait(until: loadDue.map { min($0, lease.due) } ?? lease.due)
    }

    /// Takes a lease; `devices` are those connected now, of which all rows are to be written.
    mutating func granted(_ id: Int64, seconds: Int64, devices: Set<DeviceID>, at now: ContinuousClock.Instant) {
        guard seconds > 0 else { return }
        lease = Lease(id: id, due: now + Self.pause(of: seconds))
        written = nil
        changed = devices
    }

    /// Takes the answer to a sign of life: 0 seconds when the lease has run out.
    mutating func keptAlive(seconds: Int64, at now: ContinuousClock.Instant) {
        guard seconds > 0 else { return lost() }
        lease?.due = now + Self.pause(of: seconds)
    }

    /// Takes notice that the lease is gone.
    mutating func lost() { lease = nil }

    /// Takes notice that a batch is begun: what changes from now on is written again.
    mutating func began(_ devices: [DeviceID]) { changed.subtract(devices) }

    /// Takes notice that a batch was written.
    mutating func wrote(_ relay: EtcdRelay?, at now: ContinuousClock.Instant) {
        pausedUntil = nil
        if let relay { written = (relay, now) }
    }

    /// Takes notice of a failure, after which nothing is asked for a while; `devices` are those of the batch.
    mutating func failed(_ devices: [DeviceID], until: ContinuousClock.Instant) {
        changed.formUnion(devices)
        pausedUntil = until
    }

    /// A quarter of a lease's life.
    private static func pause(of seconds: Int64) -> Duration { .seconds(min(seconds, 3_600)) / 4 }

    // MARK: - The transaction

    /// The request that writes rows; one of a device that went is deleted unless another relay has it by now.
    static func transaction(
        id: String, lease: Int64, relay: EtcdRelay?, came: [DeviceID], went: [DeviceID]
    ) -> EtcdMessages.Transaction {
        func put(_ key: EtcdKey, _ value: [UInt8]) -> EtcdMessages.Operation {
            EtcdMessages.Operation(
                put: EtcdMessages.Put(key: Data(key.bytes), value: Data(value), lease: EtcdMessages.Number(lease)))
        }
        let value = Array(id.utf8)
        return EtcdMessages.Transaction(
            success: (relay.map { [put(.relay(id), $0.bytes)] } ?? [])
                + came.map { put(.at($0), value) }
                + went.map { device in
                    let key = Data(EtcdKey.at(device).bytes)
                    return EtcdMessages.Operation(
                        transaction: EtcdMessages.Transaction(
                            compare: [EtcdMessages.Compare(key: key, target: "VALUE", value: Data(value))],
                            success: [EtcdMessages.Operation(delete: EtcdMessages.Delete(key: key))]))
                })
    }
}
