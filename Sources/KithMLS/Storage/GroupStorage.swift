/// A store of groups and keys: a few calls, each of which happens whole or not at all.
///
/// Several processes may share one storage. Whoever changes a group names the version it has seen; when another was
/// faster the change is refused with ``GroupStorageError/conflict``, and the loser loads the group again. Calls may touch
/// the disk, and when one returns its change survives the process and the machine.
public protocol GroupStorage: Sendable {
    /// The names of all groups.
    func groups() throws(GroupStorageError) -> [[UInt8]]
    /// A group, or nil when it is not there.
    func load(_ groupID: [UInt8]) throws(GroupStorageError) -> StoredGroup?
    /// The version of a group that is stored, without reading it; nil when there is none.
    func version(of groupID: [UInt8]) throws(GroupStorageError) -> UInt64?
    /// Writes changes of groups and items together.
    ///
    /// - Throws: ``GroupStorageError/conflict`` when a group is at another version than expected, or there where none is
    ///   expected, or an item that is added is there; ``GroupStorageError/itemMissing`` when an item that is taken is not there. Nothing is written then.
    ///   ``GroupStorageError/unsettled(_:)`` when everything is written, and what follows from it must wait.
    func commit(_ changes: StorageChanges) throws(GroupStorageError)
    /// The items of a kind.
    func items(_ kind: StorageItem.Kind) throws(GroupStorageError) -> [StorageItem]
    /// An item, or nil when it is not there.
    func item(_ key: StorageItem.Key) throws(GroupStorageError) -> StorageItem?
    /// Does up to `limit` pieces of work that can wait for a quiet moment; gives how many are left.
    ///
    /// A storage without such work need not have it.
    @discardableResult func maintain(limit: Int) throws(GroupStorageError) -> Int
}

extension GroupStorage {
    /// Nothing is to be done.
    @discardableResult public func maintain(limit: Int) throws(GroupStorageError) -> Int { 0 }
}

/// The reason storage did not do what it was asked.
@nonexhaustive
public enum GroupStorageError: Error, Hashable, Sendable {
    /// The group has changed since it was loaded, or it or an item is there where none should be: load it again.
    case conflict
    /// An item that was to be taken is not there: another took it.
    case itemMissing
    /// The bytes read are damaged, or were changed by somebody else.
    case corrupt
    /// It was written by a later version.
    case laterFormat
    /// The storage is an old copy: its keys were given up since (cryptographic erasure), or may have been used.
    case rolledBack
    /// The change is stored, and must not be made again; but nothing that follows from it may leave before another change,
    /// or ``GroupStorage/maintain(limit:)``, succeeds: a copy of the storage from before could still pass for the newest.
    case unsettled(String)
    /// It cannot be used now: the disk is full, permissions are missing, another program holds it.
    case unavailable(String)
}

/// The changes that are written at once.
public struct StorageChanges: Sendable {
    /// Changes of groups, at most one for each.
    public var groups: [GroupChanges] = []
    /// Items that are new or changed.
    public var items: [StorageItem] = []
    /// Items that are new: none of them may be there.
    public var added: [StorageItem] = []
    /// Items that are used up: each must be there, and goes.
    public var taken: [StorageItem.Key] = []
    /// Items that are no longer needed, whether they are there or not.
    public var removed: [StorageItem.Key] = []

    /// Changes nothing yet.
    public init() {}

    /// One group's changes.
    public init(_ group: GroupChanges) { groups = [group] }

    /// True when there is nothing to write.
    public var isEmpty: Bool {
        groups.allSatisfy(\.isEmpty) && items.isEmpty && added.isEmpty && taken.isEmpty && removed.isEmpty
    }

    /// The number of bytes written, as ``GroupChanges/byteCount`` counts them.
    public var byteCount: Int {
        groups.reduce(0) { $0 + $1.byteCount }
            + (items + added).reduce(0) { $0 + $1.content.count + $1.key.name.count + 1 }
            + (taken + removed).reduce(0) { $0 + $1.name.count + 1 }
    }
}

/// A key that belongs to no group yet, or to many.
public struct StorageItem: Sendable {
    /// The kind of an item.
    @nonexhaustive
    public enum Kind: UInt8, Hashable, Sendable, CaseIterable {
        /// A published key package with its private keys, by its reference; used once.
        case keyPackage = 1
        /// The same, to be used when no other is left, and then again.
        case lastResort = 2
        /// A pre-shared key that the application provides, by its name.
        case psk = 3
        /// A signature key with the cipher suite it is for, by the application's name for it.
        case identity = 4
        /// A record of the layer above, under a name of its own.
        case note = 5
        /// The signature keys of an identity, by the digest of its credential.
        case pin = 6
    }

    /// The key under which an item is stored.
    public struct Key: Hashable, Sendable {
        /// The kind of item.
        public let kind: Kind
        /// The name; not secret.
        public let name: [UInt8]

        /// Names an item.
        public init(_ kind: Kind, _ name: [UInt8]) {
            self.kind = kind
            self.name = name
        }
    }

    /// The key of the item.
    public let key: Key
    /// The bytes of the item.
    public let content: StoredBytes

    /// Makes an item.
    public init(_ key: Key, _ content: StoredBytes) {
        self.key = key
        self.content = content
    }
}

// MARK: - Key packages, pre-shared keys, identities

extension StorageItem {
    /// A key package with its private keys.
    public init(_ bundle: KeyPackageBundle, isLastResort: Bool = false) throws(GroupStorageError) {
        guard let suite = CipherSuites[id: bundle.keyPackage.cipherSuite] else { throw .corrupt }
        self.init(bundle, reference: bundle.keyPackage.reference(suite), isLastResort: isLastResort)
    }

    /// A key package of a suite that the engine need not know.
    public init(_ bundle: KeyPackageBundle, reference: [UInt8], isLastResort: Bool) {
        var writer = RowWriter(capacity: 2_048)
        bundle.keyPackage.encode(into: &writer.bytes)
        writer.secret(bundle.initKey.secret)
        writer.secret(bundle.encryptionKey.secret)
        writer.secret(bundle.signatureKey.secret)
        self.init(Key(isLastResort ? .lastResort : .keyPackage, reference), writer.row(.member).content)
    }

    /// A key that the application provides for proposals of the kind `psk`.
    public init(psk id: [UInt8], _ key: borrowing Secret) {
        var writer = RowWriter(capacity: key.count + 8)
        writer.secret(key)
        self.init(Key(.psk, id), writer.row(.member).content)
    }

    /// A signature key.
    public init(identity name: [UInt8], _ key: SignaturePrivateKey, suite: CipherSuiteID) {
        var writer = RowWriter(capacity: 256)
        suite.encode(into: &writer.bytes)
        writer.secret(key.secret)
        self.init(Key(.identity, name), writer.row(.member).content)
    }

    private var row: GroupRow { GroupRow(GroupRow.Key(.member), content) }

    /// The key package, of a suite that is among those given.
    public func keyPackage(
        _ suites: [any CipherSuite] = CipherSuites.all + CipherSuites.experimental
    ) throws(GroupStorageError) -> KeyPackageBundle {
        try row.read { reader throws(MLSError) in
            let package = try KeyPackage(from: &reader)
            guard let suite = suites.first(where: { $0.id == package.cipherSuite }) else {
                throw .unsupportedCipherSuite
            }
            return try KeyPackageBundle(
                keyPackage: package, initKey: reader.hpkeKey(suite), encryptionKey: reader.hpkeKey(suite),
                signatureKey: reader.signatureKey(suite))
        }
    }

    /// The application's key.
    public func presharedKey() throws(GroupStorageError) -> Secret {
        try row.read { reader throws(MLSError) in try reader.secret() }
    }

    /// The signature key and its suite's number.
    public func identity(
        _ suites: [any CipherSuite] = CipherSuites.all + CipherSuites.experimental
    ) throws(GroupStorageError) -> (suite: CipherSuiteID, key: SignaturePrivateKey) {
        try row.read { reader throws(MLSError) in
            let id = try CipherSuiteID(from: &reader)
            guard let suite = suites.first(where: { $0.id == id }) else { throw .unsupportedCipherSuite }
            return (id, try reader.signatureKey(suite))
        }
    }
}

extension GroupStorage {
    /// All keys that the application has provided.
    public func presharedKeys() throws(GroupStorageError) -> PreSharedKeys {
        var keys = PreSharedKeys()
        for item in try items(.psk) { keys.add(external: item.key.name, try item.presharedKey()) }
        return keys
    }

    /// Changes items only.
    public func put(_ items: [StorageItem], removing removed: [StorageItem.Key] = []) throws(GroupStorageError) {
        var changes = StorageChanges()
        changes.items = items
        changes.removed = removed
        try commit(changes)
    }
}

extension TLSReader {
    mutating func hpkeKey(_ suite: any CipherSuite) throws(MLSError) -> HPKEPrivateKey {
        var bytes = try opaque()
        defer { clear(&bytes) }
        return try suite.importHPKEKey(bytes)
    }

    mutating func signatureKey(_ suite: any CipherSuite) throws(MLSError) -> SignaturePrivateKey {
        var bytes = try opaque()
        defer { clear(&bytes) }
        return try suite.importSignatureKey(bytes)
    }
}
