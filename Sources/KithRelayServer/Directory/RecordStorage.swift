import KithIdentity
import KithReach
import NIOCore

/// The records of a directory, wherever they are kept: they are always answered from memory.
protocol RecordStorage: Sendable {
    /// The number of records.
    var count: Int { get }
    /// The state of it, for who watches the service.
    var health: StorageHealth { get }
    /// False until it is known which records there are.
    var isComplete: Bool { get }
    /// Lines for Prometheus, of this kind of storage; empty for none.
    var metrics: String { get }
    /// The relay that a device is connected to, as JSON for the operator; `nil` when that is not known.
    func place(of device: DeviceID) -> String?
    /// The record of a device.
    func record(of device: DeviceID) -> SignedRecord?
    /// Judges a record that may not have been verified, before that work is done; `nil` when it is to be put.
    func outcome(of record: SignedRecord) -> StorageOutcome?
    /// Keeps a verified record that came from a network; the promise is kept once it is known what became of it.
    func put(_ record: SignedRecord, from network: RecordNetwork, promise: EventLoopPromise<StorageOutcome>)
    /// Takes out what no longer holds.
    func expire()
    /// Keeps what can still be kept, and ends.
    func close() async
}

/// What became of a record.
enum StorageOutcome: Hashable {
    /// It is kept, so that it outlives this process.
    case stored
    /// It was kept already.
    case same
    /// It is answered from now on, and kept once that is possible again.
    case queued
    /// There is a newer one.
    case older
    /// Nothing more can be kept now.
    case full
    /// It was refused where it should be kept.
    case failed
}

/// The state of a storage.
enum StorageHealth: Hashable {
    case good
    /// Records are answered; new ones wait. The reason is for people.
    case degraded(String)
    /// New records are refused, or nothing is known yet.
    case failing(String)
}

extension RecordStorage {
    var isComplete: Bool { true }
    var metrics: String { "" }
    func place(of device: DeviceID) -> String? { nil }
}
