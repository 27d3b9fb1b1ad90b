import KithAPI
import KithIdentity
import KithNode
import KithStore
import KithTesting
import KithTrust
import KithWire
import Testing

@Suite struct DeviceKeyRingTests {
    private let folder: TemporaryFolder
    private let store: Store
    private let key = DeviceKey()

    init() throws {
        folder = try TemporaryFolder()
        store = try Store.open(directory: folder.path, logger: .quiet)
    }

    private func ring() -> DeviceKeyRing { DeviceKeyRing(store, of: key) }

    @Test func `what is in the ring is there again after a restart`() throws {
        defer { store.close() }
        #expect(try ring().root() == nil && ring().networks().isEmpty)
        #expect(try store.keyRing() == nil)
        let agreement = try ring().agreement()
        let root = try ring().begin()
        #expect(try ring().root()?.publicKey == root.publicKey && ring().agreement() == agreement)
        #expect(throws: KithError(.conflict, "")) { try ring().begin() }
        let old = try ring().networks()
        #expect(try ring().replaceNetworks() == ["default"])
        // The old key stays, for what was encrypted to it; others get the new one.
        #expect(try Set(ring().networks()).isSuperset(of: old) && ring().networks().count == 2)
        let sealed = try ring().sealedNetworks(for: key.id, to: agreement, except: [])
        #expect(sealed.map(\.name) == ["default"] && !old.contains(sealed[0].id))
    }

    @Test func `a labelled key is made once, and profiles are remembered`() throws {
        defer { store.close() }
        func bytes(_ label: String) throws -> [UInt8] {
            let key = try ring().change { ring throws in try ring.ensure(KeyLabel(label)) }
            return unsafe key.withUnsafeBytes { unsafe Array($0) }
        }
        let backup = try bytes("backup")
        #expect(backup.count == 32)
        #expect(try bytes("other") != backup && bytes("backup") == backup)
        try ring().change { ring throws in
            try ring.note(profile: KeyLabel("work"))
            try ring.note(profile: KeyLabel("home"))
            try ring.note(profile: KeyLabel("work"))
        }
        let kept = try #require(try ring().ring())
        #expect(kept.profiles.map(\.text) == ["home", "work"] && kept.labelled.count == 2)
        #expect(throws: KithError(.exhausted, "")) {
            try ring().change { ring throws in
                for number in 0...KeyRing.labelLimit { _ = try ring.ensure(KeyLabel("\(number)")) }
            }
        }
        // All of it or nothing.
        #expect(try ring().ring()?.labelled.count == 2)
    }

    @Test func `a network key opens on the device it was sealed to, under its own name and id`() throws {
        defer { store.close() }
        let other = DeviceKeyRing(try Store.open(directory: folder.path + "/other", logger: .quiet), of: DeviceKey())
        _ = try ring().begin()
        let device = DeviceKey().id
        let sealed = try ring().sealedNetworks(for: device, to: other.agreement(), except: [])
        #expect(throws: KithError(.denied, "")) { try ring().install(sealed, on: device) }
        #expect(throws: KithError(.denied, "")) { try other.install(sealed, on: DeviceKey().id) }
        var renamed = sealed
        renamed[0].name = "work"
        #expect(throws: KithError(.denied, "")) { try other.install(renamed, on: device) }
        renamed = sealed
        renamed[0].id = KeyID(publicKey: [1]).description
        #expect(throws: KithError(.corrupt, "")) { try other.install(renamed, on: device) }
        #expect(try other.networks().isEmpty)
        try other.install(sealed, on: device)
        try other.install(sealed, on: device)
        #expect(try other.networks() == ring().networks())
    }

    @Test func `a ring that is another device's, damaged or old is an error, and is never written over`() throws {
        defer { store.close() }
        _ = try ring().begin()
        let first = try #require(try store.keyRing())
        _ = try ring().replaceNetworks()
        let second = try #require(try store.keyRing())
        func expectRefusal(_ ring: DeviceKeyRing) throws {
            let kept = try store.keyRing()
            #expect(throws: KithError(.corrupt, "")) { try ring.root() }
            #expect(throws: KithError(.corrupt, "")) { try ring.agreement() }
            #expect(throws: KithError(.corrupt, "")) { try ring.begin() }
            #expect(try store.keyRing() == kept)
        }
        try expectRefusal(DeviceKeyRing(store, of: DeviceKey()))
        // The old content in the place of the new.
        try store.setKeyRing(StoredKeyRing(generation: second.generation + 1, sealed: first.sealed))
        try expectRefusal(ring())
        var damaged = second.sealed
        damaged[20] ^= 1
        try store.setKeyRing(StoredKeyRing(generation: second.generation + 2, sealed: damaged))
        try expectRefusal(ring())
        #expect(throws: KithError(.conflict, "")) {
            try store.setKeyRing(StoredKeyRing(generation: second.generation, sealed: second.sealed))
        }
    }
}
