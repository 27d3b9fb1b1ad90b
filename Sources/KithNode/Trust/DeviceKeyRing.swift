package import KithAPI
package import KithIdentity
package import KithStore
package import KithTrust
import KithWire
import Synchronization

/// The key ring of this device, in its store.
///
/// Every change is on the disk before it is used. One that cannot be read is an error each time, and nothing is written
/// over it.
package final class DeviceKeyRing: TrustKeys {
    private let store: Store
    private let key: DeviceKey
    /// Held while the ring is read and written, so that no change is lost.
    private let state = Mutex(())

    /// Opens the ring of the device whose key is `key`; touches no disk yet.
    package init(_ store: Store, of key: DeviceKey) {
        self.store = store
        self.key = key
    }

    /// Reads the ring, whose generation is 0 while there is none.
    private func load() throws(KithError) -> (ring: KeyRing?, generation: Int64) {
        guard let stored = try store.keyRing() else { return (nil, 0) }
        return (try KeyRing(stored.sealed, by: key, generation: stored.generation), stored.generation)
    }

    /// The ring; `nil` while nothing was ever kept in it.
    package func ring() throws -> KeyRing? { try state.withLock { _ throws in try load().ring } }

    /// Changes the ring, which is made when it is not there; returns what `body` returns once it is on the disk.
    package func change<Result>(_ body: (inout KeyRing) throws -> Result) throws -> Result {
        try state.withLock { _ throws in
            let (stored, generation) = try load()
            var ring = stored ?? KeyRing()
            let result = try body(&ring)
            try store.setKeyRing(
                StoredKeyRing(
                    generation: generation + 1, sealed: try ring.sealed(by: key, generation: generation + 1)))
            return result
        }
    }

    package func root() throws -> RootKey? { try ring()?.root }

    package func begin() throws -> RootKey {
        try change { ring in
            guard ring.root == nil else {
                throw KithError(.conflict, "This device holds a root key already: kith trust")
            }
            let root = RootKey()
            try ring.hold(root)
            if ring.networks.isEmpty { try ring.add(NetworkKey(named: KeyLabel("default"))) }
            return root
        }
    }

    package func agreement() throws -> AgreementPublicKey {
        if let ring = try ring() { return ring.agreement.publicKey }
        return try change { $0.agreement.publicKey }
    }

    package func networks() throws -> [String] { try ring()?.networks.map(\.id.description) ?? [] }

    package func sealedNetworks(
        for device: DeviceID, to agreement: AgreementPublicKey, except known: Set<String>
    ) throws -> [Trust.SealedNetwork] {
        try (ring()?.currentNetworks ?? []).filter { !known.contains($0.id.description) }.map { network in
            var scalar = network.key.scalar
            defer { scalar.clear() }
            return Trust.SealedNetwork(
                id: network.id.description, name: network.name.text,
                sealed: ByteString(try agreement.seal(scalar, authenticating: Self.context(device, network.name))))
        }
    }

    package func install(_ networks: [Trust.SealedNetwork], on device: DeviceID) throws {
        guard !networks.isEmpty else { return }
        guard networks.count <= KeyRing.networkLimit else {
            throw KithError(.exhausted, "The other device sent more network keys than there may be.")
        }
        try change { ring in
            for network in networks {
                let name = try KeyLabel(network.name)
                var scalar = try ring.agreement.open(
                    network.sealed.bytes, authenticating: Self.context(device, name))
                defer { scalar.clear() }
                let key = NetworkKey(name, try AgreementKey(scalar: scalar))
                guard key.id.description == network.id else {
                    throw KithError(.corrupt, "The key of the network \(name) is not the one it says.")
                }
                try ring.add(key)
            }
        }
    }

    package func replaceNetworks() throws -> [String] {
        guard let ring = try ring(), !ring.networks.isEmpty else { return [] }
        return try change { ring in
            try ring.replaceNetworks()
            return ring.currentNetworks.map(\.name.text)
        }
    }

    /// What is authenticated with a network key: what it is, for whom, and its name.
    private static func context(_ device: DeviceID, _ name: KeyLabel) -> [UInt8] {
        Array("kith network key 1".utf8) + [0] + device.bytes + Array(name.text.utf8)
    }
}
