import Crypto
public import KithWire

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Secrets in files of one folder, each sealed by a passphrase or by a key of the machine.
///
/// ```
///  byte     what, in NAME.sealed
///  0…7      "kithkey1"
///  8        how the sealing key is made: 1 the machine's key, 2 scrypt (RFC 7914), 3 kept in another store;
///           and 16 more in a folder that has a list of its keys
///  9        log₂ of scrypt's N, or 0
///  10…25    scrypt's salt, or the number of the key in the other store, or zeros; the same in the whole folder
///  26…37    the nonce
///  38…      ChaCha20-Poly1305 of the secret; bytes 0…25 and the secret's name are authenticated with it
/// ```
///
/// With a machine key (`machine.key`, 32 random bytes, made at first use) the seal protects a copy of the folder that
/// leaves that file out; with a key in another store, such as the desktop's keyring, it protects a copy of the whole
/// folder. That store has one key, `seal-` and its number in hexadecimal digits, for each folder. Files are 0600 and
/// are written whole or not at all. A key file others may read is refused.
///
/// The list of the keys, `index.sealed`, is sealed like a secret named `index`, which no other can be named. It has the
/// SHA-256 of every sealed file, and a number that grows with every change. Nothing is read or written while it and the
/// files disagree: an older file, or one that was removed, that is put back is an error, and so is a missing list.
/// An older copy of all files agrees with itself; ``generation()`` tells it from a newer one. A folder of an older Kith
/// gets its list with the first change.
///
/// ``reseal(with:)`` changes what seals the files. That, and every other change, is done from the moment its file
/// `reseal.pending` is there: whoever opens the folder next, after a kill at any moment, first puts the new files in
/// their places.
public struct FileKeyStore: KeyStore {
    /// The key that seals the files.
    @nonexhaustive
    public enum Seal: Sendable {
        /// A key in `machine.key` beside them.
        case machineKey
        /// A passphrase, stretched by scrypt with N = 2^`cost`, r = 8, p = 1: 128 MiB and about half a second at 17.
        case passphrase(SecretBytes, cost: Int = 17)
        /// A key that another store has, made at first use.
        case keyStore(any KeyStore)
    }

    /// The kinds of ``Seal``, as a file's byte 8 has them.
    @nonexhaustive
    public enum SealKind: UInt8, Sendable {
        /// A key in `machine.key` beside it.
        case machineKey = 1
        /// A passphrase.
        case passphrase = 2
        /// A key in another store.
        case keyStore = 3
    }

    static let machineKeyFile = "machine.key"
    static let suffix = ".sealed"
    static let indexName = "index"
    static let indexLimit = 1 << 18
    static let fileLimit = 8_192
    let directory: String
    let seal: Seal
    let stretched = StretchedKeys()

    /// Uses a folder that exists.
    public init(directory: String, seal: Seal) {
        self.directory = directory
        self.seal = seal
    }

    /// Uses a folder that exists, with what seals the key of its device: `passphrase` if it is given, else the desktop's
    /// keyring or, at first, a key of the machine.
    public static func opening(directory: String, passphrase: SecretBytes?) throws(KithError) -> FileKeyStore {
        let seal: Seal =
            if let passphrase {
                .passphrase(passphrase)
            } else if try sealKind(directory: directory) == .keyStore {
                .keyStore(SecretServiceKeyStore())
            } else {
                .machineKey
            }
        return FileKeyStore(directory: directory, seal: seal)
    }

    /// Tells whether a folder holds the key of a device; creates nothing.
    ///
    /// One that may not be looked into is taken to: opening it says why not.
    public static func holdsDeviceKey(directory: String) -> Bool {
        let store = FileKeyStore(directory: directory, seal: .machineKey)
        return SecretFile.exists(store.path("identity")) || store.isPending("identity\(suffix)")
    }

    /// The kind of seal that the key of a folder's device has; `nil` when there is no such key, or it is damaged.
    public static func sealKind(directory: String) throws(KithError) -> SealKind? {
        let store = FileKeyStore(directory: directory, seal: .machineKey)
        return try store.locked { () throws(KithError) in
            try SecretFile.read(store.path("identity"), limit: fileLimit).flatMap(kind(of:))
        }
    }

    /// The secret of that name, or `nil` when there is none.
    public func secret(named name: String) throws(KithError) -> [UInt8]? {
        try checkOwn(name)
        return try locked { () throws(KithError) in
            // What was compared with the list is opened, not what is there a moment later.
            try secret(name, in: presentIndex()?.files)
        }
    }

    /// Stores a secret, in place of one of the same name.
    public func store(_ secret: [UInt8], named name: String) throws(KithError) {
        try checkOwn(name)
        try check(name, secret)
        try locked { () throws(KithError) in
            var folder = try changeableFolder()
            try commit(folder.storing(secret, named: name))
        }
    }

    /// Stores a secret unless there is one of that name.
    public func add(_ secret: [UInt8], named name: String) throws(KithError) -> Bool {
        try checkOwn(name)
        try check(name, secret)
        return try locked { () throws(KithError) in
            guard try SecretFile.read(path(name), limit: Self.fileLimit) == nil else {
                _ = try presentIndex()
                return false
            }
            var folder = try changeableFolder()
            try commit(folder.storing(secret, named: name))
            return true
        }
    }

    /// Forgets a secret; nothing happens when there is none.
    public func removeSecret(named name: String) throws(KithError) {
        try checkOwn(name)
        try locked { () throws(KithError) in
            guard try SecretFile.read(path(name), limit: Self.fileLimit) != nil else {
                _ = try presentIndex()
                return
            }
            var folder = try changeableFolder()
            try commit(folder.removing(name))
        }
    }

    /// The names of all secrets, in order.
    public func secretNames() throws(KithError) -> [String] {
        try locked { () throws(KithError) in
            _ = try presentIndex()
            return try names()
        }
    }

    /// The number of changes to the folder so far; 0 before the first by a Kith that counts them.
    public func generation() throws(KithError) -> UInt64? {
        try locked { () throws(KithError) in try presentIndex()?.index.generation ?? 0 }
    }

    /// The steps of storing a secret, or of removing it when it is `nil`, none of which is done.
    package func steps(storing secret: [UInt8]?, named name: String) throws(KithError) -> [FolderStep] {
        try locked { () throws(KithError) in
            var folder = try changeableFolder()
            let change: Change =
                if let secret { try folder.storing(secret, named: name) } else { try folder.removing(name) }
            let (preparation, completion) = try steps(of: change)
            return preparation + completion
        }
    }

    /// Seals every secret of the folder with `seal` from now on: all of them or, when anything goes wrong, none.
    ///
    /// A key of the machine or of another store is made anew, or removed when it seals nothing any more. What was copied
    /// from the folder before opens as before, unless a key of another store sealed it.
    ///
    /// - Throws: `.denied` when a secret does not open, `.notFound` when there is none.
    public func reseal(with seal: Seal) throws(KithError) {
        try locked { () throws(KithError) in
            let old = try keptNumbers()
            try commit(try change(resealingWith: seal))
            guard case .keyStore(let store) = self.seal else { return }
            // All is sealed anew by now: a store that cannot forget the old keys keeps what opens old copies only.
            for number in old { try? store.removeSecret(named: Self.keptName(number)) }
        }
    }

    /// The new contents of all files, sealed with `seal`.
    func change(resealingWith seal: Seal) throws(KithError) -> Change {
        let present = try presentIndex()
        guard try !names().isEmpty else { throw KithError(.notFound, "There is no key in \(directory).") }
        var change = Change(previous: present?.digest)
        let key: FolderKey
        switch seal {
        case .machineKey: key = Self.makeMachineKey(&change)
        case .passphrase(let passphrase, let cost):
            change.removed = [Self.machineKeyFile]
            key = try StretchedKeys().makeKey(of: passphrase, cost)
        case .keyStore(let store):
            change.removed = [Self.machineKeyFile]
            key = try Self.makeKeptKey(in: store)
        }
        var folder = Folder(index: present?.index ?? Index(), key: key, change: change)
        try sealAll(present?.files, in: &folder)
        return try folder.finished()
    }

    // MARK: - The list of keys

    /// The list of a folder's keys.
    private struct Index: Codable {
        /// The number of changes so far.
        var generation: UInt64 = 0
        /// SHA-256 of each sealed file, by the name of its secret.
        var files: [String: ByteString] = [:]
    }

    /// A folder that is about to change.
    private struct Folder {
        var index: Index
        let key: FolderKey
        var change: Change

        mutating func seal(_ secret: [UInt8], named name: String) throws(KithError) {
            let file = try key.seal(secret, named: name)
            change.files[name + FileKeyStore.suffix] = ByteString(file)
            index.files[name] = FileKeyStore.digest(file)
        }

        mutating func storing(_ secret: [UInt8], named name: String) throws(KithError) -> Change {
            try seal(secret, named: name)
            return try finished()
        }

        mutating func removing(_ name: String) throws(KithError) -> Change {
            index.files[name] = nil
            change.files[name + FileKeyStore.suffix] = nil
            change.removed.append(name + FileKeyStore.suffix)
            return try finished()
        }

        /// The change, with the next list.
        mutating func finished() throws(KithError) -> Change {
            let (generation, isLast) = index.generation.addingReportingOverflow(1)
            guard !isLast else { throw KithError(.exhausted, "The keys cannot be changed any more.") }
            index.generation = generation
            let bytes: [UInt8]
            do {
                bytes = try CBOREncoder().encode(index)
            } catch {
                throw KithError(.internal, "Could not write the list of keys.", cause: error)
            }
            let file = try key.seal(bytes, named: FileKeyStore.indexName)
            guard file.count <= FileKeyStore.indexLimit else {
                throw KithError(.exhausted, "There are too many secrets in one folder.")
            }
            change.files[FileKeyStore.indexName + FileKeyStore.suffix] = ByteString(file)
            return change
        }
    }

    static func digest(_ bytes: [UInt8]) -> ByteString { ByteString(Array(SHA256.hash(data: bytes))) }

    /// A list of keys, and the files that agree with it.
    private struct Present {
        var index: Index
        let key: FolderKey
        /// SHA-256 of the list's file.
        let digest: ByteString
        /// The sealed files, by the names of their secrets.
        var files: [String: [UInt8]] = [:]
    }

    /// The list of keys, once all files agree with it; `nil` where there is none yet.
    private func presentIndex() throws(KithError) -> Present? {
        guard let file = try SecretFile.read(path(Self.indexName), limit: Self.indexLimit) else {
            for name in try names() {
                let file = try SecretFile.read(path(name), limit: Self.fileLimit)
                guard file.map(Self.isListed) != true else {
                    throw disagreement("\(path(Self.indexName)) is missing beside \(path(name))")
                }
            }
            return nil
        }
        guard Self.isListed(file) else { throw damage(Self.indexName) }
        let (bytes, key) = try unseal(file, Self.indexName)
        let index: Index
        do {
            index = try CBORDecoder().decode(Index.self, from: bytes)
        } catch {
            throw KithError(
                .corrupt, "\(path(Self.indexName)) is damaged, or of a later version of Kith.", cause: error)
        }
        var present = Present(index: index, key: key, digest: Self.digest(file))
        for name in Set(index.files.keys).union(try names()).sorted() {
            let file = try SecretFile.read(path(name), limit: Self.fileLimit)
            switch (file, index.files[name]) {
            case (nil, nil): break
            case (nil, _): throw disagreement("\(path(name)) is missing")
            case (_, nil): throw disagreement("\(path(name)) was removed, or never stored here, and is there")
            case (let file?, let digest?):
                guard Self.digest(file) == digest else {
                    throw disagreement("\(path(name)) is damaged, or of another time than the list of keys beside it")
                }
                present.files[name] = file
            }
        }
        return present
    }

    private func disagreement(_ what: String) -> KithError {
        KithError(
            .corrupt,
            "\(what). Restore the newest copy of the key files (*\(Self.suffix) and \(Self.machineKeyFile)) in "
                + "\(directory), all of them together.")
    }

    private func damage(_ name: String) -> KithError {
        KithError(.corrupt, "\(path(name)) is damaged: it does not hold a sealed key. Restore it from a backup.")
    }

    /// The folder as its list of keys says; where there is none yet, or scrypt was to cost less, all is sealed anew.
    private func changeableFolder() throws(KithError) -> Folder {
        if case .passphrase(_, let cost) = seal { try Self.checkCost(cost) }
        let present = try presentIndex()
        var change = Change(previous: present?.digest)
        if let present {
            guard case .passphrase(let passphrase, let cost) = seal, cost > present.key.cost else {
                return Folder(index: present.index, key: present.key, change: change)
            }
            var folder = Folder(
                index: present.index, key: try stretched.makeKey(of: passphrase, cost), change: change)
            try sealAll(present.files, in: &folder)
            return folder
        }
        // Only what opens is put on the list; a wrong passphrase would keep the right one out.
        for name in try names() { _ = try open(name) }
        let key: FolderKey =
            switch seal {
            case .machineKey: try machineKey() ?? Self.makeMachineKey(&change)
            case .passphrase(let passphrase, let cost): try stretched.makeKey(of: passphrase, cost)
            case .keyStore(let store): try keptKey(in: store)
            }
        var folder = Folder(index: Index(), key: key, change: change)
        try sealAll(nil, in: &folder)
        return folder
    }

    /// Seals all secrets with the folder's next key: those in `files`, or where there is no list those in the folder.
    private func sealAll(_ files: [String: [UInt8]]?, in folder: inout Folder) throws(KithError) {
        let names = if let files { files.keys.sorted() } else { try names() }
        for name in names {
            guard var secret = try secret(name, in: files) else { continue }
            defer { secret.clear() }
            try folder.seal(secret, named: name)
        }
    }

    /// The secret in one of the `files` that agree with the list, or where there is no list in the folder.
    private func secret(_ name: String, in files: [String: [UInt8]]?) throws(KithError) -> [UInt8]? {
        guard let files else { return try open(name)?.secret }
        guard let file = files[name] else { return nil }
        return try unseal(file, name).secret
    }

    // MARK: - Files

    func path(_ name: String) -> String { "\(directory)/\(name)\(Self.suffix)" }

    /// The names of all secrets in the folder, in order; none when it is not there.
    func names() throws(KithError) -> [String] {
        guard SecretFile.exists(directory) else { return [] }
        return try SecretFile.names(in: directory).filter { $0.hasSuffix(Self.suffix) && $0.count > Self.suffix.count }
            .map { String($0.dropLast(Self.suffix.count)) }.filter { $0 != Self.indexName }.sorted()
    }

    private func open(_ name: String) throws(KithError) -> (secret: [UInt8], key: FolderKey)? {
        guard let file = try SecretFile.read(path(name), limit: Self.fileLimit) else { return nil }
        return try unseal(file, name)
    }

    private func unseal(_ file: [UInt8], _ name: String) throws(KithError) -> (secret: [UInt8], key: FolderKey) {
        guard Self.isSealed(file) else { throw damage(name) }
        let key = try openingKey(file, name)
        guard let secret = key.open(file, named: name) else {
            switch seal {
            case .machineKey:
                throw KithError(
                    .corrupt, "\(path(name)) does not open with \(directory)/machine.key: one of them is damaged.")
            case .passphrase:
                throw KithError(.denied, "\(path(name)) does not open with that passphrase.")
            case .keyStore:
                throw KithError(
                    .corrupt, "\(path(name)) does not open with its key in the keyring: one of them is damaged.")
            }
        }
        return (secret, key)
    }

    private func checkOwn(_ name: String) throws(KithError) {
        try check(name)
        guard name != Self.indexName else {
            throw KithError(.invalid, "No secret in files can be named \(name).")
        }
    }

    /// Runs `body` while no other process changes the folder, after what one that was killed has left is done.
    private func locked<Result>(_ body: () throws(KithError) -> Result) throws(KithError) -> Result {
        let descriptor = Self.openFolder(directory)
        // A folder that is not there holds nothing; one that may not be opened says so below.
        guard descriptor >= 0 else { return try body() }
        defer { close(descriptor) }
        while flock(descriptor, LOCK_EX) != 0, errno == EINTR {}
        try finishPending()
        return try body()
    }

    private static func openFolder(_ path: String) -> Int32 {
        #if canImport(Glibc)
        unsafe Glibc.open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        #elseif canImport(Musl)
        unsafe Musl.open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        #else
        unsafe Darwin.open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        #endif
    }
}
