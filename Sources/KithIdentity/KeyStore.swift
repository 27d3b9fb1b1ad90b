import Synchronization
public import KithWire

/// The storage of a device's secrets: the platform's key store, a sealed file, or memory.
///
/// A secret has a name of 1 to 64 letters, digits, `-` and `.`, and at most 4,096 bytes. Calls may touch the disk.
public protocol KeyStore: Sendable {
    /// The secret of that name, or `nil` when there is none.
    ///
    /// - Throws: `KithError` `.denied` when it is there and cannot be opened (a wrong passphrase, loose permissions),
    ///   `.corrupt` when its file is damaged, `.unreachable` when the keyring that has it does not run. None is a reason
    ///   to make a new one.
    func secret(named name: String) throws(KithError) -> [UInt8]?

    /// Stores a secret, in place of one of the same name; whole or not at all.
    func store(_ secret: [UInt8], named name: String) throws(KithError)

    /// Stores a secret unless there is one of that name; of several processes that do so at once, one does.
    ///
    /// - Returns: true when there was none and it is stored now; false when there was one, which stays as it is.
    func add(_ secret: [UInt8], named name: String) throws(KithError) -> Bool

    /// Forgets a secret; nothing happens when there is none.
    func removeSecret(named name: String) throws(KithError)

    /// The names of all secrets, in order.
    func secretNames() throws(KithError) -> [String]

    /// The number of changes so far, by which an older copy of the store is told from a newer one; `nil` where nobody
    /// counts them.
    ///
    /// It grows with every change. What a user of the store remembers of it must be kept somewhere else.
    func generation() throws(KithError) -> UInt64?
}

extension KeyStore {
    /// The device's key: the stored one, or a new one that is then stored.
    ///
    /// Processes that call this at once get the same key.
    public func deviceKey(named name: String = "identity") throws(KithError) -> DeviceKey {
        if let key = try storedDeviceKey(named: name) { return key }
        let key = DeviceKey()
        var seed = key.seed
        defer { seed.clear() }
        if try add(seed, named: name) { return key }
        // Another process was faster.
        guard let stored = try storedDeviceKey(named: name) else {
            throw KithError(.conflict, "The device's key was made and removed by another program. Try again.")
        }
        return stored
    }

    /// The device's key; `nil` when none is stored.
    public func storedDeviceKey(named name: String = "identity") throws(KithError) -> DeviceKey? {
        guard var seed = try secret(named: name) else { return nil }
        defer { seed.clear() }
        return try DeviceKey(seed: seed)
    }

    func check(_ name: String, _ secret: [UInt8] = []) throws(KithError) {
        let isPlain = name.utf8.allSatisfy {
            (48...57).contains($0) || (65...90).contains($0) || (97...122).contains($0) || $0 == 45 || $0 == 46
        }
        guard (1...64).contains(name.utf8.count), isPlain, name.utf8.first != 46 else {
            throw KithError(.invalid, "A secret is named by 1 to 64 letters, digits, hyphens and dots.")
        }
        guard secret.count <= 4_096 else {
            throw KithError(.invalid, "A secret has at most 4,096 bytes, not \(secret.count).")
        }
    }
}

/// Secrets in memory, gone with the process: for tests, and for devices that live as long as one program.
public final class MemoryKeyStore: KeyStore {
    private let secrets = Mutex<[String: [UInt8]]>([:])

    /// Makes an empty store.
    public init() {}

    /// The secret of that name, or `nil` when there is none.
    public func secret(named name: String) throws(KithError) -> [UInt8]? {
        try check(name)
        return secrets.withLock { $0[name] }
    }

    /// Stores a secret, in place of one of the same name.
    public func store(_ secret: [UInt8], named name: String) throws(KithError) {
        try check(name, secret)
        secrets.withLock { $0[name] = secret }
    }

    /// Stores a secret unless there is one of that name.
    public func add(_ secret: [UInt8], named name: String) throws(KithError) -> Bool {
        try check(name, secret)
        return secrets.withLock { secrets in
            guard secrets[name] == nil else { return false }
            secrets[name] = secret
            return true
        }
    }

    /// Forgets a secret; nothing happens when there is none.
    public func removeSecret(named name: String) throws(KithError) {
        try check(name)
        _ = secrets.withLock { $0.removeValue(forKey: name) }
    }

    /// The names of all secrets, in order.
    public func secretNames() -> [String] { secrets.withLock { $0.keys.sorted() } }

    /// Nobody can put older secrets into it.
    public func generation() -> UInt64? { nil }
}
