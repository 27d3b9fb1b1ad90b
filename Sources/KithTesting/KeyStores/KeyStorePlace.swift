public import KithIdentity
import KithWire

/// A place for secrets: a test opens stores of one kind in it as often as it likes, looks at what they wrote, and damages
/// it.
public protocol KeyStorePlace: Sendable {
    /// Opens the store, as a process does that starts.
    func open() throws -> any KeyStore

    /// Opens it with a key that is not the right one; `nil` where there is none.
    func openWithWrongKey() throws -> (any KeyStore)?

    /// Everything that is stored, byte for byte.
    func contents() throws -> [String: [UInt8]]

    /// Puts other bytes in the place of everything that is stored.
    func replaceContents(by contents: [String: [UInt8]]) throws

    /// Contents in which a secret that is stored now must not open: damaged, cut off or rolled back.
    func damagedContents(ofSecretNamed name: String) throws -> [DamagedContents]

    /// True when each part of the contents is of no use among others of another time.
    var noticesMixtures: Bool { get }

    /// Stores a secret, or removes it when it is `nil`; returns everything that a kill in the midst may leave, in order.
    ///
    /// Where nobody can tell, nothing is stored and nothing returned.
    func interruptedContents(storing secret: [UInt8]?, named name: String) throws -> [[String: [UInt8]]]
}

/// Contents of a ``KeyStorePlace`` as they must never be taken.
public struct DamagedContents: Sendable {
    /// The damage, for a person.
    public let damage: String
    /// Everything, byte for byte.
    public let contents: [String: [UInt8]]

    /// Notes a damage.
    public init(_ damage: String, _ contents: [String: [UInt8]]) {
        self.damage = damage
        self.contents = contents
    }
}

/// The place of a ``MemoryKeyStore``, which is the only one who has what it stores.
public struct MemoryKeyStorePlace: KeyStorePlace {
    private let store = MemoryKeyStore()

    /// An empty one.
    public init() {}

    /// The one store.
    public func open() -> any KeyStore { store }
    /// There is no key.
    public func openWithWrongKey() -> (any KeyStore)? { nil }
    /// The secrets.
    public func contents() throws -> [String: [UInt8]] { try store.allSecrets() }
    /// Stores other secrets.
    public func replaceContents(by contents: [String: [UInt8]]) throws { try store.replaceAll(by: contents) }
    /// Nobody else can change it.
    public func damagedContents(ofSecretNamed name: String) -> [DamagedContents] { [] }
    /// Nobody else can change it.
    public var noticesMixtures: Bool { false }
    /// It ends with its process.
    public func interruptedContents(storing secret: [UInt8]?, named name: String) -> [[String: [UInt8]]] { [] }
}

extension KeyStore {
    /// All secrets, by their names.
    func allSecrets() throws -> [String: [UInt8]] {
        var all: [String: [UInt8]] = [:]
        for name in try secretNames() { all[name] = try secret(named: name) }
        return all
    }

    /// Stores other secrets, and no more.
    func replaceAll(by secrets: [String: [UInt8]]) throws {
        for name in try secretNames() where secrets[name] == nil { try removeSecret(named: name) }
        for (name, secret) in secrets { try store(secret, named: name) }
    }
}

/// The folder of a ``FileKeyStore``.
public struct FileKeyStorePlace: KeyStorePlace {
    private let folder: TemporaryFolder
    private let seal: FileKeyStore.Seal
    /// The place of the keys, where another store has them.
    private let keys: (any KeyStorePlace)?

    /// An empty folder.
    public init(_ seal: FileKeyStore.Seal) throws {
        folder = try TemporaryFolder()
        self.seal = seal
        keys = nil
    }

    /// An empty folder, with the keys in another place.
    public init(keysIn keys: any KeyStorePlace) throws {
        folder = try TemporaryFolder()
        seal = .keyStore(try keys.open())
        self.keys = keys
    }

    private func store(_ seal: FileKeyStore.Seal) -> FileKeyStore { FileKeyStore(directory: folder.path, seal: seal) }

    /// Opens the folder.
    public func open() -> any KeyStore { store(seal) }

    /// Opens it with a passphrase that never sealed it, or with a store that has not its keys.
    public func openWithWrongKey() -> (any KeyStore)? {
        store(keys == nil ? .passphrase(Self.wrong, cost: 10) : .keyStore(MemoryKeyStore()))
    }

    /// The prefix of what is in the place of the keys.
    private static let keysPrefix = "keys/"

    /// The files, and the keys in another store.
    public func contents() throws -> [String: [UInt8]] {
        var all = Dictionary(uniqueKeysWithValues: try folder.files().map { ($0, try folder.bytes($0)) })
        for (name, bytes) in try keys?.contents() ?? [:] { all[Self.keysPrefix + name] = bytes }
        return all
    }

    /// Writes the files and the keys.
    public func replaceContents(by contents: [String: [UInt8]]) throws {
        let files = contents.filter { !$0.key.hasPrefix(Self.keysPrefix) }
        for name in try folder.files() where files[name] == nil { try SecretFile.remove("\(folder.path)/\(name)") }
        for (name, bytes) in files { try folder.write(bytes, to: name) }
        let others = contents.filter { $0.key.hasPrefix(Self.keysPrefix) }
        try keys?.replaceContents(
            by: Dictionary(
                uniqueKeysWithValues: others.map { (String($0.key.dropFirst(Self.keysPrefix.count)), $0.value) }))
    }

    /// Every part of the file changed, the file cut off in each, the key gone, and a file of another time.
    public func damagedContents(ofSecretNamed name: String) throws -> [DamagedContents] {
        let now = try contents()
        var all: [DamagedContents] = []
        func add(_ damage: String, _ file: String, _ changed: [UInt8]?) {
            var contents = now
            contents[file] = changed
            all.append(DamagedContents("\(file): \(damage)", contents))
        }
        let file = "\(name).sealed"
        for file in [file, "index.sealed"] {
            guard let bytes = now[file] else { continue }
            for index in [0, 8, 9, 10, 25, 26, 38, bytes.count - 1] {
                var changed = bytes
                changed[index] ^= 0x10
                add("byte \(index)", file, changed)
            }
            for count in [0, 8, 26, 53, bytes.count - 1] {
                add("cut off at \(count)", file, Array(bytes.prefix(count)))
            }
            add("taken away", file, nil)
        }
        // As a Kith that kept no list marked it.
        if var bytes = now[file] {
            bytes[8] &= 0x0F
            all.append(
                DamagedContents(
                    "its mark and the list taken away",
                    now.merging([file: bytes]) { $1 }.filter {
                        $0.key != "index.sealed"
                    }))
        }
        if now["machine.key"] != nil {
            all.append(DamagedContents("no machine's key", now.filter { $0.key != "machine.key" }))
        }
        if keys != nil {
            all.append(DamagedContents("no key in the store", now.filter { !$0.key.hasPrefix(Self.keysPrefix) }))
        }
        // Sealed at another time: what is rolled back, or comes from another copy.
        let another: FileKeyStore.Seal =
            if case .passphrase = seal { .passphrase(Self.wrong, cost: 10) } else { seal }
        try store(seal).reseal(with: another)
        for file in [file, "index.sealed"] { add("of another time", file, try folder.bytes(file)) }
        try replaceContents(by: now)
        return all
    }

    /// The list of keys says what belongs together.
    public var noticesMixtures: Bool { true }

    /// The folder after each step, and with each new file half written.
    public func interruptedContents(storing secret: [UInt8]?, named name: String) throws -> [[String: [UInt8]]] {
        var all = [try contents()]
        for step in try store(seal).steps(storing: secret, named: name) {
            if case .write(let name, let bytes) = step {
                all.append(try contents().merging([name: Array(bytes.prefix(bytes.count / 2))]) { $1 })
            }
            try step.perform(in: folder.path)
            all.append(try contents())
        }
        return all
    }

    private static var wrong: SecretBytes { SecretBytes(Array("wrong".utf8)) }
}

/// A place in which a ``GuardedKeyStore`` guards what is stored, on a device that is unlocked.
public struct GuardedKeyStorePlace: KeyStorePlace {
    private let base: any KeyStorePlace
    private let access: AccessControl

    /// Guards what is in another place.
    public init(_ base: any KeyStorePlace) throws {
        self.base = base
        access = try AccessControl(.whenUnlocked)
    }

    private func guarded(_ store: any KeyStore) -> GuardedKeyStore {
        let device = ScriptedDevice()
        return GuardedKeyStore(store, access: access, device: device, authenticator: device)
    }

    /// Opens the store there, guarded.
    public func open() throws -> any KeyStore { guarded(try base.open()) }
    /// Opens it with another key, guarded.
    public func openWithWrongKey() throws -> (any KeyStore)? { try base.openWithWrongKey().map(guarded) }
    /// What is stored there.
    public func contents() throws -> [String: [UInt8]] { try base.contents() }
    /// Replaces what is stored there.
    public func replaceContents(by contents: [String: [UInt8]]) throws { try base.replaceContents(by: contents) }
    /// As that place does.
    public var noticesMixtures: Bool { base.noticesMixtures }
    /// What a kill may leave in that place.
    public func interruptedContents(storing secret: [UInt8]?, named name: String) throws -> [[String: [UInt8]]] {
        try base.interruptedContents(storing: secret, named: name)
    }
    /// The damages of that place.
    public func damagedContents(ofSecretNamed name: String) throws -> [DamagedContents] {
        try base.damagedContents(ofSecretNamed: name)
    }
}
