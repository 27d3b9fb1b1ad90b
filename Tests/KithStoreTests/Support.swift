import Foundation
import KithIdentity
import KithStore
import KithWire
import Logging
import Testing

/// A folder of its own for a test, gone with it.
final class TemporaryFolder: Sendable {
    let path: String

    init() { path = FileManager.default.temporaryDirectory.appending(path: "kith-store-\(UUID().uuidString)").path }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    func bytes(_ name: String) throws -> [UInt8] { Array(try Data(contentsOf: URL(filePath: "\(path)/\(name)"))) }

    func write(_ bytes: some Sequence<UInt8>, to name: String) throws {
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        try Data(bytes).write(to: URL(filePath: "\(path)/\(name)"))
    }

    func mode(of name: String) throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: name.isEmpty ? path : "\(path)/\(name)")
        return try #require(attributes[.posixPermissions] as? Int)
    }

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
