import Foundation
import KithIdentity
import KithStore
import KithTesting
import KithWire
import Logging
import Testing

extension TemporaryFolder {
    func open() throws(KithError) -> Store { try openStore(path) }
}

func openStore(_ directory: String) throws(KithError) -> Store {
    try Store.open(directory: directory, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
}

/// A device that is the same in every run.
func device(_ number: UInt8, name: String = "laptop", grants: [Grant] = [.shell]) throws -> PairedDevice {
    PairedDevice(
        id: try DeviceKey(seed: [UInt8](repeating: number, count: 32)).id, name: name,
        addresses: [try #require(NetworkAddress("192.0.2.\(number):4433"))], relays: ["https://relay.example"],
        grants: grants, pairedAt: 1_000)
}

func invitation(expiresAt: Int64 = 2_000) throws -> Invitation {
    Invitation(
        ticket: Ticket(id: try device(200).id, addresses: []), name: "here", expiresAt: expiresAt)
}
