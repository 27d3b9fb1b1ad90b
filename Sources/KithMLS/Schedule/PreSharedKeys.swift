/// The pre-shared keys a client has at hand for one operation.
public struct PreSharedKeys: Sendable {
    private var keys: [PreSharedKeyID.Key: SecretBox] = [:]

    /// Starts with none.
    public init() {}

    /// Adds a key that the application provides, of at least one byte.
    public mutating func add(external id: [UInt8], _ key: consuming Secret) {
        keys[.external(id: id)] = SecretBox(key)
    }

    /// Adds the key that an epoch of a group left behind; one key serves every usage.
    public mutating func add(resumption groupID: [UInt8], epoch: UInt64, _ key: consuming Secret) {
        add(groupID, epoch, SecretBox(key))
    }

    mutating func add(_ groupID: [UInt8], _ epoch: UInt64, _ key: SecretBox) {
        keys[.resumption(.application, groupID: groupID, epoch: epoch)] = key
    }

    func key(_ id: PreSharedKeyID) -> SecretBox? {
        switch id.key {
        case .external: keys[id.key]
        case .resumption(_, let groupID, let epoch):
            keys[.resumption(.application, groupID: groupID, epoch: epoch)]
        }
    }
}

extension CipherSuite {
    /// `psk_secret` (§8.4): all keys in their order, or zeros for none.
    ///
    /// - Throws: ``MLSError/unknownPSK`` for a key that is not at hand, ``MLSError/tooManyPSKs`` above 65,535.
    package func pskSecret(_ ids: [PreSharedKeyID], from keys: PreSharedKeys) throws(MLSError) -> Secret {
        guard ids.count <= UInt16.max else { throw .tooManyPSKs }
        var secret = Secret.zero(secretLength)
        for (index, id) in ids.enumerated() {
            guard let key = keys.key(id) else { throw .unknownPSK }
            var label = TLSWriter(capacity: 128)
            id.encode(into: &label)
            label.integer(UInt16(index))
            label.integer(UInt16(ids.count))
            let extracted = extract(salt: .zero(secretLength), key.secret)
            let input = expand(extracted, label: "derived psk", context: label.bytes, count: secretLength)
            secret = extract(salt: input, secret)
        }
        return secret
    }
}
