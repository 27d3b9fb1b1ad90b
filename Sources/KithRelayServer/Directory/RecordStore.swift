import Dispatch
import KithIdentity
import KithReach
import KithWire
import Logging
import NIOCore
import Synchronization

/// The records of a directory: answered from memory, kept on disk.
///
/// Writes wait for the disk together: those that arrive while one transaction is written are the next.
final class RecordStore: RecordStorage {
    private struct Pending {
        var record: SignedRecord
        var network: RecordNetwork
        var promise: EventLoopPromise<StorageOutcome>
    }

    private struct State {
        var table: RecordTable
        var pending: [Pending] = []
        /// Those that were repeated, for the database to know.
        var repeated: [DeviceID: Int64] = [:]
        var isWriting = false
        var hasFailed = false
        var isClosed = false
    }

    private let limits: DirectoryLimits
    private let database: RecordDatabase
    private let clock: @Sendable () -> Int64
    private let logger: Logger
    private let state: Mutex<State>
    private let queue = DispatchQueue(label: "kith.directory")

    /// Reads what the folder holds; `clock` returns seconds since 1970.
    init(
        folder: String, limits: DirectoryLimits, logger: Logger, clock: @escaping @Sendable () -> Int64
    ) throws(KithError) {
        self.limits = limits
        self.clock = clock
        self.logger = logger
        database = try RecordDatabase(folder: folder)
        let now = clock()
        var table = RecordTable(limits)
        for (record, network, seen) in try database.records(since: now - limits.keptSeconds) {
            // A clock that was ahead when it was seen must not keep it for longer.
            table.put(record, from: network, seen: min(seen, now))
        }
        state = Mutex(State(table: table))
    }

    /// The number of records.
    var count: Int { state.withLock { $0.table.count } }

    /// Failing after a write that failed, until one succeeds.
    var health: StorageHealth {
        state.withLock { $0.hasFailed ? .failing("Records cannot be written.") : .good }
    }

    /// The record of a device.
    func record(of device: DeviceID) -> SignedRecord? {
        let now = clock()
        return state.withLock { $0.table.record(of: device, at: now) }
    }

    /// Judges a record that may not have been verified, before that work is done; `nil` when it is to be put.
    func outcome(of record: SignedRecord) -> StorageOutcome? {
        let now = clock()
        return state.withLock { state in
            switch state.table.judge(record, at: now) {
            case .isOlder: .older
            // Another gives way to it, perhaps.
            case .isNewer, .isFull: state.pending.count >= limits.pendingWrites ? .full : nil
            // Its signature may be another: it counts only once it was verified.
            case .isSame: nil
            }
        }
    }

    /// Keeps a verified record; the promise is kept once it is on disk.
    func put(_ record: SignedRecord, from network: RecordNetwork, promise: EventLoopPromise<StorageOutcome>) {
        state.withLock { state in
            guard !state.isClosed else { return promise.succeed(.failed) }
            guard state.pending.count < limits.pendingWrites else { return promise.succeed(.full) }
            state.pending.append(Pending(record: record, network: network, promise: promise))
            start(&state)
        }
    }

    /// Takes out what no longer holds.
    func expire() {
        let now = clock()
        let over = state.withLock { $0.isClosed ? [] : $0.table.expire(at: now) }
        guard !over.isEmpty else { return }
        queue.async { [self] in write(over.map { .delete($0) }) }
    }

    /// Waits until everything is on disk, and closes the file.
    func close() async {
        state.withLock { $0.isClosed = true }
        queue.sync {
            drain()
            do throws(KithError) {
                try database.close()
            } catch {
                logger.warning("closing the directory: \(error)")
            }
        }
    }

    private func start(_ state: inout State) {
        guard !state.isWriting else { return }
        state.isWriting = true
        queue.async { [self] in drain() }
    }

    /// Writes what is pending, until nothing is.
    private func drain() {
        while true {
            let now = clock()
            let (pending, repeated) = state.withLock { state in
                defer { (state.pending, state.repeated) = ([], [:]) }
                if state.pending.isEmpty, state.repeated.isEmpty { state.isWriting = false }
                return (state.pending, state.repeated)
            }
            guard !pending.isEmpty || !repeated.isEmpty else { return }
            // Of several records of one device the last that counts is written.
            var chosen: [DeviceID: Pending] = [:]
            var evicted: [DeviceID] = []
            var outcomes: [StorageOutcome] = []
            state.withLock { state in
                var added = (all: 0, networks: [RecordNetwork: Int]())
                for item in pending {
                    let device = item.record.device
                    var verdict = state.table.judge(item.record, at: now)
                    if let earlier = chosen[device] {
                        verdict = item.record.replaces(earlier.record) ? .isNewer : .isOlder
                    } else if verdict == .isFull
                        || verdict == .isNewer && state.table.record(of: device, at: now) == nil
                    {
                        let network = item.network
                        let hasRoom = state.table.makeRoom(
                            forOneOf: network, pending: added.networks[network] ?? 0, ofAll: added.all, &evicted)
                        verdict = hasRoom ? .isNewer : .isFull
                        if hasRoom {
                            added.all += 1
                            added.networks[network, default: 0] += 1
                        }
                    }
                    switch verdict {
                    case .isNewer:
                        chosen[device] = item
                        outcomes.append(.stored)
                    case .isSame:
                        if state.table.repeated(device, at: now) { state.repeated[device] = now }
                        outcomes.append(.same)
                    case .isOlder: outcomes.append(.older)
                    case .isFull: outcomes.append(.full)
                    }
                }
            }
            let changes =
                evicted.map { RecordDatabase.Change.delete($0) }
                + chosen.values.map { .put($0.record, from: $0.network, seen: now) }
                + repeated.map { .repeated($0, seen: $1) }
            let isWritten = write(changes)
            if isWritten {
                state.withLock { state in
                    for item in chosen.values { state.table.put(item.record, from: item.network, seen: now) }
                }
            }
            for (item, outcome) in zip(pending, outcomes) {
                item.promise.succeed(outcome == .stored && !isWritten ? .failed : outcome)
            }
        }
    }

    @discardableResult
    private func write(_ changes: [RecordDatabase.Change]) -> Bool {
        guard !changes.isEmpty else { return true }
        do throws(KithError) {
            try database.apply(changes)
            state.withLock { $0.hasFailed = false }
            return true
        } catch {
            if !state.withLock({ state in
                defer { state.hasFailed = true }
                return state.hasFailed
            }) {
                logger.error("keeping records: \(error)")
            }
            return false
        }
    }
}
