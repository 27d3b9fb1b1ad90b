import Crypto
package import KithIdentity
public import KithWire

/// The secrets of one device beside its own key: its agreement key, the network keys, and the root key where it is held.
///
/// It is kept as one sealed value. Each change has a greater generation, which stands inside the seal, too: a row that
/// says another than its content is refused.
///
/// ```
///  v  1
///  g  the generation
///  a  the device's agreement key, 32 bytes
///  r  the root key, 32 bytes; left out where it is not held
///  n  [{ l: the name of a network, k: its key, 32 bytes }], for each name the newest last
///  s  [{ l: the label of a key, k: the key, 32 bytes }]; left out for none
///  p  [the labels of profiles that were asked for]; left out for none
/// ```
///
/// It is sealed by ChaCha20-Poly1305 under a key that only this device's own key gives, for the label
/// `kith key ring 1`.
public struct KeyRing: Sendable {
    /// The most network keys in one, old ones included.
    public static let networkLimit = 1_000

    /// The agreement key of this device.
    public let agreement: AgreementKey
    /// The person's root key; `nil` where it is not held.
    public private(set) var root: RootKey?
    /// The network keys, for each name the newest last.
    public private(set) var networks: [NetworkKey] = []

    /// The keys for programs, by their labels.
    public private(set) var labelled: [KeyLabel: SecretBytes] = [:]
    /// The profiles that were asked for, in the order of their labels.
    public private(set) var profiles: [KeyLabel] = []

    /// The most labelled keys in one, and the most profiles.
    public static let labelLimit = 1_000

    /// Makes a ring with a new agreement key.
    public init() { agreement = AgreementKey() }

    /// Takes the root key.
    ///
    /// - Throws: `KithError` `.conflict` when another is there.
    public mutating func hold(_ root: RootKey) throws(KithError) {
        guard self.root == nil || self.root?.publicKey == root.publicKey else {
            throw KithError(.conflict, "This device holds a root key already, and another cannot take its place.")
        }
        self.root = root
    }

    /// Adds a network key as the newest of its name; nothing happens when it is there.
    ///
    /// - Throws: `KithError` `.exhausted` when there are ``networkLimit``.
    public mutating func add(_ network: NetworkKey) throws(KithError) {
        guard !networks.contains(where: { $0.id == network.id }) else { return }
        guard networks.count < Self.networkLimit else {
            throw KithError(.exhausted, "There are \(networks.count) network keys on this device already.")
        }
        networks.append(network)
    }

    /// The key with a label, 32 random bytes, which is made if it is not there.
    ///
    /// - Throws: `KithError` `.exhausted` when there are ``labelLimit`` others.
    public mutating func ensure(_ label: KeyLabel) throws(KithError) -> SecretBytes {
        if let key = labelled[label] { return key }
        guard labelled.count < Self.labelLimit else {
            throw KithError(.exhausted, "There are \(labelled.count) labelled keys on this device already.")
        }
        let key = unsafe SymmetricKey(size: .bits256).withUnsafeBytes { bytes in
            unsafe SecretBytes.lasting(count: bytes.count) { unsafe $0.copyMemory(from: bytes) }
        }
        labelled[label] = key
        return key
    }

    /// Notes that a profile was asked for.
    ///
    /// - Throws: `KithError` `.exhausted` when there are ``labelLimit`` others.
    public mutating func note(profile label: KeyLabel) throws(KithError) {
        guard !profiles.contains(label) else { return }
        guard profiles.count < Self.labelLimit else {
            throw KithError(.exhausted, "There are \(profiles.count) profiles on this device already.")
        }
        profiles = (profiles + [label]).sorted()
    }

    /// The newest key of each network, in the order of their names.
    public var currentNetworks: [NetworkKey] {
        Dictionary(networks.map { ($0.name, $0) }) { $1 }.values.sorted { $0.name < $1.name }
    }

    /// Makes a new key for each network; the old ones stay, for what was encrypted to them.
    public mutating func replaceNetworks() throws(KithError) {
        for network in currentNetworks { try add(NetworkKey(named: network.name)) }
    }
}

// MARK: - At rest

extension KeyRing {
    private static let label = "kith key ring 1"

    private struct Form: Decodable {
        struct Key: Decodable {
            var l: KeyLabel
            var k: ByteString
        }
        var v: UInt64
        var g: Int64
        var a: ByteString
        var r: ByteString?
        var n: [Key]
        var s: [Key]?
        var p: [KeyLabel]?

        /// Overwrites the secrets.
        mutating func clear() {
            a.bytes.clear()
            r?.bytes.clear()
            for index in n.indices { n[index].k.bytes.clear() }
            for index in s?.indices ?? 0..<0 { s?[index].k.bytes.clear() }
        }
    }

    /// Seals it for the device whose key is `key`.
    package func sealed(by key: DeviceKey, generation: Int64) throws(KithError) -> [UInt8] {
        let networks = networks.map { (label: $0.name, secret: $0.key.secret) }
        let labelled = labelled.sorted { $0.key < $1.key }.map { (label: $0.key, secret: $0.value) }
        let labels = (networks + labelled).map(\.label) + profiles
        let names = labels.reduce(0) { $0 + $1.text.utf8.count + CBORItems.headSize }
        let count = networks.count + labelled.count + 2
        var items = CBORItems(room: 128 + names + count * (32 + 4 * CBORItems.headSize))
        defer { items.clear() }
        func write(_ keys: [(label: KeyLabel, secret: SecretBytes)]) {
            items.array(keys.count)
            for key in keys {
                items.map(2)
                items.text("k")
                items.secret(key.secret)
                items.text("l")
                items.text(key.label.text)
            }
        }
        items.map(4 + [root != nil, !labelled.isEmpty, !profiles.isEmpty].count { $0 })
        items.text("a")
        items.secret(agreement.secret)
        items.text("g")
        items.integer(generation)
        items.text("n")
        write(networks)
        if !profiles.isEmpty {
            items.text("p")
            items.array(profiles.count)
            for profile in profiles { items.text(profile.text) }
        }
        if let root {
            items.text("r")
            items.secret(root.secret)
        }
        if !labelled.isEmpty {
            items.text("s")
            write(labelled)
        }
        items.text("v")
        items.integer(1)
        return key.seal(items.bytes, Self.label)
    }

    /// Opens one that this device has sealed.
    ///
    /// - Throws: `KithError` `.corrupt` for one that another device sealed, that is damaged, or that is of another
    ///   generation; it stays as it is.
    package init(_ sealed: [UInt8], by key: DeviceKey, generation: Int64) throws(KithError) {
        guard var bytes = key.unseal(sealed, Self.label) else {
            throw Self.damaged("it was sealed by another device's key, or is damaged")
        }
        defer { bytes.clear() }
        guard var form = try? CBORDecoder().decode(Form.self, from: bytes) else { throw Self.damaged(Self.later) }
        defer { form.clear() }
        guard form.v == 1 else { throw Self.damaged(Self.later) }
        guard form.g == generation else { throw Self.damaged("it is an old one in the place of the newest") }
        agreement = try AgreementKey(scalar: form.a.bytes)
        root = try form.r.map { (bytes) throws(KithError) in try RootKey(scalar: bytes.bytes) }
        guard form.s?.count ?? 0 <= Self.labelLimit, form.p?.count ?? 0 <= Self.labelLimit,
            form.s?.allSatisfy({ $0.k.bytes.count == 32 }) ?? true
        else { throw Self.damaged("it is damaged") }
        for key in form.s ?? [] {
            labelled[key.l] = unsafe SecretBytes.lasting(count: 32) { unsafe $0.copyBytes(from: key.k.bytes) }
        }
        profiles = form.p ?? []
        for network in form.n { try add(NetworkKey(network.l, try AgreementKey(scalar: network.k.bytes))) }
    }

    private static let later = "it was written by a later version of Kith, or is damaged"

    private static func damaged(_ why: String) -> KithError {
        KithError(
            .corrupt,
            "This device's key ring cannot be read: \(why). Restore the folder from a backup; it was left as it is.")
    }
}
