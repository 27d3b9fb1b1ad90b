public import KithMLS
import Synchronization

/// Storage that counts what is written to the one behind it.
public final class CountingGroupStorage: GroupStorage {
    /// The amount that was written.
    public struct Count: Hashable, Sendable {
        /// The number of changes.
        public var changes = 0
        /// The number of rows and items put or removed.
        public var rows = 0
        /// The bytes, as `StorageChanges.byteCount` counts them: contents and keys, before sealing.
        public var bytes = 0

        /// Nothing.
        public init() {}
    }

    private let base: any GroupStorage
    private let count = Mutex(Count())

    /// Counts what goes to `base`.
    public init(_ base: any GroupStorage = MemoryGroupStorage()) { self.base = base }

    /// Returns the amount written since the last call, and starts again.
    public func takeCount() -> Count {
        count.withLock { count in
            defer { count = Count() }
            return count
        }
    }

    /// The names of all groups.
    public func groups() throws(GroupStorageError) -> [[UInt8]] { try base.groups() }
    /// A group, or nil when it is not there.
    public func load(_ groupID: [UInt8]) throws(GroupStorageError) -> StoredGroup? { try base.load(groupID) }
    /// Which state of a group is stored.
    public func version(of groupID: [UInt8]) throws(GroupStorageError) -> UInt64? { try base.version(of: groupID) }
    /// The items of a kind.
    public func items(_ kind: StorageItem.Kind) throws(GroupStorageError) -> [StorageItem] { try base.items(kind) }
    /// An item, or nil when it is not there.
    public func item(_ key: StorageItem.Key) throws(GroupStorageError) -> StorageItem? { try base.item(key) }

    /// Passes maintenance on, uncounted.
    @discardableResult public func maintain(limit: Int) throws(GroupStorageError) -> Int {
        try base.maintain(limit: limit)
    }

    /// Writes changes of groups and items together.
    public func commit(_ changes: StorageChanges) throws(GroupStorageError) {
        try base.commit(changes)
        count.withLock { count in
            count.changes += 1
            count.rows +=
                changes.groups.reduce(0) { $0 + $1.rows.count + $1.removed.count + $1.removedEpochs.count }
                + changes.items.count + changes.added.count + changes.taken.count + changes.removed.count
            count.bytes += changes.byteCount
        }
    }
}
