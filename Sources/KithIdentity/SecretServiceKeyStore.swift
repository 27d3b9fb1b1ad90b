import CKithSystem
import Crypto
public import KithWire

/// Secrets in the keyring of a Linux desktop: GNOME Keyring, KWallet, KeePassXC, or what else offers the Secret Service.
///
/// Each is an item of the default keyring with the attributes `xdg:schema` (`kith.Secret`), `service` and `name`. Nothing
/// is ever unlocked, and nobody is prompted: while the keyring is locked every call says so. What an item holds is text:
///
/// ```
///  "kith1:", then in base64
///  byte     what
///  0…7      the first of SHA-256(name, a zero, secret)
///  8…       the secret
/// ```
///
/// So one that a person edited is damage, never another secret. Calls block for as long as the service takes to answer,
/// at most half a minute a question, one after the other. Secrets cross the session's bus unencrypted: every program of
/// this user may ask the service for them anyway. While one writes it owns the name `kith.Secret.Writer` on the bus, so
/// that no other writes.
public struct SecretServiceKeyStore: KeyStore {
    private let service: String
    private let session: SecretSession

    /// The secrets of one `service` in the keyring of a session.
    ///
    /// `bus` is the D-Bus address of the session; `nil` the one in the environment. It connects at the first call, and
    /// again when the connection was lost since the last.
    public init(service: String = "kith", bus: String? = nil) {
        self.init(service: service, in: SecretSession(bus: bus))
    }

    /// The secrets of one service, asked for over a connection that others use, too.
    package init(service: String, in session: SecretSession) {
        self.service = service
        self.session = session
    }

    /// The secret of that name, or `nil` when there is none.
    public func secret(named name: String) throws(KithError) -> [UInt8]? {
        try check(name)
        guard var text = try text(named: name) else { return nil }
        defer { text.clear() }
        guard let secret = Self.decode(text, name) else {
            throw KithError(
                .corrupt,
                "The item “\(Self.label(name))” in the keyring is damaged: somebody else changed it. Restore the keyring "
                    + "from a backup.")
        }
        return secret
    }

    /// Stores a secret, in place of one of the same name.
    public func store(_ secret: [UInt8], named name: String) throws(KithError) {
        try check(name, secret)
        var text = Self.encode(secret, name)
        defer { text.clear() }
        try store(text: text, named: name)
    }

    /// Stores a secret unless there is one of that name.
    public func add(_ secret: [UInt8], named name: String) throws(KithError) -> Bool {
        try check(name, secret)
        // This also finds out whether an old connection still is one: what adds must not be asked for twice.
        guard var present = try self.text(named: name) else {
            var text = Self.encode(secret, name)
            defer { text.clear() }
            return unsafe try ask("store the secret \(name) in", mayRepeat: false) { connection, service, reason in
                unsafe kith_secret_add(
                    connection, service, name, Self.label(name), text, text.count, reason)
            }
        }
        present.clear()
        return false
    }

    /// Forgets a secret; nothing happens when there is none.
    public func removeSecret(named name: String) throws(KithError) {
        try check(name)
        unsafe try ask("remove the secret \(name) from") { connection, service, reason in
            unsafe kith_secret_remove(connection, service, name, reason)
        }
    }

    /// The names of all secrets, in order.
    public func secretNames() throws(KithError) -> [String] {
        var names = [CChar](repeating: 0, count: Self.namesLimit)
        var count = 0
        unsafe try ask("list the secrets of") { connection, service, reason in
            unsafe names.withUnsafeMutableBufferPointer { buffer in
                guard let base = buffer.baseAddress else { return KITH_SECRET_FAILED }
                return unsafe kith_secret_names(connection, service, base, buffer.count, &count, reason)
            }
        }
        return names.prefix(count).split(separator: 0).map {
            String(decoding: $0.map(UInt8.init(bitPattern:)), as: UTF8.self)
        }.sorted()
    }

    /// The keyring does not count: an item that its own program, or another, puts back is taken for what was stored.
    public func generation() -> UInt64? { nil }

    // MARK: - Items

    private static let namesLimit = 1 << 16
    /// More than the largest secret takes.
    private static let textLimit = 8_192

    private static func label(_ name: String) -> String { "Kith: \(name)" }

    /// What the item of a name holds; `nil` when there is none.
    package func text(named name: String) throws(KithError) -> [UInt8]? {
        var text = [UInt8](repeating: 0, count: Self.textLimit)
        var count = 0
        let isThere = unsafe try ask("read the secret \(name) from") { connection, service, reason in
            unsafe text.withUnsafeMutableBufferPointer { buffer in
                guard let base = buffer.baseAddress else { return KITH_SECRET_FAILED }
                return unsafe kith_secret_read(connection, service, name, base, buffer.count, &count, reason)
            }
        }
        guard isThere else { return nil }
        defer { text.clear() }
        return Array(text.prefix(count))
    }

    /// Puts a text into the item of a name.
    package func store(text: [UInt8], named name: String) throws(KithError) {
        unsafe try ask("store the secret \(name) in") { connection, service, reason in
            unsafe kith_secret_write(connection, service, name, Self.label(name), text, text.count, reason)
        }
    }

    private static func checksum(_ secret: [UInt8], _ name: String) -> [UInt8] {
        Array(SHA256.hash(data: Array(name.utf8) + [0] + secret).prefix(8))
    }

    private static let magic = Array("kith1:".utf8)

    private static func encode(_ secret: [UInt8], _ name: String) -> [UInt8] {
        var bytes = checksum(secret, name) + secret
        defer { bytes.clear() }
        return magic + Array(Base64.encode(bytes).utf8)
    }

    private static func decode(_ text: [UInt8], _ name: String) -> [UInt8]? {
        guard text.starts(with: magic),
            var bytes = Base64.decode(String(decoding: text.dropFirst(magic.count), as: UTF8.self))
        else { return nil }
        defer { bytes.clear() }
        let secret = Array(bytes.dropFirst(8))
        return bytes.count >= 8 && Array(bytes.prefix(8)) == checksum(secret, name) ? secret : nil
    }

    // MARK: - The service

    /// Asks the service, and returns false when there is no such item, or one that was not to be there; `what` says what
    /// was attempted.
    @discardableResult
    private func ask(
        _ what: String, mayRepeat: Bool = true,
        _ body: (OpaquePointer, _ service: UnsafePointer<CChar>, UnsafeMutablePointer<CChar>)
            -> kith_secret_outcome
    ) throws(KithError) -> Bool {
        let (outcome, reason) = unsafe session.ask(mayRepeat: mayRepeat) { connection, reason in
            unsafe service.withCString { unsafe body(connection, $0, reason) }
        }
        switch outcome {
        case KITH_SECRET_DONE: return true
        case KITH_SECRET_NONE, KITH_SECRET_EXISTS: return false
        default: throw Self.failure(what, outcome, reason.isEmpty ? "" : " (\(reason))")
        }
    }

    private static func failure(_ what: String, _ outcome: kith_secret_outcome, _ reason: String) -> KithError {
        let (code, why): (KithError.Code, String) =
            switch outcome {
            case KITH_SECRET_UNSUPPORTED:
                (
                    .unsupported,
                    "there is no libsystemd or libelogind here to reach it with. Install one, or seal keys by a passphrase"
                )
            case KITH_SECRET_NO_BUS:
                (
                    .unreachable,
                    "no session bus answers\(reason). Log in to the desktop, or set DBUS_SESSION_BUS_ADDRESS to its own"
                )
            case KITH_SECRET_NO_SERVICE:
                (
                    .unreachable,
                    "no keyring runs in this session\(reason). Start it, such as gnome-keyring-daemon, and try again"
                )
            case KITH_SECRET_NO_KEYRING:
                (.denied, "it has no default keyring, or none that is open. Make or open one, and try again")
            case KITH_SECRET_LOCKED:
                (.denied, "it is locked. Unlock it, by logging in to the desktop or in its own program, and try again")
            case KITH_SECRET_SEVERAL:
                (.conflict, "several items have that name. Remove all but the right one in the keyring's own program")
            case KITH_SECRET_TOO_LARGE: (.corrupt, "there is more in it than was ever stored")
            case KITH_SECRET_TIMED_OUT: (.timedOut, "the keyring does not answer. Try again, or restart it")
            case KITH_SECRET_GONE: (.closed, "the keyring ended before it answered\(reason). Try again")
            default: (.internal, "the keyring refused\(reason)")
            }
        return KithError(code, "Could not \(what) the keyring: \(why).")
    }
}
