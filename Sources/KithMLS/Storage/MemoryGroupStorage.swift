import Synchronization

/// Storage that is gone with the process: for tests, and for clients that live as long as one program.
public final class MemoryGroupStorage: GroupStorage {
    private struct Content {
        var groups: [[UInt8]: Stored] = [:]
        var items: [StorageItem.Key: StoredBytes] = [:]
    }

    private struct Stored {
        var version: UInt64
        var rows: [GroupRow.Key: StoredBytes] = [:]
    }

    private let content = Mutex(Content())

    /// Starts empty.
    public init() {}

    /// The names of all groups.
    public func groups() throws(GroupStorageError) -> [[UInt8]] { content.withLock { Array($0.groups.keys) } }

    /// A group, or nil when it is not there.
    public func load(_ groupID: [UInt8]) throws(GroupStorageError) -> StoredGroup? {
        content.withLock { content in
            content.groups[groupID].map { stored in
                StoredGroup(
                    groupID: groupID, version: stored.version, rows: stored.rows.map { GroupRow($0.key, $0.value) })
            }
        }
    }

    /// The version of a group that is stored.
    public func version(of groupID: [UInt8]) throws(GroupStorageError) -> UInt64? {
        content.withLock { $0.groups[groupID]?.version }
    }

    /// The items of a kind.
    public func items(_ kind: StorageItem.Kind) throws(GroupStorageError) -> [StorageItem] {
        content.withLock { content in
            content.items.filter { $0.key.kind == kind }.map { StorageItem($0.key, $0.value) }
        }
    }

    /// An item, or nil when it is not there.
    public func item(_ key: StorageItem.Key) throws(GroupStorageError) -> StorageItem? {
        content.withLock { content in content.items[key].map { StorageItem(key, $0) } }
    }

    /// Writes changes of groups and items together.
    public func commit(_ changes: StorageChanges) throws(GroupStorageError) {
        let failure: GroupStorageError? = content.withLock { content in
            for change in changes.groups where content.groups[change.groupID]?.version != change.expectedVersion {
                return .conflict
            }
            for item in changes.added where content.items[item.key] != nil { return .conflict }
            for key in changes.taken where content.items[key] == nil { return .itemMissing }
            for change in changes.groups { Self.apply(change, to: &content) }
            for key in changes.taken + changes.removed { content.items[key] = nil }
            for item in changes.items + changes.added { content.items[item.key] = item.content }
            return nil
        }
        if let failure { throw failure }
    }

    private static func apply(_ change: GroupChanges, to content: inout Content) {
        if change.deletesGroup {
            content.groups[change.groupID] = nil
            guard !change.rows.isEmpty else { return }
        }
        var stored = content.groups.removeValue(forKey: change.groupID) ?? Stored(version: 0)
        stored.version = change.nextVersion
        if change.replacesState {
            stored.rows = stored.rows.filter { GroupRow.Kind.session.rawValue..<64 ~= $0.key.kind.rawValue }
        }
        if !change.removedEpochs.isEmpty {
            let epochs = Set(change.removedEpochs)
            stored.rows = stored.rows.filter { !($0.key.kind.isOfEpoch && epochs.contains($0.key.epoch)) }
        }
        for key in change.removed { stored.rows[key] = nil }
        for row in change.rows { stored.rows[row.key] = row.content }
        content.groups[change.groupID] = stored
    }
}
