import Foundation
import KithGroups
import KithStore

/// Two members of an end-to-end encrypted group (MLS, RFC 9420), each with a database of its own.
@main struct MLSChat {
    static func main() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "kith-chat-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }

        // What carries the messages; an application's own stores and forwards them, and reads none.
        let delivery = MemoryDelivery()
        let anna = try client("anna", in: folder, delivery)
        let ben = try client("ben", in: folder, delivery)
        for client in [anna, ben] { try await client.replenishKeyPackages() }

        let annas = try await anna.createGroup()
        _ = try await annas.add(["ben"])
        try await ben.synchronise()
        guard let bens = try ben.groups().first else { return print("ben was not invited") }
        _ = try await annas.send(Array("Hello, Ben.".utf8))
        _ = try await bens.send(Array("Hello, Anna.".utf8))
        try await show(annas, to: "anna")
        try await show(bens, to: "ben")
        for client in [anna, ben] { await client.close() }
    }

    static func client(_ name: String, in folder: String, _ delivery: MemoryDelivery) throws -> GroupClient {
        let place = "\(folder)/\(name)"
        try FileManager.default.createDirectory(
            atPath: place, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        let storage = try GroupDatabase.open(directory: place, keys: FileKeyStore(directory: place, seal: .machineKey))
        // Who is who must be vouched for by somebody: X509Member shows how. This believes everybody.
        let options = GroupClient.Options(authentication: TrustingAuthenticationService()) {
            UInt64(Date().timeIntervalSince1970)
        }
        return try GroupClient(name: name, storage: storage, delivery: delivery, options: options)
    }

    static func show(_ group: GroupSession, to name: String) async throws {
        try await group.synchronise()
        for event in try await group.waitingEvents() {
            if case .message(let message) = event.event {
                print("\(name) reads:", String(decoding: message.data, as: UTF8.self))
            }
            try await group.acknowledge(through: event.number)
        }
    }
}
