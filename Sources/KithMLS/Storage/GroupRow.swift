/// One row of a stored group: a part that changes on its own.
///
/// A group of thousands is written row by row, so that a message costs a few hundred bytes and a commit O(log members).
public struct GroupRow: Sendable {
    /// The kind of a row.
    ///
    /// Kinds below 64 belong to the group as a whole, the others to one epoch and go with it.
    @nonexhaustive
    public enum Kind: UInt8, Hashable, Sendable, CaseIterable {
        /// The member: its signature key, whether it was removed, the group that follows.
        case member = 1
        /// The current epoch: its context, tag and secrets.
        case state = 2
        /// The member's private keys of the tree.
        case keys = 3
        /// A node of the tree, by its number; holds no secret.
        case node = 4
        /// A proposal of the current epoch, by its place.
        case proposal = 5
        /// The private keys of a leaf that this member proposed for itself.
        case ownLeafKeys = 6
        /// The resumption key of an epoch, by the epoch.
        case resumption = 7
        /// The own commit that awaits its confirmation, with the epoch it begins.
        case pending = 8
        /// The Welcome of that commit.
        case pendingWelcome = 9
        /// The state of the layer above: its position in the delivery service's order.
        case session = 32
        /// A message that is still to be handed to the delivery service, by its number.
        case outbox = 33
        /// An event that the application has not taken yet, by its number.
        case inbox = 34
        /// An epoch that is over: its context and the leaves that have changed since.
        case past = 64
        /// The number of messages of a past epoch that may still come.
        case pastBudget = 65
        /// A secret of a node of the secret tree from which nothing was derived yet, by the node.
        case secretNode = 66
        /// The head of a member's ratchet: twice the leaf, and one more for the application's.
        case ratchet = 67
        /// The key of a message that was passed over: the ratchet's number in the upper half, its generation below.
        case skippedKey = 68
        /// The digest of a message this member sent, by its number.
        case sent = 69

        /// True when rows of this kind hold secrets, whose keys must go when they go.
        public var isSecret: Bool { self != .node }
        /// True when rows of this kind belong to one epoch.
        public var isOfEpoch: Bool { rawValue >= 64 }
    }

    /// The key under which a row is stored.
    public struct Key: Hashable, Sendable {
        /// The kind of row.
        public let kind: Kind
        /// The epoch it belongs to, or zero.
        public let epoch: UInt64
        /// The number within its kind.
        public let number: UInt64

        /// Names a row.
        public init(_ kind: Kind, epoch: UInt64 = 0, number: UInt64 = 0) {
            self.kind = kind
            self.epoch = epoch
            self.number = number
        }
    }

    /// The key of the row.
    public let key: Key
    /// The bytes of the row.
    public let content: StoredBytes

    /// Makes a row.
    public init(_ key: Key, _ content: StoredBytes) {
        self.key = key
        self.content = content
    }
}

/// Bytes on their way to or from storage, which may hold secrets: cleared with the last reference, and never printed.
public final class StoredBytes: Sendable {
    package let secret: Secret

    /// Takes a copy of `bytes`; clearing the argument is up to the caller.
    public init(copying bytes: [UInt8]) { secret = Secret(copying: bytes) }

    init(_ secret: consuming Secret) { self.secret = secret }

    /// The number of bytes.
    public var count: Int { secret.count }

    /// Calls `body` with a copy of the bytes, which is cleared afterwards.
    public func withBytes<Result, Failure: Error>(
        _ body: ([UInt8]) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        var bytes = secret.reveal()
        defer { clear(&bytes) }
        return try body(bytes)
    }
}

extension StoredBytes: CustomStringConvertible, CustomReflectable {
    /// The number of bytes, and nothing about them.
    public var description: String { "\(count) stored bytes" }
    /// Shows nothing.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// The changes of a group, to be written whole or not at all.
public struct GroupChanges: Sendable {
    /// The group's name.
    public let groupID: [UInt8]
    /// The version that is changed, which must be the stored one; nil for a group that must not be there yet.
    public var expectedVersion: UInt64?
    /// True when all rows of the engine are removed first, because the group was joined anew.
    public var replacesState = false
    /// Rows that are new or changed.
    public var rows: [GroupRow] = []
    /// Rows that are no longer needed, whether they are there or not.
    public var removed: [GroupRow.Key] = []
    /// Epochs of which nothing is kept.
    public var removedEpochs: [UInt64] = []
    /// True when the group is deleted, with everything in it; with ``rows``, it begins anew with those.
    public var deletesGroup = false

    /// The version of a new group: not the one that an earlier group of this name had, which another process may remember.
    package var firstVersion = UInt64.random(in: 1..<1 << 48)

    /// Changes nothing yet.
    public init(_ groupID: [UInt8], expectedVersion: UInt64? = nil) {
        self.groupID = groupID
        self.expectedVersion = expectedVersion
    }

    /// True when there is nothing to write.
    public var isEmpty: Bool {
        !replacesState && !deletesGroup && rows.isEmpty && removed.isEmpty && removedEpochs.isEmpty
    }

    /// The version that the stored group has afterwards.
    public var nextVersion: UInt64 { expectedVersion.map { $0 &+ 1 } ?? firstVersion }

    /// The number of bytes of rows written, with 17 for each row's key.
    public var byteCount: Int { rows.reduce(removed.count * 17) { $0 + $1.content.count + 17 } }
}

/// A group as it lies in storage.
public struct StoredGroup: Sendable {
    /// The group's name.
    public let groupID: [UInt8]
    /// The version of its state: every change adds one to what a new group began with.
    public let version: UInt64
    /// Its rows, in any order.
    public let rows: [GroupRow]
    /// True when this is an older state than the storage had, come back with a copy: its keys may have been used, and
    /// all that may be done with it is to join the group anew.
    public let isRolledBack: Bool

    /// Takes what was read.
    public init(groupID: [UInt8], version: UInt64, rows: [GroupRow], isRolledBack: Bool = false) {
        self.isRolledBack = isRolledBack
        self.groupID = groupID
        self.version = version
        self.rows = rows
    }

    /// The rows of a kind, by rising epoch and number.
    public func rows(_ kind: GroupRow.Kind) -> [GroupRow] {
        rows.filter { $0.key.kind == kind }.sorted { ($0.key.epoch, $0.key.number) < ($1.key.epoch, $1.key.number) }
    }
}

// What the engine's rows are made of.

/// Writes one row's bytes, which may hold secrets.
struct RowWriter {
    /// The form that rows are written in; they say it in their first byte.
    static let format: UInt8 = 1

    var bytes: TLSWriter

    init(capacity: Int) {
        bytes = TLSWriter(capacity: capacity)
        bytes.integer(Self.format)
    }

    mutating func secret(_ secret: borrowing Secret) { bytes.secret(secret) }

    /// The finished row.
    consuming func row(_ kind: GroupRow.Kind, epoch: UInt64 = 0, number: UInt64 = 0) -> GroupRow {
        let content = StoredBytes(copying: bytes.bytes)
        bytes.wipe()
        return GroupRow(GroupRow.Key(kind, epoch: epoch, number: number), content)
    }
}

extension GroupRow {
    /// Reads the row to its end, whatever its form.
    func read<Value: ~Copyable>(_ body: (inout TLSReader) throws(MLSError) -> Value) throws(GroupStorageError) -> Value
    {
        var bytes = content.secret.reveal()
        defer { clear(&bytes) }
        guard let format = bytes.first else { throw .corrupt }
        guard format <= RowWriter.format else { throw .laterFormat }
        guard format == RowWriter.format else { throw .corrupt }
        var reader = TLSReader(bytes)
        do {
            _ = try reader.integer(as: UInt8.self)
            let value = try body(&reader)
            try reader.finish()
            return value
        } catch { throw .corrupt }
    }
}

extension TLSWriter {
    /// Writes a secret as `opaque value<V>`.
    mutating func secret(_ secret: borrowing Secret) {
        var bytes = secret.reveal()
        opaque(bytes)
        clear(&bytes)
    }

    package mutating func flag(_ value: Bool) { integer(value ? 1 : 0 as UInt8) }
}

extension TLSReader {
    /// Reads what ``TLSWriter/secret(_:)`` wrote.
    mutating func secret() throws(MLSError) -> Secret {
        var bytes = try opaque()
        defer { clear(&bytes) }
        return Secret(copying: bytes)
    }

    package mutating func flag() throws(MLSError) -> Bool { try isPresent() }
}
