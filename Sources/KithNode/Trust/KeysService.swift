import KithAPI
import KithTrust
import KithWire

/// Keeps keys for the programs of this device's person: `$keys`.
package struct KeysService: Service {
    private let ring: DeviceKeyRing

    package let info = ServiceInfo("$keys", "Keeps the keys of this device and its person.")

    /// Serves the keys of a ring.
    package init(_ ring: DeviceKeyRing) { self.ring = ring }

    package var handlers: [Handler] {
        [
            .query("list", "Lists the keys of this device, without any secret.") { _ in try list() },
            .action("ensure", isIdempotent: true, "Returns the key with a label, which is made at its first use.") {
                (input: Keys.Label, _) in
                let label = try KeyLabel(input.label)
                if let key = try ring.ring()?.labelled[label] { return Keys.Secret(key: Self.bytes(key)) }
                return Keys.Secret(key: Self.bytes(try ring.change { ring throws in try ring.ensure(label) }))
            },
            .action("profile", isIdempotent: true, "Returns the key that others encrypt to for a profile.") {
                (input: Keys.Label, _) in
                let label = try KeyLabel(input.label)
                let root = try root()
                try ring.change { ring throws in try ring.note(profile: label) }
                return Self.described(label, try root.profileKey(label).publicKey)
            },
            .action("network", isIdempotent: true, "Returns the key of a network, which is made at its first use.") {
                (input: Keys.Label, _) in
                let name = try KeyLabel(input.label)
                _ = try root()
                if let network = try current(name) { return Self.described(name, network.key.publicKey) }
                let made = try ring.change { ring throws in
                    let network = NetworkKey(named: name)
                    try ring.add(network)
                    return network
                }
                return Self.described(name, made.key.publicKey)
            },
        ]
    }

    private func current(_ name: KeyLabel) throws -> NetworkKey? {
        try ring.ring()?.currentNetworks.first { $0.name == name }
    }

    private func root() throws -> RootKey {
        guard let root = try ring.root() else {
            throw KithError(
                .notFound,
                "This device does not hold the root key. `kith trust` says which does; `kith enrol --begin` makes one."
            )
        }
        return root
    }

    private func list() throws -> Keys.List {
        let agreement = try ring.agreement()
        let ring = try ring.ring() ?? KeyRing()
        return Keys.List(
            root: ring.root?.id.description, agreement: agreement.id.description,
            profiles: try ring.profiles.compactMap { label in
                try ring.root.map { Self.described(label, try $0.profileKey(label).publicKey) }
            },
            networks: ring.currentNetworks.map { Self.described($0.name, $0.key.publicKey) },
            labels: ring.labelled.keys.sorted().map(\.text))
    }

    private static func described(_ label: KeyLabel, _ key: AgreementPublicKey) -> Keys.Public {
        Keys.Public(label: label.text, id: key.id.description, publicKey: ByteString(key.bytes))
    }

    private static func bytes(_ key: SecretBytes) -> ByteString {
        unsafe key.withUnsafeBytes { unsafe ByteString(Array($0)) }
    }
}
