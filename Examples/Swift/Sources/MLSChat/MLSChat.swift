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
        // Somebody's proposal waits: the next message commits it first.
        try await annas.proposeUpdate()
        try await ben.synchronise()
        _ = try await bens.send(Array("Hello, Anna.".utf8))
        try await anna.synchronise()
        _ = try await annas.send(Array("Hello, Ben.".utf8))
        try await ben.synchronise()
        for client in [anna, ben] {
            try await show(client)
            await client.close()
        }
    }

    static func client(_ name: String, in folder: String, _ delivery: MemoryDelivery) throws -> GroupClient {
        // Encrypted, with a key of this machine beside it; a KeyStore keeps the key elsewhere.
        let storage = try GroupDatabase.open(directory: "\(folder)/\(name)")
        // Who is who must be vouched for by somebody: X509Member shows how. This believes everybody.
        let options = GroupClient.Options(authentication: TrustingAuthenticationService()) {
            UInt64(Date().timeIntervalSince1970)
        }
        return try GroupClient(name: name, storage: storage, delivery: delivery, options: options)
    }

    /// Shows what has happened in all groups, up to the first message.
    static func show(_ client: GroupClient) async throws {
        for try await happened in client.events {
            guard case .message(let message) = happened.event else { continue }
            let text = String(decoding: message.data, as: UTF8.self)
            return print("\(client.name) reads: \(message.senderName ?? "somebody"): \(text)")
        }
    }
}
