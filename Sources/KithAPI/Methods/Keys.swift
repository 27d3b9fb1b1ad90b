public import KithWire

/// The keys of a device, as its service `$keys` keeps them.
///
/// | path | answer |
/// | --- | --- |
/// | `$keys/list` | ``List``: which there are, and no secret |
/// | `$keys/ensure` | ``Secret``: the key with a label, made at its first use |
/// | `$keys/profile` | ``Public``: the key that others encrypt to for a profile of the person; where the root key is |
/// | `$keys/network` | ``Public``: the key of a network, made at its first use; where the root key is |
///
/// Only this device's own person may ask; another device needs a grant that names them, as `node:$keys/list`.
public enum Keys {
    /// The input: a label, 1 to 64 bytes without `:`.
    public struct Label: Codable, Hashable, Sendable {
        /// The label.
        public var label: String

        /// Wraps a label.
        public init(label: String) { self.label = label }
    }

    /// A key that others encrypt to.
    public struct Public: Codable, Hashable, Sendable {
        /// The label of the profile, or the name of the network.
        public var label: String
        /// The identity of the key, 26 letters and digits.
        public var id: String
        /// The key, 65 bytes.
        public var publicKey: ByteString

        /// Describes a key.
        public init(label: String, id: String, publicKey: ByteString) {
            self.label = label
            self.id = id
            self.publicKey = publicKey
        }
    }

    /// A key with a label.
    public struct Secret: Codable, Hashable, Sendable {
        /// The key, 32 bytes.
        public var key: ByteString

        /// Wraps a key.
        public init(key: ByteString) { self.key = key }
    }

    /// The keys of a device.
    public struct List: Codable, Hashable, Sendable {
        /// The identity of the person's root key, where it is held; else `nil`.
        public var root: String?
        /// The identity of this device's own key for what is encrypted to it.
        public var agreement: String
        /// The profiles that were asked for.
        public var profiles: [Public]
        /// The networks whose keys are here, each with its newest.
        public var networks: [Public]
        /// The labels of keys.
        public var labels: [String]

        /// Describes keys.
        public init(root: String?, agreement: String, profiles: [Public], networks: [Public], labels: [String]) {
            self.root = root
            self.agreement = agreement
            self.profiles = profiles
            self.networks = networks
            self.labels = labels
        }
    }
}
