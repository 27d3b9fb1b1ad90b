import Crypto
import CryptoExtras
import Foundation
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
///  byte     what
///  0…7      "kithkey1"
///  8        how the sealing key is made: 1 the machine's key, 2 scrypt (RFC 7914), 3 kept in another store
///  9        log₂ of scrypt's N, or 0
///  10…25    scrypt's salt, or the number of the key in the other store, or zeros
///  26…37    the nonce
///  38…      ChaCha20-Poly1305 of the secret; bytes 0…25 and the secret's name are authenticated with it
/// ```
///
/// With a machine key (`machine.key`, 32 random bytes, made at first use) the seal protects a copy of the folder that
/// leaves that file out; with a key in another store, such as the desktop's keyring, it protects a copy of the whole
/// folder. That store has one key, `seal-` and its number in hexadecimal digits, for each folder. Files are 0600 and are written whole or not at all. A key file others may read is refused.
///
/// ``reseal(with:)`` changes what seals them. From the moment its file `reseal.pending` is there it is done: whoever
/// opens the folder next, after a kill at any moment, first puts the new files in their places.
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

    /// The first bytes of a sealed key; KithProtection.c knows them, too.
    private static let magic = Array("kithkey1".utf8)
    private static let fileLimit = 8_192
    private let directory: String
    private let seal: Seal

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
    public static func holdsDeviceKey(directory: String) -> Bool { SecretFile.exists("\(directory)/identity.sealed") }

    /// The kind of seal that the key of a folder's device has; `nil` when there is no such key, or it is damaged.
    public static func sealKind(directory: String) throws(KithError) -> SealKind? {
        let store = FileKeyStore(directory: directory, seal: .machineKey)
        return try store.locked { () throws(KithError) in
            try SecretFile.read(store.path("identity"), limit: fileLimit).flatMap(kind(of:))
        }
    }

    /// The secret of that name, or `nil` when there is none.
    public func secret(named name: String) throws(KithError) -> [UInt8]? {
        try check(name)
        return try locked { () throws(KithError) in try open(name) }
    }

    /// Stores a secret, in place of one of the same name.
    public func store(_ secret: [UInt8], named name: String) throws(KithError) {
        try check(name, secret)
        try locked { () throws(KithError) in
            let key: FolderKey? =
                switch seal {
                case .machineKey: FolderKey(key: try machineKey(makes: true))
                case .keyStore(let store): try keptKey(in: store)
                case .passphrase: nil
                }
            try SecretFile.write(try Self.sealed(secret, named: name, by: seal, key), to: path(name))
        }
    }

    /// Forgets a secret; nothing happens when there is none.
    public func removeSecret(named name: String) throws(KithError) {
        try check(name)
        try locked { () throws(KithError) in try SecretFile.remove(path(name)) }
    }

    /// The names of all secrets, in order.
    public func secretNames() throws(KithError) -> [String] { try locked { () throws(KithError) in try names() } }

    // MARK: - Sealing anew

    /// Seals every secret of the folder with `seal` from now on: all of them or, when anything goes wrong, none.
    ///
    /// A key of the machine or of another store is made anew, or removed when it seals nothing any more. What was copied
    /// from the folder before opens as before, unless a key of another store sealed it.
    ///
    /// - Throws: `.denied` when a secret does not open, `.notFound` when there is none.
    public func reseal(with seal: Seal) throws(KithError) {
        try locked { () throws(KithError) in
            // What a call that was killed before this point has left.
            for name in try SecretFile.names(in: directory) where name.hasPrefix("reseal.pending.") {
                try SecretFile.remove("\(directory)/\(name)")
            }
            let old = try keptNumbers()
            try SecretFile.write(try pending(seal), to: pendingPath)
            try finishResealing()
            guard case .keyStore(let store) = self.seal else { return }
            // All is sealed anew by now: a store that cannot forget the old keys keeps what opens old copies only.
            for number in old { try? store.removeSecret(named: Self.keptName(number)) }
        }
    }

    /// The record that ``reseal(with:)`` writes before it changes any file.
    private struct Pending: Codable {
        /// The new contents by file name.
        var files: [String: ByteString]
        /// Files that go.
        var removed: [String]
    }

    private static let machineKeyFile = "machine.key"
    private static let suffix = ".sealed"
    private static let pendingLimit = 1 << 20

    private var pendingPath: String { "\(directory)/reseal.pending" }

    /// The new contents of all files, sealed with `seal`.
    func pending(_ seal: Seal) throws(KithError) -> [UInt8] {
        let names = try names()
        guard !names.isEmpty else { throw KithError(.notFound, "There is no key in \(directory).") }
        var pending = Pending(files: [:], removed: [])
        var key: FolderKey?
        switch seal {
        case .machineKey:
            let made = SymmetricKey(size: .bits256)
            key = FolderKey(key: made)
            pending.files[Self.machineKeyFile] = ByteString(unsafe made.withUnsafeBytes { unsafe Array($0) })
        case .passphrase: pending.removed = [Self.machineKeyFile]
        case .keyStore(let store):
            pending.removed = [Self.machineKeyFile]
            key = try Self.makeKeptKey(in: store)
        }
        for name in names {
            guard var secret = try open(name) else { continue }
            defer { secret.clear() }
            pending.files[name + Self.suffix] = ByteString(
                try Self.sealed(secret, named: name, by: seal, key))
        }
        do {
            let bytes = try CBOREncoder().encode(pending)
            guard bytes.count <= Self.pendingLimit else {
                throw KithError(.exhausted, "\(directory) holds too many secrets to seal them at once.")
            }
            return bytes
        } catch let error as KithError {
            throw error
        } catch {
            throw KithError(.internal, "Could not write down what is sealed anew.", cause: error)
        }
    }

    /// Puts what an earlier call has written down in place; as often as it takes.
    private func finishResealing() throws(KithError) {
        guard SecretFile.exists(pendingPath), let bytes = try SecretFile.read(pendingPath, limit: Self.pendingLimit)
        else { return }
        let pending: Pending
        do {
            pending = try CBORDecoder().decode(Pending.self, from: bytes)
        } catch {
            throw KithError(.corrupt, "\(pendingPath) is damaged. Restore the folder from a backup.", cause: error)
        }
        for (name, bytes) in pending.files {
            try checkPending(name)
            try SecretFile.write(bytes.bytes, to: "\(directory)/\(name)")
        }
        for name in pending.removed {
            try checkPending(name)
            try SecretFile.remove("\(directory)/\(name)")
        }
        try SecretFile.remove(pendingPath)
    }

    private func checkPending(_ name: String) throws(KithError) {
        if name == Self.machineKeyFile { return }
        guard name.hasSuffix(Self.suffix) else {
            throw KithError(.corrupt, "\(pendingPath) is damaged. Restore the folder from a backup.")
        }
        try check(String(name.dropLast(Self.suffix.count)))
    }

    /// Runs `body` while no other process changes the folder, after what one that was killed has left is done.
    private func locked<Result>(_ body: () throws(KithError) -> Result) throws(KithError) -> Result {
        let descriptor = Self.openFolder(directory)
        // A folder that is not there holds nothing; one that may not be opened says so below.
        guard descriptor >= 0 else { return try body() }
        defer { close(descriptor) }
        while flock(descriptor, LOCK_EX) != 0, errno == EINTR {}
        try finishResealing()
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

    // MARK: - Files

    private func path(_ name: String) -> String { "\(directory)/\(name)\(Self.suffix)" }

    /// The names of all secrets in the folder, in order.
    private func names() throws(KithError) -> [String] {
        try SecretFile.names(in: directory).filter { $0.hasSuffix(Self.suffix) && $0.count > Self.suffix.count }
            .map { String($0.dropLast(Self.suffix.count)) }.sorted()
    }

    private static func kind(of file: [UInt8]) -> SealKind? {
        file.count >= 54 && Array(file.prefix(8)) == magic ? SealKind(rawValue: file[8]) : nil
    }

    private func open(_ name: String) throws(KithError) -> [UInt8]? {
        guard let file = try SecretFile.read(path(name), limit: Self.fileLimit) else { return nil }
        guard file.count >= 54, Array(file.prefix(8)) == Self.magic else {
            throw KithError(
                .corrupt, "\(path(name)) is damaged: it does not hold a sealed key. Restore it from a backup.")
        }
        let header = Array(file.prefix(26))
        let key = try openingKey(file, name)
        do {
            let box = try ChaChaPoly.SealedBox(combined: file.dropFirst(26))
            var secret = try ChaChaPoly.open(box, using: key, authenticating: header + Array(name.utf8))
            defer { secret.resetBytes(in: secret.startIndex..<secret.endIndex) }
            return Array(secret)
        } catch {
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
    }

    /// A key that seals all files of a folder.
    private struct FolderKey {
        /// The bytes 10 to 25 of each file.
        var number = [UInt8](repeating: 0, count: 16)
        let key: SymmetricKey
    }

    private static func sealed(
        _ secret: [UInt8], named name: String, by seal: Seal, _ folderKey: FolderKey?
    ) throws(KithError) -> [UInt8] {
        var salt = folderKey?.number ?? []
        let key: SymmetricKey
        let kind: SealKind
        var logN = 0
        switch seal {
        case .machineKey, .keyStore:
            guard let folderKey else { preconditionFailure("the key is read or made before") }
            key = folderKey.key
            kind = if case .machineKey = seal { .machineKey } else { .keyStore }
        case .passphrase(let passphrase, let cost):
            guard (10...22).contains(cost) else {
                throw KithError(.invalid, "The cost of a passphrase is 10 to 22, not \(cost).")
            }
            salt = unsafe SymmetricKey(size: .bits128).withUnsafeBytes { unsafe Array($0) }
            (kind, logN, key) = (.passphrase, cost, try stretched(passphrase, salt: salt, logN: cost))
        }
        let header = magic + [kind.rawValue, UInt8(logN)] + salt
        do {
            let box = try ChaChaPoly.seal(secret, using: key, authenticating: header + Array(name.utf8))
            return header + Array(box.combined)
        } catch {
            throw KithError(.internal, "Could not seal the secret \(name).", cause: error)
        }
    }

    // MARK: - Keys

    private func openingKey(_ file: [UInt8], _ name: String) throws(KithError) -> SymmetricKey {
        switch (SealKind(rawValue: file[8]), seal) {
        case (.machineKey, .machineKey): return try machineKey(makes: false)
        case (.passphrase, .passphrase(let passphrase, _)):
            // A damaged file must not make us take gigabytes.
            guard (10...22).contains(file[9]) else {
                throw KithError(.corrupt, "\(path(name)) is damaged. Restore it from a backup.")
            }
            return try Self.stretched(passphrase, salt: Array(file[10..<26]), logN: Int(file[9]))
        case (.keyStore, .keyStore(let store)):
            return try Self.keptKey(Array(file[10..<26]), in: store, for: path(name))
        case (.machineKey, .passphrase):
            throw KithError(
                .denied,
                "\(path(name)) is sealed by the machine's key: give no passphrase, or set one with `kith passphrase set`."
            )
        case (.keyStore, _):
            throw KithError(
                .denied, "\(path(name)) is sealed by a key in the desktop's keyring: give no passphrase.")
        case (.machineKey, .keyStore):
            throw KithError(.denied, "\(path(name)) is sealed by the machine's key, not by one in the keyring.")
        case (.passphrase, _):
            throw KithError(
                .denied, "\(path(name)) is sealed by a passphrase: give it, as `kith passphrase --help` says.")
        case (nil, _):
            throw KithError(.corrupt, "\(path(name)) is damaged, or of a later version of Kith.")
        }
    }

    private static func stretched(
        _ passphrase: SecretBytes, salt: [UInt8], logN: Int
    ) throws(KithError) -> SymmetricKey {
        do {
            return unsafe try passphrase.withUnsafeBytes { bytes in
                unsafe try KDF.Scrypt.deriveKey(
                    from: bytes, salt: salt, outputByteCount: 32, rounds: 1 << logN, blockSize: 8, parallelism: 1)
            }
        } catch {
            throw KithError(.internal, "Could not stretch the passphrase.", cause: error)
        }
    }

    /// A file of the folder that is sealed by a machine's key; `nil` when there is none.
    private func sealedByMachineKey() throws(KithError) -> String? {
        for name in try names() {
            let file = try SecretFile.read(path(name), limit: Self.fileLimit)
            if file.flatMap(Self.kind(of:)) == .machineKey { return path(name) }
        }
        return nil
    }

    // MARK: - Keys in another store

    private static func keptName(_ number: [UInt8]) -> String { "seal-\(Hex.encode(number))" }

    /// The numbers of the keys in another store that seal files of the folder.
    private func keptNumbers() throws(KithError) -> Set<[UInt8]> {
        var numbers: Set<[UInt8]> = []
        for name in try names() {
            guard let file = try SecretFile.read(path(name), limit: Self.fileLimit), Self.kind(of: file) == .keyStore
            else { continue }
            numbers.insert(Array(file[10..<26]))
        }
        return numbers
    }

    /// The key in another store that seals the files of the folder, made when it seals none.
    private func keptKey(in store: any KeyStore) throws(KithError) -> FolderKey {
        guard let number = try keptNumbers().first else { return try Self.makeKeptKey(in: store) }
        return FolderKey(number: number, key: try Self.keptKey(number, in: store, for: directory))
    }

    private static func makeKeptKey(in store: any KeyStore) throws(KithError) -> FolderKey {
        let number = unsafe SymmetricKey(size: .bits128).withUnsafeBytes { unsafe Array($0) }
        let key = SymmetricKey(size: .bits256)
        var bytes = unsafe key.withUnsafeBytes { unsafe Array($0) }
        defer { bytes.clear() }
        try store.store(bytes, named: keptName(number))
        return FolderKey(number: number, key: key)
    }

    private static func keptKey(
        _ number: [UInt8], in store: any KeyStore, for what: String
    ) throws(KithError) -> SymmetricKey {
        guard var bytes = try store.secret(named: keptName(number)) else {
            throw KithError(
                .corrupt,
                "The key that opens \(what) is missing in the keyring (\(keptName(number))). Open the keyring that has it, "
                    + "or restore it from a backup.")
        }
        defer { bytes.clear() }
        guard bytes.count == 32 else {
            throw KithError(
                .corrupt, "The key \(keptName(number)) in the keyring is damaged: it should have 32 bytes.")
        }
        return SymmetricKey(data: bytes)
    }

    private func machineKey(makes: Bool) throws(KithError) -> SymmetricKey {
        let path = "\(directory)/\(Self.machineKeyFile)"
        if var bytes = try SecretFile.read(path, limit: 64) {
            defer { bytes.clear() }
            guard bytes.count == 32 else { throw KithError(.corrupt, "\(path) is damaged: it should have 32 bytes.") }
            return SymmetricKey(data: bytes)
        }
        guard makes else {
            throw KithError(
                .corrupt, "\(path) is missing, and what it sealed cannot be opened. Restore it from a backup.")
        }
        // A new key would make what the old one sealed look damaged.
        if let orphan = try sealedByMachineKey() {
            throw KithError(
                .corrupt, "\(path) is missing, and \(orphan) cannot be opened without. Restore it from a backup.")
        }
        let key = SymmetricKey(size: .bits256)
        var bytes = unsafe key.withUnsafeBytes { unsafe Array($0) }
        defer { bytes.clear() }
        try SecretFile.write(bytes, to: path)
        return key
    }
}
