import Crypto
import CryptoExtras
import Foundation
import KithWire
import Synchronization

// The keys that seal the files of a folder, and where they come from.

extension FileKeyStore {
    /// The first bytes of a sealed key; KithProtection.c knows them, too.
    private static let magic = Array("kithkey1".utf8)
    /// The bit of byte 8 that a file has in a folder with a list of its keys.
    private static let listed: UInt8 = 0x10
    private static let costs = 10...22

    /// A key that seals all files of a folder, and the bytes in them that say which.
    struct FolderKey {
        let kind: SealKind
        /// log₂ of scrypt's N, or 0.
        var cost = 0
        /// The bytes 10 to 25 of each file.
        var number = [UInt8](repeating: 0, count: 16)
        let key: SymmetricKey

        /// The file of a secret.
        func seal(_ secret: [UInt8], named name: String) throws(KithError) -> [UInt8] {
            let header = magic + [kind.rawValue | listed, UInt8(cost)] + number
            do {
                let box = try ChaChaPoly.seal(secret, using: key, authenticating: header + Array(name.utf8))
                return header + Array(box.combined)
            } catch {
                throw KithError(.internal, "Could not seal the secret \(name).", cause: error)
            }
        }

        /// The secret in a file; `nil` when it does not open.
        func open(_ file: [UInt8], named name: String) -> [UInt8]? {
            do {
                let box = try ChaChaPoly.SealedBox(combined: file.dropFirst(26))
                var secret = try ChaChaPoly.open(box, using: key, authenticating: file.prefix(26) + Array(name.utf8))
                defer { secret.resetBytes(in: secret.startIndex..<secret.endIndex) }
                return Array(secret)
            } catch {
                return nil
            }
        }
    }

    static func isSealed(_ file: [UInt8]) -> Bool { file.count >= 54 && Array(file.prefix(8)) == magic }

    /// Tells whether a file was sealed in a folder with a list of its keys.
    static func isListed(_ file: [UInt8]) -> Bool { isSealed(file) && file[8] & listed != 0 }

    static func kind(of file: [UInt8]) -> SealKind? {
        isSealed(file) ? SealKind(rawValue: file[8] & ~listed) : nil
    }

    func openingKey(_ file: [UInt8], _ name: String) throws(KithError) -> FolderKey {
        let number = Array(file[10..<26])
        switch (Self.kind(of: file), seal) {
        case (.machineKey, .machineKey):
            guard let key = try machineKey() else {
                throw KithError(
                    .corrupt,
                    "\(directory)/machine.key is missing, and \(path(name)) cannot be opened without. Restore it from a "
                        + "backup.")
            }
            return key
        case (.passphrase, .passphrase(let passphrase, _)):
            let cost = Int(file[9])
            // A damaged file must not make us take gigabytes.
            guard Self.costs.contains(cost) else {
                throw KithError(.corrupt, "\(path(name)) is damaged. Restore it from a backup.")
            }
            return try stretched.key(of: passphrase, number, cost)
        case (.keyStore, .keyStore(let store)):
            return try Self.keptKey(number, in: store, for: path(name))
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

    // MARK: - Passphrases

    /// The keys made from one passphrase so far: what one operation stretches the next need not.
    final class StretchedKeys: Sendable {
        private let keys = Mutex<[[UInt8]: SymmetricKey]>([:])

        /// The number of keys.
        var count: Int { keys.withLock { $0.count } }

        /// The key from the passphrase with a new salt.
        func makeKey(of passphrase: SecretBytes, _ cost: Int) throws(KithError) -> FolderKey {
            try FileKeyStore.checkCost(cost)
            return try key(of: passphrase, FileKeyStore.randomNumber(), cost)
        }

        func key(of passphrase: SecretBytes, _ salt: [UInt8], _ cost: Int) throws(KithError) -> FolderKey {
            let place = salt + [UInt8(cost)]
            // Others wait: each would take as much memory again.
            let key = try keys.withLock { (keys) throws(KithError) in
                if let key = keys[place] { return key }
                let key = try Self.stretch(passphrase, salt, cost)
                // A folder has one salt; one of an older Kith has one for each file.
                if keys.count >= 8 { keys = [:] }
                keys[place] = key
                return key
            }
            return FolderKey(kind: .passphrase, cost: cost, number: salt, key: key)
        }

        private static func stretch(
            _ passphrase: SecretBytes, _ salt: [UInt8], _ cost: Int
        ) throws(KithError) -> SymmetricKey {
            do {
                return unsafe try passphrase.withUnsafeBytes { bytes in
                    unsafe try KDF.Scrypt.deriveKey(
                        from: bytes, salt: salt, outputByteCount: 32, rounds: 1 << cost, blockSize: 8, parallelism: 1)
                }
            } catch {
                throw KithError(.internal, "Could not stretch the passphrase.", cause: error)
            }
        }
    }

    static func checkCost(_ cost: Int) throws(KithError) {
        guard costs.contains(cost) else {
            throw KithError(.invalid, "The cost of a passphrase is 10 to 22, not \(cost).")
        }
    }

    fileprivate static func randomNumber() -> [UInt8] {
        unsafe SymmetricKey(size: .bits128).withUnsafeBytes { unsafe Array($0) }
    }

    // MARK: - The machine's key

    /// The key of the machine; `nil` when there is none.
    func machineKey() throws(KithError) -> FolderKey? {
        let path = "\(directory)/\(Self.machineKeyFile)"
        guard var bytes = try SecretFile.read(path, limit: 64) else { return nil }
        defer { bytes.clear() }
        guard bytes.count == 32 else { throw KithError(.corrupt, "\(path) is damaged: it should have 32 bytes.") }
        return FolderKey(kind: .machineKey, key: SymmetricKey(data: bytes))
    }

    /// A new key of the machine, as a part of a change.
    static func makeMachineKey(_ change: inout Change) -> FolderKey {
        let key = SymmetricKey(size: .bits256)
        change.files[machineKeyFile] = ByteString(unsafe key.withUnsafeBytes { unsafe Array($0) })
        return FolderKey(kind: .machineKey, key: key)
    }

    // MARK: - Keys in another store

    static func keptName(_ number: [UInt8]) -> String { "seal-\(Hex.encode(number))" }

    /// The numbers of the keys in another store that seal files of the folder.
    func keptNumbers() throws(KithError) -> Set<[UInt8]> {
        var numbers: Set<[UInt8]> = []
        for name in try names() {
            guard let file = try SecretFile.read(path(name), limit: Self.fileLimit), Self.kind(of: file) == .keyStore
            else { continue }
            numbers.insert(Array(file[10..<26]))
        }
        return numbers
    }

    /// The key in another store that seals the files of the folder, made when it seals none.
    func keptKey(in store: any KeyStore) throws(KithError) -> FolderKey {
        guard let number = try keptNumbers().first else { return try Self.makeKeptKey(in: store) }
        return try Self.keptKey(number, in: store, for: directory)
    }

    static func makeKeptKey(in store: any KeyStore) throws(KithError) -> FolderKey {
        let number = randomNumber()
        let key = SymmetricKey(size: .bits256)
        var bytes = unsafe key.withUnsafeBytes { unsafe Array($0) }
        defer { bytes.clear() }
        try store.store(bytes, named: keptName(number))
        return FolderKey(kind: .keyStore, number: number, key: key)
    }

    private static func keptKey(
        _ number: [UInt8], in store: any KeyStore, for what: String
    ) throws(KithError) -> FolderKey {
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
        return FolderKey(kind: .keyStore, number: number, key: SymmetricKey(data: bytes))
    }
}
