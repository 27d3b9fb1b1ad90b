public import KithIdentity
public import KithWire
import Synchronization

/// A key store that now and then cannot be written.
public final class BreakableKeyStore: KeyStore {
    private let secrets = MemoryKeyStore()
    private let broken = Mutex(false)

    /// Starts empty and whole.
    public init() {}

    /// True while nothing can be written.
    public var isBroken: Bool {
        get { broken.withLock { $0 } }
        set { broken.withLock { $0 = newValue } }
    }

    private func check() throws(KithError) {
        if isBroken { throw KithError(.internal, "The key store cannot be written.") }
    }

    /// A secret, or nil.
    public func secret(named name: String) throws(KithError) -> [UInt8]? { try secrets.secret(named: name) }
    /// The names of all secrets.
    public func secretNames() -> [String] { secrets.secretNames() }
    /// The number of changes.
    public func generation() -> UInt64? { secrets.generation() }
    /// Stores a secret, unless the store is broken.
    public func store(_ secret: [UInt8], named name: String) throws(KithError) {
        try check()
        try secrets.store(secret, named: name)
    }
    /// Adds a secret, unless the store is broken.
    public func add(_ secret: [UInt8], named name: String) throws(KithError) -> Bool {
        try check()
        return try secrets.add(secret, named: name)
    }
    /// Removes a secret, unless the store is broken.
    public func removeSecret(named name: String) throws(KithError) {
        try check()
        try secrets.removeSecret(named: name)
    }
}
