import Foundation
import KithIdentity
import KithReach
import KithWire
import Logging
import NIOCore
import Synchronization

/// The records of a directory that several front ends share: kept in etcd, answered from memory.
///
/// One task follows etcd's rows, one writes. While etcd is away what is known is answered, and the newest record of each
/// device waits to be written.
final class EtcdRecordStore: RecordStorage {
    private struct Waiting {
        var record: SignedRecord
        var promise: EventLoopPromise<StorageOutcome>
    }

    private struct State {
        var mirror: EtcdMirror
        var records: EtcdRecords
        /// Those who are told once their record is in etcd.
        var waiting: [DeviceID: [Waiting]] = [:]
        var isComplete = false
        /// Why etcd's rows are not followed now; `nil` while they are, and until each member was asked.
        var readFailure: KithError?
        /// Why nothing is written now.
        var writeFailure: KithError?
        var isClosing = false
        var forged = 0

        var failure: KithError? { readFailure ?? writeFailure }
    }

    private let limits: DirectoryLimits
    private let clock: @Sendable () -> Int64
    private let ticker: any Ticker
    private let logger: Logger
    private let state: Mutex<State>
    private let reader: EtcdSession
    private let writer: EtcdSession
    private let signals: AsyncStream<Void>
    private let signal: AsyncStream<Void>.Continuation
    private let tasks = Mutex<[Task<Void, Never>]>([])

    /// The time for which a device waits for etcd before it is told that its record is kept later.
    private static let patience = TimeAmount.seconds(2)
    /// The time between two signs of life of the member that is watched.
    private static let signInterval = Duration.seconds(5)

    /// Begins to read what etcd holds; `clock` returns seconds since 1970.
    ///
    /// - Throws: `KithError` `.invalid` for certificates that cannot be read.
    init(
        _ options: EtcdOptions, limits: DirectoryLimits, logger: Logger, clock: @escaping @Sendable () -> Int64,
        ticker: any Ticker = ContinuousClock()
    ) throws(KithError) {
        self.limits = limits
        self.clock = clock
        self.ticker = ticker
        self.logger = logger
        (reader, writer) = (try EtcdSession(options), try EtcdSession(options))
        (signals, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        state = Mutex(
            State(
                mirror: EtcdMirror(limit: limits.records * 2 + EtcdRecords.relayLimit), records: EtcdRecords(limits)))
        tasks.withLock { tasks in
            tasks = [
                Task(name: "kith etcd reader") { await read() }, Task(name: "kith etcd writer") { await write() },
            ]
        }
    }

    // MARK: - Answers

    var count: Int { state.withLock { $0.records.table.count } }

    var isComplete: Bool { state.withLock { $0.isComplete } }

    var health: StorageHealth {
        state.withLock { state in
            guard state.isComplete else {
                return .failing(state.failure?.message ?? "The records are not read yet.")
            }
            guard let failure = state.failure else { return .good }
            let text =
                "etcd is away: \(state.records.table.count) known records are answered, \(state.records.writes.count) "
                + "wait to be written. \(failure.message)"
            return .degraded(text)
        }
    }

    var metrics: String {
        let (isUp, waiting, places, relays, forged) = state.withLock { state in
            (
                state.isComplete && state.failure == nil, state.records.writes.count, state.records.placeCount,
                state.records.relays.count, state.forged
            )
        }
        return """
            # HELP kith_directory_etcd_up 1 while etcd is followed and written.
            # TYPE kith_directory_etcd_up gauge
            kith_directory_etcd_up \(isUp ? 1 : 0)
            # HELP kith_directory_etcd_waiting Records that wait to be written.
            # TYPE kith_directory_etcd_waiting gauge
            kith_directory_etcd_waiting \(waiting)
            # HELP kith_directory_etcd_connected Devices connected to a relay of this etcd.
            # TYPE kith_directory_etcd_connected gauge
            kith_directory_etcd_connected \(places)
            # HELP kith_directory_etcd_relays Relays of this etcd.
            # TYPE kith_directory_etcd_relays gauge
            kith_directory_etcd_relays \(relays)
            # HELP kith_directory_etcd_forged_total Rows that their device has not signed.
            # TYPE kith_directory_etcd_forged_total counter
            kith_directory_etcd_forged_total \(forged)

            """
    }

    func place(of device: DeviceID) -> String? {
        struct Place: Encodable {
            var relay: String
            var url: String
            var region: String
        }
        guard let (id, relay) = state.withLock({ $0.records.relay(of: device) }) else { return nil }
        let place = Place(relay: id, url: relay.url, region: relay.region)
        return String(decoding: EtcdMessages.json(place), as: UTF8.self)
    }

    func record(of device: DeviceID) -> SignedRecord? {
        let now = clock()
        return state.withLock { $0.records.table.record(of: device, at: now) }
    }

    func outcome(of record: SignedRecord) -> StorageOutcome? {
        let now = clock()
        return state.withLock { state in
            switch state.records.table.judge(record, at: now) {
            case .isOlder: .older
            case .isFull: .full
            case .isNewer: state.records.writes.hasRoom(for: record.device) ? nil : .full
            // Its signature may be another: it counts only once it was verified.
            case .isSame: nil
            }
        }
    }

    func put(_ record: SignedRecord, from network: RecordNetwork, promise: EventLoopPromise<StorageOutcome>) {
        let now = clock()
        let outcome: StorageOutcome? = state.withLock { state in
            guard !state.isClosing else { return .failed }
            switch state.records.table.judge(record, at: now) {
            case .isOlder: return .older
            case .isFull: return .full
            case .isSame: if state.records.repeated(record, at: now) { return .same }
            case .isNewer:
                // Not before it is known what there is: it would be judged by nothing.
                guard state.isComplete else { return .failed }
                guard state.records.add(record, at: now) else { return .full }
            }
            signal.yield()
            guard state.failure == nil else { return .queued }
            let others = state.waiting[record.device] ?? []
            // Those of one device that wait together are few, whatever it sends.
            guard others.count < 4 else { return .queued }
            state.waiting[record.device] = others + [Waiting(record: record, promise: promise)]
            return nil
        }
        if let outcome { return promise.succeed(outcome) }
        // Too late when there was an answer: then it changes nothing.
        let timer = promise.futureResult.eventLoop.scheduleTask(in: Self.patience) { promise.succeed(.queued) }
        promise.futureResult.whenComplete { _ in timer.cancel() }
    }

    func expire() {
        let now = clock()
        state.withLock { state in
            if state.isComplete { state.records.expire(at: now) }
        }
        signal.yield()
    }

    func close() async {
        let isAway = state.withLock { state in
            state.isClosing = true
            return !state.isComplete || state.failure != nil
        }
        signal.yield()
        let tasks = tasks.withLock { $0 }
        // What waits is written if etcd takes it at once; else devices repeat it.
        for task in isAway ? tasks[...] : tasks.prefix(1) { task.cancel() }
        for task in tasks { await task.value }
        reader.close()
        writer.close()
        let left = state.withLock { state in
            defer { state.waiting = [:] }
            return state.waiting.values.flatMap { $0 }
        }
        for item in left { item.promise.succeed(.failed) }
    }

    // MARK: - Reading

    private func read() async {
        while !Task.isCancelled {
            do throws(KithError) {
                switch state.withLock({ $0.mirror.next }) {
                case .list(let key, let revision): try await list(from: key, revision: revision)
                case .watch(let revision): try await watch(from: revision)
                }
            } catch {
                guard !Task.isCancelled else { return }
                let pause = reader.failed()
                if reader.haveAllFailed { note(reading: error) }
                guard pause > .zero else { continue }
                try? await ticker.sleep(until: ticker.now + pause, tolerance: nil)  // ends early only when cancelled
            }
        }
    }

    private func list(from key: [UInt8], revision: Int64) async throws(KithError) {
        let request = EtcdMessages.Range(
            key: Data(key), rangeEnd: Data(EtcdKey.range.end),
            limit: EtcdMessages.Number(Int64(EtcdMessages.rowsPerPage)),
            revision: revision > 0 ? EtcdMessages.Number(revision) : nil, serializable: true)
        let page: EtcdMessages.Page
        do throws(KithError) {
            page = try await reader.call("/v3/kv/range", request, as: EtcdMessages.Page.self)
        } catch {
            // Its revision may be compacted away by now.
            state.withLock { $0.mirror.startAgain() }
            throw error
        }
        let changes: [EtcdMirror.Change]
        do throws(WireError) {
            changes = try state.withLock { state throws(WireError) in try state.mirror.listed(page) }
        } catch {
            throw KithError(.corrupt, "etcd at \(reader.endpoint) lists what cannot be: \(error).", cause: error)
        }
        apply(changes, isListed: true)
        reader.succeeded()
        if case .watch = state.withLock({ $0.mirror.next }) { note(reading: nil) }
    }

    private func watch(from revision: Int64) async throws(KithError) {
        let request = EtcdMessages.WatchRequest(
            create: EtcdMessages.WatchRequest.Create(
                key: Data(EtcdKey.range.start), rangeEnd: Data(EtcdKey.range.end),
                startRevision: EtcdMessages.Number(revision)))
        let result: Result<Void, KithError> = await withTaskGroup(of: Result<Void, KithError>.self) { group in
            defer { group.cancelAll() }
            group.addTask {
                do throws(KithError) {
                    try await self.reader.follow("/v3/watch", request, as: EtcdMessages.Watch.self) {
                        message throws(KithError) in try self.watched(message)
                    }
                    return .success(())
                } catch {
                    return .failure(error)
                }
            }
            group.addTask { await self.signsOfLife() }
            return await group.next() ?? .success(())
        }
        switch result {
        case .success: return
        case .failure(let error):
            // The list that follows is not a failure.
            if case .list = state.withLock({ $0.mirror.next }) { return }
            throw error
        }
    }

    private func watched(_ message: EtcdMessages.Watch) throws(KithError) {
        let (changes, goesOn): ([EtcdMirror.Change], Bool)
        do throws(WireError) {
            (changes, goesOn) = try state.withLock { state throws(WireError) in try state.mirror.watched(message) }
        } catch {
            throw KithError(.corrupt, "etcd at \(reader.endpoint) tells what cannot be: \(error).", cause: error)
        }
        apply(changes, isListed: false)
        guard goesOn else { throw KithError(.closed, "etcd at \(reader.endpoint) has ended what it told.") }
        reader.succeeded()
        note(reading: nil)
    }

    /// Asks the member that is watched now and then, and ends when it does not answer: a watch says nothing for hours.
    private func signsOfLife() async -> Result<Void, KithError> {
        let request = EtcdMessages.Range(
            key: Data(EtcdKey.range.start), limit: EtcdMessages.Number(1), serializable: true)
        while true {
            do {
                try await ticker.sleep(until: ticker.now + Self.signInterval, tolerance: nil)
                let page = try await reader.call("/v3/kv/range", request, as: EtcdMessages.Page.self)
                guard state.withLock({ $0.mirror.receivedSign(of: page.header) }) else { return .success(()) }
            } catch let error as KithError {
                return .failure(error)
            } catch {
                return .failure(KithError(.cancelled, "etcd is no longer followed."))
            }
        }
    }

    private func apply(_ changes: [EtcdMirror.Change], isListed: Bool) {
        let now = clock()
        for change in changes {
            switch change {
            case .put(let row):
                guard let key = EtcdKey(row.key) else { continue }
                put(row, key, isListed: isListed, at: now)
            case .deleted(let bytes, let revision):
                guard let key = EtcdKey(bytes) else { continue }
                state.withLock { $0.records.deleted(key, revision: revision) }
            case .startedOver:
                logger.warning("etcd holds other rows than before: records that are known here are written again.")
                state.withLock { $0.records.startOver() }
            case .listed(let revision, let keys):
                let known = Set(keys.compactMap { EtcdKey($0) })
                state.withLock { state in
                    state.records.listed(known, revision: revision)
                    state.isComplete = true
                }
            }
        }
        if state.withLock({ $0.records.writes.count > 0 }) { signal.yield() }
    }

    private func put(_ row: EtcdMessages.Row, _ key: EtcdKey, isListed: Bool, at now: Int64) {
        switch key {
        case .record(let device):
            let content = content(of: row, device)
            state.withLock { state in
                if content == .forged { state.forged += 1 }
                state.records.put(content, of: device, revision: row.revision, isListed: isListed, at: now)
            }
        case .at(let device):
            guard row.value.count <= EtcdKey.maxRelayID else { return }
            let id = String(decoding: row.value, as: UTF8.self)
            guard EtcdKey.isRelayID(id) else { return }
            state.withLock { $0.records.put(relay: id, of: device, revision: row.revision) }
        case .relay(let id):
            let relay = EtcdRelay(row.value)
            state.withLock { $0.records.put(relay, of: id, revision: row.revision) }
        }
    }

    /// Verifies a row: who can write into etcd cannot speak for a device, nor keep one from speaking.
    private func content(of row: EtcdMessages.Row, _ device: DeviceID) -> EtcdRecords.Content {
        guard row.value.starts(with: device.bytes) else { return .forged }
        let body = Array(row.value.dropFirst(device.bytes.count))
        let now = clock()
        // What is known is not verified again.
        if let known = state.withLock({ $0.records.table.record(of: device, at: now) }), known.body == body {
            return .genuine(known)
        }
        do throws(WireError) {
            let record = try SignedRecord(device, body: body)
            _ = try DNSMessage(record.message)
            return .genuine(record)
        } catch {
            return .forged
        }
    }

    // MARK: - Writing

    private func write() async {
        for await _ in signals {
            while await writeBatch() {}
            if state.withLock({ $0.isClosing }) { return }
        }
    }

    /// Writes a batch; false when there is nothing more to do now.
    private func writeBatch() async -> Bool {
        let batch = state.withLock { state in state.isComplete ? state.records.nextBatch() : [] }
        guard !batch.isEmpty else { return false }
        do throws(KithError) {
            let answer = try await writer.call(
                "/v3/kv/txn", EtcdWrites.transaction(batch), as: EtcdMessages.TransactionAnswer.self)
            guard let outcomes = EtcdWrites.outcomes(of: batch, answer) else {
                throw KithError(.corrupt, "etcd at \(writer.endpoint) answered another question.")
            }
            writer.succeeded()
            let results = zip(batch, outcomes).map { write, outcome in
                var content: EtcdRecords.Content?
                if case .changed(let row?) = outcome { content = self.content(of: row, write.device) }
                return (write: write, outcome: outcome, content: content)
            }
            let now = clock()
            resolve(state.withLock { $0.records.ended(results, at: now) })
            note(writing: nil)
            return true
        } catch {
            state.withLock { $0.records.failed() }
            let pause = writer.failed()
            if writer.haveAllFailed { note(writing: error) }
            guard !state.withLock({ $0.isClosing }) else { return false }
            if pause > .zero {
                try? await ticker.sleep(until: ticker.now + pause, tolerance: nil)  // ends early only when cancelled
            }
            return true
        }
    }

    private func resolve(_ resolutions: [EtcdRecords.Resolution]) {
        var answers: [(EventLoopPromise<StorageOutcome>, StorageOutcome)] = []
        state.withLock { state in
            for resolution in resolutions {
                let (record, isWritten) =
                    switch resolution {
                    case .written(let record): (record, true)
                    case .older(let record): (record, false)
                    }
                guard let items = state.waiting.removeValue(forKey: record.device) else { continue }
                let left = items.filter { $0.record.replaces(record) }
                if !left.isEmpty { state.waiting[record.device] = left }
                for item in items where !item.record.replaces(record) {
                    answers.append((item.promise, isWritten || item.record.body == record.body ? .stored : .older))
                }
            }
        }
        for (promise, outcome) in answers { promise.succeed(outcome) }
    }

    // MARK: - The operator

    private func note(reading error: KithError?) { note { $0.readFailure = error } }

    private func note(writing error: KithError?) { note { $0.writeFailure = error } }

    /// Changes what is known of etcd, and says once that it is away, and once that it is back.
    private func note(_ change: (inout State) -> Void) {
        let (before, after, isComplete, records, waiting) = state.withLock { state in
            let before = state.failure
            change(&state)
            return (
                before, state.failure, state.isComplete, state.records.table.count, state.records.writes.count
            )
        }
        switch (before, after) {
        case (nil, let failure?) where !isComplete:
            logger.warning("The records cannot be read yet; it is tried again and again. \(failure.message)")
        case (nil, let failure?):
            logger.warning(
                "etcd is away: \(records) known records are answered, new ones wait. \(failure.message)")
        case (_?, nil): logger.warning("etcd is back; \(waiting) records are written now.")
        default: break
        }
    }
}
