import Crypto
import CryptoExtras
public import KithWire

/// Secrets in files of one folder, each sealed by a passphrase or by a key of the machine.
///
/// ```
///  byte     what
///  0…7      "kithkey1"
///  8        how the sealing key is made: 1 the machine's key, 2 scrypt (RFC 7914)
///  9        log₂ of scrypt's N, or 0
///  10…25    scrypt's salt, or zeros
///  26…37    the nonce
///  38…      ChaCha20-Poly1305 of the secret; bytes 0…25 and the secret's name are authenticated with it
/// ```
///
/// With a machine key (`machine.key`, 32 random bytes, made at first use) the seal protects a copy of the folder that
/// leaves that file out. Files are 0600 and are written whole or not at all. A key file others may read is refused.
public struct FileKeyStore: KeyStore {
    /// What seals the files.
    public enum Seal: Sendable {
        /// A key in `machine.key` beside them.
        case machineKey
        /// A passphrase, stretched by scrypt with N = 2^`cost`, r = 8, p = 1: 128 MiB and about half a second at 17.
        case passphrase(String, cost: Int = 17)
    }

    private static let magic = Array("kithkey1".utf8)
    private let directory: String
    private let seal: Seal

    /// Uses a folder that exists.
    public init(directory: String, seal: Seal) {
        self.directory = directory
        self.seal = seal
    }

    /// Whether a folder holds the key of a device; looks and makes nothing.
    ///
    /// One that may not be looked into is taken to: opening it says why not.
    public static func holdsDeviceKey(directory: String) -> Bool { SecretFile.exists("\(directory)/identity.sealed") }

    /// The secret of that name, or `nil` when there is none.
    public func secret(named name: String) throws(KithError) -> [UInt8]? {
        try check(name)
        guard let file = try SecretFile.read(path(name), limit: 8_192) else { return nil }
        guard file.count >= 54, Array(file.prefix(8)) == Self.magic else {
            throw KithError(.corrupt, "\(path(name)) is damaged: it is no sealed key. Restore it from a backup.")
        }
        let header = Array(file.prefix(26))
        let key = try sealingKey(
            method: header[8], logN: header[9], salt: Array(header[10..<26]), name: name, isNew: false)
        do {
            let box = try ChaChaPoly.SealedBox(combined: file.dropFirst(26))
            return Array(try ChaChaPoly.open(box, using: key, authenticating: header + Array(name.utf8)))
        } catch {
            switch seal {
            case .machineKey:
                throw KithError(
                    .corrupt, "\(path(name)) does not open with \(directory)/machine.key: one of them is damaged.")
            case .passphrase:
                throw KithError(.denied, "\(path(name)) does not open with that passphrase.")
            }
        }
    }

    /// Stores a secret, in place of one of the same name.
    public func store(_ secret: [UInt8], named name: String) throws(KithError) {
        try check(name, secret)
        let method: UInt8
        let logN: UInt8
        switch seal {
        case .machineKey: (method, logN) = (1, 0)
        case .passphrase(_, let cost):
            guard (10...22).contains(cost) else {
                throw KithError(.invalid, "The cost of a passphrase is 10 to 22, not \(cost).")
            }
            (method, logN) = (2, UInt8(cost))
        }
        let salt =
            unsafe method == 2
            ? SymmetricKey(size: .bits128).withUnsafeBytes { unsafe Array($0) } : [UInt8](repeating: 0, count: 16)
        let header = Self.magic + [method, logN] + salt
        let key = try sealingKey(method: method, logN: logN, salt: salt, name: name, isNew: true)
        do {
            let box = try ChaChaPoly.seal(secret, using: key, authenticating: header + Array(name.utf8))
            try SecretFile.write(header + Array(box.combined), to: path(name))
        } catch let error as KithError {
            throw error
        } catch {
            throw KithError(.internal, "Could not seal \(path(name)).", cause: error)
        }
    }

    /// Forgets a secret; nothing happens when there is none.
    public func removeSecret(named name: String) throws(KithError) {
        try check(name)
        try SecretFile.remove(path(name))
    }

    private func path(_ name: String) -> String { "\(directory)/\(name).sealed" }

    private func sealingKey(
        method: UInt8, logN: UInt8, salt: [UInt8], name: String, isNew: Bool
    ) throws(KithError) -> SymmetricKey {
        switch (method, seal) {
        case (1, .machineKey): return try machineKey(makes: isNew)
        case (2, .passphrase(let passphrase, _)):
            // A damaged file must not make us take gigabytes.
            guard (10...22).contains(logN) else {
                throw KithError(.corrupt, "\(path(name)) is damaged. Restore it from a backup.")
            }
            do {
                return try KDF.Scrypt.deriveKey(
                    from: Array(passphrase.utf8), salt: salt, outputByteCount: 32, rounds: 1 << Int(logN), blockSize: 8,
                    parallelism: 1)
            } catch {
                throw KithError(.internal, "Could not stretch the passphrase.", cause: error)
            }
        case (1, .passphrase):
            throw KithError(
                .denied, "\(path(name)) is sealed by the machine's key, not by a passphrase: unset KITH_PASSPHRASE.")
        case (2, .machineKey):
            throw KithError(.denied, "\(path(name)) is sealed by a passphrase: set KITH_PASSPHRASE.")
        default:
            throw KithError(.corrupt, "\(path(name)) is damaged, or of a later version of Kith.")
        }
    }

    /// A file of the folder that is sealed by a machine's key; `nil` when there is none.
    private func sealedByMachineKey() throws(KithError) -> String? {
        for name in try names() {
            let file = try SecretFile.read(path(name), limit: 8_192)
            if let file, file.count > 8, Array(file.prefix(8)) == Self.magic, file[8] == 1 { return path(name) }
        }
        return nil
    }

    /// The names of all secrets in the folder, in order.
    private func names() throws(KithError) -> [String] {
        let suffix = ".sealed"
        return try SecretFile.names(in: directory).filter { $0.hasSuffix(suffix) && $0.count > suffix.count }
            .map { String($0.dropLast(suffix.count)) }.sorted()
    }

    private func machineKey(makes: Bool) throws(KithError) -> SymmetricKey {
        let path = "\(directory)/machine.key"
        if let bytes = try SecretFile.read(path, limit: 64) {
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
        unsafe try SecretFile.write(key.withUnsafeBytes { unsafe Array($0) }, to: path)
        return key
    }
}
