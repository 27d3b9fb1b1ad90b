package import KithAPI
package import KithIdentity
package import KithTrust

/// The secrets of this device that enrolment needs; they stay where they are.
package protocol TrustKeys: Sendable {
    /// The person's root key; `nil` on a device that does not hold it.
    func root() throws -> RootKey?
    /// Makes a root key here, and a network key if there is none.
    ///
    /// - Throws: `.conflict` when there is one.
    func begin() throws -> RootKey
    /// The agreement key of this device.
    func agreement() throws -> AgreementPublicKey
    /// The ids of the network keys that are here.
    func networks() throws -> [String]
    /// The network keys that are here but those in `known`, each sealed to the agreement key of a device.
    func sealedNetworks(
        for device: DeviceID, to agreement: AgreementPublicKey, except known: Set<String>
    ) throws -> [Trust.SealedNetwork]
    /// Opens network keys that were sealed to this device, and keeps them.
    ///
    /// - Throws: `.corrupt` when one was sealed to another device, or is not the one it says; nothing is kept then.
    func install(_ networks: [Trust.SealedNetwork], on device: DeviceID) throws
    /// Replaces every network key that is here by a new one of the same name, and returns their names.
    func replaceNetworks() throws -> [String]
}
