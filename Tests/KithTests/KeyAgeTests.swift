import Foundation
import Kith
import KithTesting
import KithWire
import Testing

/// A device beside keys of another time.
@Suite struct KeyAgeTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func opened() async throws -> DeviceID {
        var options = Device.Options()
        options.listens = false
        let device = try await Device.open(directory: folder.path, options: options)
        return try await device.whileRunning { device.id }
    }

    private func refusal() async -> KithError? {
        do {
            _ = try await opened()
            return nil
        } catch {
            return error as? KithError
        }
    }

    private func contents() throws -> [String: [UInt8]] {
        Dictionary(uniqueKeysWithValues: try folder.files().map { ($0, try folder.bytes($0)) })
    }

    private func replace(_ isReplaced: (String) -> Bool, by contents: [String: [UInt8]]) throws {
        for name in try folder.files() where isReplaced(name) {
            try FileManager.default.removeItem(atPath: "\(folder.path)/\(name)")
        }
        for (name, bytes) in contents where isReplaced(name) { try folder.write(bytes, to: name) }
    }

    private func isKey(_ name: String) -> Bool { name.hasSuffix(".sealed") || name == "machine.key" }

    @Test func `keys from before its last start are refused, and keys and database of one backup open`() async throws {
        let id = try await opened()
        let backup = try contents()
        #expect(Set(backup.keys).isSuperset(of: ["identity.sealed", "index.sealed", "kith.sqlite", "machine.key"]))
        try FileKeyStore(directory: folder.path, seal: .machineKey).reseal(with: .machineKey)
        #expect(try await opened() == id)
        let newer = try contents()

        try replace(isKey, by: backup)
        for _ in 0..<2 {
            let error = try #require(await refusal())
            #expect(error.code == .corrupt && error.message.contains("older copy"), "\(error)")
        }
        #expect(try contents().filter { isKey($0.key) } == backup.filter { isKey($0.key) })
        // As the message says: the newest keys, or keys and database from one backup.
        try replace(isKey, by: newer)
        #expect(try await opened() == id)
        try replace({ isKey($0) || $0.hasPrefix("kith.sqlite") }, by: backup)
        #expect(try await opened() == id)
        // An older database beside newer keys is as after a kill between the two.
        try replace(isKey, by: newer)
        #expect(try await opened() == id)
    }

    @Test func `a part of the keys that is older, or missing, is refused`() async throws {
        let id = try await opened()
        let backup = try contents()
        try FileKeyStore(directory: folder.path, seal: .machineKey).store([1], named: "other")
        #expect(try await opened() == id)
        let newer = try contents()
        for mixture in [
            newer.merging(["index.sealed": backup["index.sealed"] ?? []]) { $1 },
            newer.filter { $0.key != "index.sealed" }, newer.filter { $0.key != "other.sealed" },
            newer.filter { $0.key != "other.sealed" && $0.key != "index.sealed" },
        ] {
            try replace(isKey, by: mixture)
            let error = try #require(await refusal())
            #expect(error.code == .corrupt && error.message.contains("newest copy"), "\(error)")
            #expect(try contents().filter { isKey($0.key) } == mixture.filter { isKey($0.key) })
        }
        try replace(isKey, by: newer)
        #expect(try await opened() == id)
    }

    @Test func `keys of an older Kith are counted from the first start on`() async throws {
        // As `kith up` of 504d4f3 wrote them.
        let old: [String: [UInt8]] = [
            "identity.sealed": try #require(
                Hex.decode(
                    "6b6974686b65793101000000000000000000000000000000000015954fe6c4e7406693cc156d"
                        + "9dce39f0dfc7f69060bcd811a438daa22ee995412e19ffbc5b3776e3c8bc9df561f9a1703ce7826979b4e89347412e7d"
                )),
            "machine.key": try #require(
                Hex.decode("84ffab8a8bb1d76ced283203aa645b314b57b1e5429aff3b068ad2e07d385222")),
        ]
        // A folder that has a key needs a database.
        try replace({ _ in true }, by: old.merging(["kith.sqlite": []]) { $1 })
        let id = try await opened()
        #expect(id.description == "hhqjn-scuyp-xqsoe-34sph-6mdoe-oxe6d-ekrrm-p6b67-hvnyt-3ak3e-3qbiu")
        #expect(try folder.files().contains("index.sealed"))
        #expect(try await opened() == id)
        try replace(isKey, by: old)
        let error = try #require(await refusal())
        #expect(error.code == .corrupt && error.message.contains("older copy"), "\(error)")
        #expect(try contents().filter { isKey($0.key) } == old)
    }
}
