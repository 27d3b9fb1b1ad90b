/// The key of a network: what is encrypted to it, all its members can read.
///
/// Random, unlike those of profiles: it changes when a device leaves, and no older key tells the new one.
public struct NetworkKey: Sendable {
    /// The network's name.
    public let name: KeyLabel
    /// The key.
    public let key: AgreementKey

    /// Makes a network with a new key.
    public init(named name: KeyLabel) { self.init(name, AgreementKey()) }

    /// Takes the key of a network.
    public init(_ name: KeyLabel, _ key: AgreementKey) {
        self.name = name
        self.key = key
    }

    /// The key's identity.
    public var id: KeyID { key.publicKey.id }
}

extension NetworkKey: CustomStringConvertible, CustomDebugStringConvertible {
    /// The text form.
    public var description: String { "the key \(id) of the network \(name)" }
    /// The text form; no secret is in it.
    public var debugDescription: String { description }
}
