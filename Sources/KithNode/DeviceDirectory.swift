package import KithIdentity
package import KithWire

/// A paired device, as much as the node needs to know.
package struct KnownDevice: Hashable, Sendable {
    /// Its key.
    package var id: DeviceID
    /// The name it goes by here.
    package var name: String
    /// What it may do here.
    package var grants: [Grant]
    /// Where it was reached last, best first.
    package var addresses: [NetworkAddress]

    /// Makes a device.
    package init(id: DeviceID, name: String, grants: [Grant], addresses: [NetworkAddress]) {
        self.id = id
        self.name = name
        self.grants = grants
        self.addresses = addresses
    }
}

/// What the node writes down about the calls of other devices.
///
/// Every refusal, and every action and stream that was allowed; never a query that was, never a call of the owner.
package struct AuditRecord: Hashable, Sendable {
    /// Who called.
    package var device: DeviceID
    /// The name it goes by here; its DeviceID while it is not paired.
    package var name: String
    /// Whether it was paired then; what the others do is counted, not listed.
    package var isPaired: Bool
    /// Where it called from.
    package var address: NetworkAddress?
    /// Which method.
    package var method: String
    /// Whether it was allowed.
    package var isAllowed: Bool
    /// What it held or lacked.
    package var detail: String
}

/// Who this device is paired with, and where the node writes down what they did: the store, or a table in a test.
package protocol DeviceDirectory: Sendable {
    /// The paired device with this key.
    func device(_ id: DeviceID) throws -> KnownDevice?
    /// All paired devices.
    func devices() throws -> [KnownDevice]
    /// Writes an audit record.
    func record(_ record: AuditRecord) throws
    /// Remembers that the device is connected now, and where: at `addresses`, the first of which is in use.
    func seen(_ id: DeviceID, at addresses: [NetworkAddress]) throws
    /// Remembers where the device says that it listens now.
    func told(_ id: DeviceID, _ addresses: [NetworkAddress]) throws
    /// Remembers what the device says that this one may do there; `nil` when it says that they are not paired.
    func standing(_ id: DeviceID, _ grants: [Grant]?) throws
}

extension [KnownDevice] {
    /// Finds the one device a person means: by its name, its DeviceID, or the beginning of either.
    ///
    /// - Throws: `KithError` `.notFound` for none, `.invalid` naming the candidates for several.
    package func resolve(_ text: String) throws(KithError) -> KnownDevice {
        if let exact = first(where: { $0.name == text }) { return exact }
        if let id = DeviceID(text), let exact = first(where: { $0.id == id }) { return exact }
        let key = Self.key(text)
        let candidates =
            key.isEmpty
            ? []
            : filter { Self.key($0.id.description).hasPrefix(key) || $0.name.lowercased().hasPrefix(text.lowercased()) }
        if candidates.count == 1 { return candidates[0] }
        if candidates.isEmpty {
            throw KithError(.notFound, "There is no device named \(text); `kith devices` lists them.")
        }
        let names = candidates.map { "\($0.name) (\($0.id.short))" }.sorted().joined(separator: ", ")
        throw KithError(.invalid, "\(text) could be any of \(names). Say more of its name.")
    }

    /// Hyphens, spaces and case do not matter in a DeviceID.
    private static func key(_ text: String) -> String { text.lowercased().filter { $0 != "-" && $0 != " " } }
}
