import Foundation
import KithIdentity
import KithReach

/// The records that are to be written into etcd: the newest of each device, in the order they came.
///
/// One batch is on its way at a time. Each write of it holds only if the row is still the one that was judged: two front
/// ends never put an older record over a newer one.
struct EtcdWrites {
    /// One row that is to be written, or deleted.
    struct Write: Hashable {
        var device: DeviceID
        /// The record; `nil` deletes the row.
        var record: SignedRecord?
        /// The revision of the row that it takes the place of; 0 for none.
        var revision: Int64
    }

    /// What became of one.
    enum Outcome: Hashable {
        /// It is in etcd, at that revision.
        case written(Int64)
        /// The row had changed; this is what it is now, `nil` when there is none.
        case changed(EtcdMessages.Row?)
    }

    /// The most writes of a transaction: etcd takes 128.
    static let batchLimit = 64

    private let limit: Int
    private var waiting: [DeviceID: SignedRecord?] = [:]
    private var order: [DeviceID] = []
    private var head = 0
    private(set) var batch: [Write] = []

    /// The number that wait, those on their way included.
    var count: Int { waiting.count + batch.count }

    init(limit: Int) { self.limit = limit }

    /// Tells whether something of a device is to be written.
    func contains(_ device: DeviceID) -> Bool { waiting[device] != nil || isOnItsWay(device) }

    /// Tells whether a write of a device is in the batch.
    private func isOnItsWay(_ device: DeviceID) -> Bool { batch.contains { $0.device == device } }

    /// Tells whether ``add(_:of:)`` would take one of a device.
    func hasRoom(for device: DeviceID) -> Bool { waiting[device] != nil || count < limit }

    /// Queues a record in place of what waits of its device; `nil` deletes it.
    ///
    /// False when there is no room.
    mutating func add(_ record: SignedRecord?, of device: DeviceID) -> Bool {
        guard hasRoom(for: device) else { return false }
        if waiting[device] == nil { order.append(device) }
        waiting[device] = .some(record)
        return true
    }

    /// The next batch; empty when nothing waits, or one is on its way.
    mutating func nextBatch(revision: (DeviceID) -> Int64) -> [Write] {
        guard batch.isEmpty else { return [] }
        while batch.count < Self.batchLimit, head < order.count {
            let device = order[head]
            head += 1
            // What was taken out, or came twice.
            guard let record = waiting.removeValue(forKey: device) else { continue }
            batch.append(Write(device: device, record: record, revision: revision(device)))
        }
        if head > 1_024, head * 2 > order.count {
            order.removeFirst(head)
            head = 0
        }
        return batch
    }

    /// Ends the batch.
    mutating func ended() { batch = [] }

    /// Puts the batch back, in front: nobody knows what became of it.
    ///
    /// What came meanwhile is newer.
    mutating func failed() {
        let writes = batch.filter { waiting[$0.device] == nil }
        for write in writes { waiting[write.device] = .some(write.record) }
        order = writes.map(\.device) + order.dropFirst(head)
        head = 0
        batch = []
    }

    // MARK: - The transaction

    /// The request that makes each write for which the row is the one that was judged, and reads the others.
    static func transaction(_ writes: [Write]) -> EtcdMessages.Transaction {
        EtcdMessages.Transaction(
            success: writes.map { write in
                let key = Data(EtcdKey.record(write.device).bytes)
                let put = write.record.map {
                    EtcdMessages.Put(key: key, value: Data($0.device.bytes + $0.body))
                }
                return EtcdMessages.Operation(
                    transaction: EtcdMessages.Transaction(
                        compare: [
                            EtcdMessages.Compare(
                                key: key, target: "MOD", modRevision: EtcdMessages.Number(write.revision))
                        ],
                        success: [
                            EtcdMessages.Operation(put: put, delete: put == nil ? EtcdMessages.Delete(key: key) : nil)
                        ],
                        failure: [EtcdMessages.Operation(range: EtcdMessages.Range(key: key))]))
            })
    }

    /// What became of each write; `nil` for an answer to another question.
    static func outcomes(of writes: [Write], _ answer: EtcdMessages.TransactionAnswer) -> [Outcome]? {
        guard answer.succeeded, answer.steps.count == writes.count, answer.header.revision > 0 else { return nil }
        var outcomes: [Outcome] = []
        for (write, step) in zip(writes, answer.steps) {
            guard let inner = step.transaction else { return nil }
            guard !inner.succeeded else {
                outcomes.append(.written(answer.header.revision))
                continue
            }
            guard inner.steps.count == 1, let page = inner.steps[0].range, page.rows.count <= 1 else { return nil }
            let key = EtcdKey.record(write.device).bytes
            guard page.rows.allSatisfy({ $0.key == key && $0.revision > 0 }) else { return nil }
            outcomes.append(.changed(page.rows.first))
        }
        return outcomes
    }
}
