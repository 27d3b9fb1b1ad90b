import Foundation
import GRDB
public import KithIdentity
public import KithWire
import Logging
import Synchronization

extension Store {
    /// The number of lines kept of attempts by unpaired devices, besides ``auditLimit``; the oldest go first.
    public static let attemptLimit = 1_000

    /// The treatment of a device that connects.
    @nonexhaustive
    public enum Reception: Hashable, Sendable {
        /// It is paired.
        case paired
        /// It is not, but an invitation waits that it could present.
        case invited
        /// It is not, but it may show a certificate: see ``Store/admitEnrolled(until:)``.
        case enrolled
        /// It is not, and nothing waits for it.
        case unknown
    }

    /// The treatment of a device that connects at `now`, in seconds since 1970; touches no disk.
    public func reception(of id: DeviceID, now: Int64) -> Reception {
        known.withLock { known in
            if known.devices.contains(id), known.certifiedUntil[id].map({ $0 > now }) ?? true { return .paired }
            if known.revoked.contains(id) { return .unknown }
            if known.lastExpiry > now { return .invited }
            return mayIntroduceItself(id, known, now) ? .enrolled : .unknown
        }
    }

    /// The devices that are received as paired at `now`, in seconds since 1970; touches no disk.
    public func receivedAsPaired(now: Int64) -> [DeviceID] {
        known.withLock { known in
            known.devices.filter { id in known.certifiedUntil[id].map { $0 > now } ?? true }
        }
    }

    /// Tells whether a device may show its certificate at `now`, in seconds since 1970; touches no disk.
    ///
    /// Not one that was revoked, or forgotten here; and none while this device has no certificate of its own.
    public func mayIntroduceItself(_ id: DeviceID, now: Int64) -> Bool {
        known.withLock { mayIntroduceItself(id, $0, now) }
    }

    private func mayIntroduceItself(_ id: DeviceID, _ known: KnownPeers, _ now: Int64) -> Bool {
        !known.revoked.contains(id) && !known.forgotten.contains(id)
            && enrolledUntil.withLock { $0.map { $0 > now } ?? false }
    }

    /// Has devices that are not paired show their certificates until a time, in seconds since 1970; `nil`: has none.
    ///
    /// None may before this is called, whatever is stored.
    public func admitEnrolled(until time: Int64?) { enrolledUntil.withLock { $0 = time } }

    /// The devices that are known by their certificates, and until when those hold; touches no disk.
    public var certifiedDevices: [DeviceID: Int64] { known.withLock { $0.certifiedUntil } }

    /// Counts what an unpaired device tried; touches no disk, which learns of it within a second or two.
    public func countAttempt(_ attempt: UnpairedAttempt, now: Int64) {
        let isFirst = attempts.withLock { state in
            guard !state.isClosed else { return false }
            state.counted.count(attempt, at: now)
            defer { state.isScheduled = true }
            return !state.isScheduled
        }
        if isFirst { writeAttemptsSoon() }
    }

    private func writeAttemptsSoon() {
        Task(name: "kith attempts") { [weak self] in
            // Never cancelled; were it, it would write a little early.
            try? await Task.sleep(for: .seconds(1))
            self?.writeAttempts()
        }
    }

    /// Writes down what paired devices called, in their order and in one transaction.
    ///
    /// Of refusals, the first of an hour are written now; the same again is counted, and so are a device's others of one
    /// method beyond sixteen.
    public func record(calls entries: [AuditEntry]) throws(KithError) {
        try attemptWriting.withLock { _ throws(KithError) in
            var new: [(entry: AuditEntry, first: PairedRefusals.Lines.Line?)] = []
            let isFirst = attempts.withLock { state in
                guard !state.isClosed else { return false }
                var isRepeated = false
                for entry in entries {
                    guard entry.decision == .denied else {
                        new.append((entry, nil))
                        continue
                    }
                    if let line = state.refusals.count(entry) { new.append((entry, line)) } else { isRepeated = true }
                }
                guard isRepeated else { return false }
                defer { state.isScheduled = true }
                return !state.isScheduled
            }
            if isFirst { writeAttemptsSoon() }
            guard !new.isEmpty else { return }
            let numbers = try transaction("write the audit log") { database in
                try new.map { entry, line in
                    guard let line else {
                        try Self.record(entry, database)
                        return Int64(0)
                    }
                    return try Self.write(line, database)
                }
            }
            attempts.withLock { state in
                for (new, number) in zip(new, numbers) {
                    if let line = new.first { state.refusals.written(line, as: number) }
                }
            }
        }
    }

    /// Writes what was counted and is not on the disk yet.
    func writeAttempts() {
        attemptWriting.withLock { _ in
            let (lines, refusals) = attempts.withLock { state in
                state.isScheduled = false
                return state.isClosed ? ([], []) : (state.counted.take(), state.refusals.take())
            }
            guard !lines.isEmpty || !refusals.isEmpty else { return }
            do throws(KithError) {
                let (numbers, others) = try transaction("count what devices tried") { database in
                    (try lines.map { try Self.write($0, database) }, try refusals.map { try Self.write($0, database) })
                }
                attempts.withLock { state in
                    for (line, number) in zip(lines, numbers) { state.counted.written(line, as: number) }
                    for (line, number) in zip(refusals, others) { state.refusals.written(line, as: number) }
                }
            } catch {
                // They are in the next version of the line, or lost with the hour.
                logger.warning("what devices tried could not be noted", metadata: ["error": "\(error)"])
            }
        }
    }

    /// Writes a line anew, as the newest.
    private static func write(_ line: PairedRefusals.Lines.Line, _ database: Database) throws -> Int64 {
        if let number = line.number {
            try database.execute(sql: "DELETE FROM audit WHERE number = ?", arguments: [number])
        }
        let detail = line.count > 1 ? "\(line.detail); \(line.count) times within the hour" : line.detail
        try record(
            AuditEntry(time: line.last, device: line.device, method: line.method, decision: .denied, detail: detail),
            database)
        return database.lastInsertedRowID
    }

    private static func write(_ line: UnpairedAttempts.Lines.Line, _ database: Database) throws -> Int64 {
        if let number = line.number {
            try database.execute(
                sql: "UPDATE attempts SET last = ?, count = ?, method = ?, detail = ? WHERE number = ?",
                arguments: [line.last, line.count, line.method, line.detail, number])
            return number
        }
        try database.execute(
            sql: "INSERT INTO attempts (first, last, count, device, method, detail) VALUES (?, ?, ?, ?, ?, ?)",
            arguments: [line.first, line.last, line.count, line.device, line.method, line.detail])
        let number = database.lastInsertedRowID
        try database.execute(
            sql: "DELETE FROM attempts WHERE number <= ?", arguments: [number - Int64(attemptLimit)])
        return number
    }

    /// The newest lines, newest first.
    static func attempts(_ database: Database, limit: Int) throws -> [AuditEntry] {
        try Row.fetchAll(
            database, sql: "SELECT * FROM attempts ORDER BY last DESC, number DESC LIMIT ?", arguments: [limit]
        )
        .map { row in
            let count: Int64 = row["count"]
            let detail: String = row["detail"]
            return AuditEntry(
                time: row["last"], device: row["device"], method: row["method"], decision: .denied,
                detail: count > 1 ? "\(detail); \(count) times within the hour" : detail)
        }
    }
}

/// The known devices, held in memory for callers that must not wait for the disk.
struct KnownPeers: Sendable {
    /// The paired devices.
    var devices: Set<DeviceID> = []
    /// The devices among them that are known by their certificates alone, and until when those hold.
    var certifiedUntil: [DeviceID: Int64] = [:]
    /// The devices that this device's person has forgotten.
    var forgotten: Set<DeviceID> = []
    /// The devices that the root has revoked.
    var revoked: Set<DeviceID> = []
    /// The time at which the last of the waiting invitations stops working; in the past when there is none.
    var lastExpiry = Int64.min
    /// Grows with every change of the database: what is older is not taken.
    var version: UInt64 = 0

    /// Reads who is known.
    init(_ database: Database, version: UInt64) throws {
        let keys = try Data.fetchAll(database, sql: "SELECT id FROM devices")
        // The table holds keys of 32 bytes only.
        devices = Set(keys.compactMap { try? DeviceID(publicKey: Array($0)) })
        revoked = Set(
            try Data.fetchAll(database, sql: "SELECT device FROM trust_revoked")
                .compactMap { try? DeviceID(publicKey: Array($0)) })
        forgotten = Set(
            try Data.fetchAll(database, sql: "SELECT device FROM forgotten_devices")
                .compactMap { try? DeviceID(publicKey: Array($0)) })
        for row in try Row.fetchAll(database, sql: "SELECT * FROM enrolled_devices") {
            certifiedUntil[try DeviceID(publicKey: Array(row["device"] as Data))] = row["until"]
        }
        lastExpiry =
            try Int64.fetchOne(database, sql: "SELECT max(expires_at) FROM invitations WHERE used_at IS NULL") ?? .min
        self.version = version
    }

    /// Knows nobody.
    init() {}
}

/// The attempts of unpaired devices and the refusals of paired ones, on their way to the disk.
struct CountedAttempts: Sendable {
    var counted = UnpairedAttempts()
    var refusals = PairedRefusals()
    /// True when somebody is about to write.
    var isScheduled = false
    var isClosed = false
}
