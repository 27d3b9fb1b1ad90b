import Synchronization

/// Holds every identity to the first signature key that was seen of it, and to those which that key has signed in.
///
/// Nobody vouches for the first key: it is believed because it was there first, and two people who compare their keys
/// another way find out whether it was the right one. From then on an identity has that key in all groups: another one is
/// refused in a key package, an Add, a Welcome and a commit from outside. A member may change its own key by an Update or
/// a commit, which the old key signs; then the new one counts.
///
/// ```swift
/// let pins = PinningAuthenticationService(storage: storage)
/// let configuration = GroupConfiguration(authentication: pins)
/// ```
public final class PinningAuthenticationService: AuthenticationService {
    /// The number of keys that are remembered of one identity, the newest of which counts.
    private static let limit = 8

    /// Where the keys are kept, too; nil when they are gone with the process.
    package let storage: (any GroupStorage)?
    /// The keys of each identity, oldest first; as a copy where there is a storage.
    private let known = Mutex<[Credential: [SignaturePublicKey]]>([:])

    /// Starts with what is in a storage, or with nothing.
    public init(storage: (any GroupStorage)? = nil) { self.storage = storage }

    /// The signature key that an identity must have, or nil when none was seen.
    public func key(of credential: Credential) throws(GroupStorageError) -> SignaturePublicKey? {
        try keys(of: credential, reading: true).last
    }

    /// Takes another key for an identity: after somebody has made sure that it is the right one.
    public func pin(_ key: SignaturePublicKey, to credential: Credential) throws(GroupStorageError) {
        let keys = try keys(of: credential, reading: true)
        try keep([credential: keys.filter { $0 != key } + [key]])
    }

    // MARK: Answers

    /// True for the newest key of an identity, for an earlier one of somebody who is a member already, and for the first.
    public func isValid(_ credential: Credential, signatureKey: SignaturePublicKey, for event: CredentialEvent) -> Bool
    {
        meets(credential) { keys in
            switch event {
            case .joining, .externalSender: keys.contains(signatureKey)
            default: keys.last == signatureKey
            }
        }
    }

    /// True when the old key is the identity's newest, or the new one is.
    public func isValid(
        _ credential: Credential, signatureKey: SignaturePublicKey, replacing old: SignaturePublicKey,
        for event: CredentialEvent
    ) -> Bool {
        meets(credential) { $0.last == old || $0.last == signatureKey }
    }

    /// Pins the first key of an identity, and a new one that the newest has signed.
    public func admit(
        _ credential: Credential, signatureKey: SignaturePublicKey, replacing old: SignaturePublicKey?
    ) -> Bool {
        admit([Admission(credential, signatureKey: signatureKey, replacing: old)])
    }

    /// Pins the keys of all members, or none when one of them is not the first of its identity, and unsigned by it.
    public func admit(_ members: [Admission]) -> Bool {
        var pinned: [Credential: [SignaturePublicKey]] = [:]
        for member in members {
            let key = member.signatureKey
            if pinned[member.credential] == nil, meets(member.credential, isFirst: false, { $0.contains(key) }) {
                continue
            }
            // What cannot be read now must not look like an identity that nobody has seen.
            guard let keys = pinned[member.credential] ?? (try? keys(of: member.credential, reading: true)) else {
                return false
            }
            guard !keys.contains(key) else { continue }
            guard keys.isEmpty || (member.replaced != nil && keys.last == member.replaced) else { return false }
            pinned[member.credential] = keys + [key]
        }
        do { try keep(pinned) } catch { return false }
        return true
    }

    /// True when both are the same.
    public func isSuccessor(_ new: Credential, of old: Credential) -> Bool { new == old }

    /// True when both are the same.
    public func isSameParticipant(_ one: Credential, _ other: Credential) -> Bool { one == other }

    // MARK: Keys

    /// Asks about an identity's keys; again when another process may have changed them.
    private func meets(
        _ credential: Credential, isFirst: Bool = true, _ condition: ([SignaturePublicKey]) -> Bool
    ) -> Bool {
        for reading in [false, true] {
            // What cannot be read now must not look like an identity that nobody has seen.
            guard let keys = try? keys(of: credential, reading: reading) else { return false }
            if keys.isEmpty {
                if reading { return isFirst }
            } else if condition(keys) {
                return true
            }
        }
        return false
    }

    private func keys(of credential: Credential, reading: Bool) throws(GroupStorageError) -> [SignaturePublicKey] {
        let copy = known.withLock { $0[credential] ?? [] }
        guard reading, let storage, let item = try storage.item(Self.name(credential)) else { return copy }
        let keys = try item.pinnedKeys()
        known.withLock { $0[credential] = keys }
        return keys
    }

    private func keep(_ all: [Credential: [SignaturePublicKey]]) throws(GroupStorageError) {
        guard !all.isEmpty else { return }
        let all = all.mapValues { Array($0.suffix(Self.limit)) }
        do throws(GroupStorageError) {
            try storage?.put(all.map { StorageItem(pinned: $0.value, Self.name($0.key)) })
        } catch {
            // It is stored; the group's own change waits for the rest.
            guard case .unsettled = error else { throw error }
        }
        known.withLock { $0.merge(all) { $1 } }
    }

    /// A digest: who a client talks to does not stand in the open.
    private static func name(_ credential: Credential) -> StorageItem.Key {
        StorageItem.Key(.pin, CipherSuites.all[0].hash(credential.encoded))
    }
}

extension StorageItem {
    fileprivate init(pinned keys: [SignaturePublicKey], _ key: Key) {
        var writer = RowWriter(capacity: 64 + keys.count * 160)
        writer.bytes.integer(UInt8(keys.count))
        for key in keys { writer.bytes.opaque(key) }
        self.init(key, writer.row(.member).content)
    }

    fileprivate func pinnedKeys() throws(GroupStorageError) -> [SignaturePublicKey] {
        try GroupRow(GroupRow.Key(.member), content).read { reader throws(MLSError) in
            var keys: [SignaturePublicKey] = []
            for _ in 0..<(try reader.integer(as: UInt8.self)) { keys.append(try reader.opaque()) }
            return keys
        }
    }
}
