import KithGroups
import KithMLS
import KithTesting
import Synchronization
import Testing

/// Messages that come together, and what they cost the storage.
@Suite struct TogetherTests {
    @Test func `messages that come together are one change of the storage`() async throws {
        let delivery = MemoryDelivery()
        let storage = CountingStorage()
        let sessions = try await party([client("anna", delivery), client("ben", delivery, storage)])
        for number in 0..<10 { try await sessions[0].say("\(number)") }
        _ = try await sessions[0].commit()
        try await sessions[0].proposeUpdate()
        _ = try await sessions[0].commit()
        for number in 10..<20 { try await sessions[0].say("\(number)") }
        let before = storage.count
        let report = try await sessions[1].synchronise()
        #expect(report.received == 23 && report.refused.isEmpty)
        #expect(storage.count == before + 1)
        // A program that is started now has all of it.
        let again = try #require(try client("ben", delivery, storage).group(sessions[1].groupID))
        #expect(try await texts(taken(again)) == (0..<20).map { "\($0)" })
        #expect(try await again.epoch() == 3)
        try await sessions[0].say("more")
        try await again.synchronise()
        #expect(try await texts(taken(again)) == ["more"])
    }

    @Test(arguments: [0, 7, 19])
    func `one among them that is refused is named, and the others are read`(bad: UInt64) async throws {
        let delivery = MemoryDelivery()
        let link = UnreliableDelivery(delivery)
        let sessions = try await party([client("anna", delivery), client("ben", link)])
        let first = try await delivery.messages(of: sessions[0].groupID, from: 0, limit: 1_000).count
        for number in 0..<20 { try await sessions[0].say("\(number)") }
        let all = try await delivery.messages(of: sessions[0].groupID, from: UInt64(first), limit: 100)
        // The one before it comes twice, or the one after it: the second time its key is used up.
        let other = all[bad == 0 ? 1 : Int(bad) - 1].bytes
        let position = UInt64(first) + bad
        link.changes = { $0.position == position ? DeliveredMessage(position: position, bytes: other) : $0 }
        let report = try await sessions[1].synchronise()
        #expect(report.received == 19)
        #expect(report.refused.map(\.position) == [bad == 0 ? position + 1 : position])
        let expected = (0..<20).filter { $0 != bad }.map { "\($0)" }
        #expect(try await texts(taken(sessions[1])) == expected)
        // Nothing of the others' keys is left or lost.
        link.changes = { $0 }
        try await sessions[0].say("more")
        #expect(try await sessions[1].synchronise().refused.isEmpty)
        #expect(try await texts(taken(sessions[1])) == ["more"])
    }
}

/// A storage that counts its changes.
private final class CountingStorage: GroupStorage {
    private let base = MemoryGroupStorage()
    private let changes = Mutex(0)

    var count: Int { changes.withLock { $0 } }

    func groups() throws(GroupStorageError) -> [[UInt8]] { try base.groups() }
    func load(_ groupID: [UInt8]) throws(GroupStorageError) -> StoredGroup? { try base.load(groupID) }
    func version(of groupID: [UInt8]) throws(GroupStorageError) -> UInt64? { try base.version(of: groupID) }
    func commit(_ changes: StorageChanges) throws(GroupStorageError) {
        try base.commit(changes)
        self.changes.withLock { $0 += 1 }
    }
    func items(_ kind: StorageItem.Kind) throws(GroupStorageError) -> [StorageItem] { try base.items(kind) }
    func item(_ key: StorageItem.Key) throws(GroupStorageError) -> StorageItem? { try base.item(key) }
}
