import Foundation
import GRDB
import KithIdentity
import KithMLS
@testable import KithStore
import KithTesting
import KithWire
import Synchronization
import Testing

/// The duties of every storage of groups.
@Suite struct GroupStorageTests {
    enum Implementation: String, CaseIterable { case memory, database }

    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func make(_ implementation: Implementation) throws -> any GroupStorage {
        switch implementation {
        case .memory: MemoryGroupStorage()
        case .database: try GroupDatabase.open(directory: folder.path, keys: MemoryKeyStore())
        }
    }

    @Test(arguments: Implementation.allCases)
    func `rows are put, replaced, removed, and go with their epoch`(implementation: Implementation) throws {
        let storage = try make(implementation)
        #expect(try storage.load([1])?.version == nil)
        var changes = GroupChanges([1])
        changes.rows = [
            row(.state, "state"), row(.node, number: .max, "node"), row(.ratchet, epoch: 7, number: 1, "a"),
            row(.ratchet, epoch: 8, number: 1, "b"), row(.past, epoch: .max, "last"), row(.inbox, number: 7, "in"),
        ]
        try storage.commit(StorageChanges(changes))
        let first = changes.nextVersion
        changes = GroupChanges([1], expectedVersion: first)
        changes.rows = [row(.state, "other")]
        changes.removed = [GroupRow.Key(.node, number: .max), GroupRow.Key(.node, number: 5)]
        // An epoch's number is no group's row's number.
        changes.removedEpochs = [7, 0]
        try storage.commit(StorageChanges(changes))
        #expect(
            try texts(storage, [1]) == [
                "state 0 0 other", "inbox 0 7 in", "past \(UInt64.max) 0 last", "ratchet 8 1 b",
            ])
        #expect(try storage.version(of: [1]) == first + 1)
        // The engine's rows are replaced, those of the layer above stay.
        changes = GroupChanges([1], expectedVersion: first + 1)
        changes.replacesState = true
        changes.rows = [row(.member, "new")]
        try storage.commit(StorageChanges(changes))
        #expect(try texts(storage, [1]) == ["member 0 0 new", "inbox 0 7 in"])
        changes = GroupChanges([1], expectedVersion: first + 2)
        changes.deletesGroup = true
        try storage.commit(StorageChanges(changes))
        #expect(try storage.groups().isEmpty)
        #expect(try storage.version(of: [1]) == nil)
        // A new group of that name is not at a version that the old one had.
        #expect(GroupChanges([1]).nextVersion != first)
    }

    @Test(arguments: Implementation.allCases)
    func `a change of another version, or of an item that is gone, changes nothing`(
        implementation: Implementation
    ) throws {
        let storage = try make(implementation)
        let key = StorageItem.Key(.keyPackage, [9])
        try storage.put([StorageItem(key, StoredBytes(copying: [1]))])
        var first = GroupChanges([1])
        first.rows = [row(.state, "one")]
        try storage.commit(StorageChanges(first))
        #expect(throws: GroupStorageError.conflict) { try storage.commit(StorageChanges(first)) }
        var later = GroupChanges([1], expectedVersion: first.nextVersion + 1)
        later.rows = [row(.state, "two")]
        var other = GroupChanges([2])
        other.rows = [row(.state, "three")]
        var both = StorageChanges()
        both.groups = [other, later]
        both.taken = [key]
        #expect(throws: GroupStorageError.conflict) { try storage.commit(both) }
        later.expectedVersion = first.nextVersion
        both.groups = [other, later]
        both.taken = [key, StorageItem.Key(.keyPackage, [8])]
        #expect(throws: GroupStorageError.itemMissing) { try storage.commit(both) }
        #expect(try storage.groups() == [[1]])
        #expect(try texts(storage, [1]) == ["state 0 0 one"])
        both.taken = [key]
        try storage.commit(both)
        #expect(try storage.item(key)?.key == nil)
        #expect(throws: GroupStorageError.self) { try storage.commit(both) }
        #expect(try Set(storage.groups()) == [[1], [2]])
    }

    @Test(arguments: Implementation.allCases)
    func `an item is added once, and a group begins anew in one change`(implementation: Implementation) throws {
        let storage = try make(implementation)
        let key = StorageItem.Key(.identity, [9])
        func add(_ byte: UInt8, _ group: UInt8) throws {
            var other = GroupChanges([group])
            other.rows = [row(.state, "one"), row(.inbox, number: 1, "in")]
            var changes = StorageChanges(other)
            changes.added = [StorageItem(key, StoredBytes(copying: [byte]))]
            try storage.commit(changes)
        }
        try add(1, 1)
        #expect(throws: GroupStorageError.conflict) { try add(2, 2) }
        #expect(try storage.item(key)?.content.withBytes { $0 } == [1])
        #expect(try storage.groups() == [[1]])
        var anew = GroupChanges([1], expectedVersion: try storage.version(of: [1]))
        anew.deletesGroup = true
        anew.rows = [row(.state, "two")]
        try storage.commit(StorageChanges(anew))
        #expect(try texts(storage, [1]) == ["state 0 0 two"])
        #expect(try storage.version(of: [1]) == anew.nextVersion)
    }

    @Test(arguments: Implementation.allCases)
    func `key packages, pre-shared keys and identities come back whole`(implementation: Implementation) throws {
        let storage = try make(implementation)
        for suite in CipherSuites.all {
            let key = suite.generateSignatureKey()
            let bundle = try KeyPackageBundle(
                suite, profile: LeafProfile(credential: .basic(identity: [1])), signatureKey: key,
                lifetime: Lifetime(notBefore: 0, notAfter: 10))
            let isLast = suite.id.rawValue == 1
            try storage.put([
                StorageItem(bundle, isLastResort: isLast), StorageItem(identity: [7], key, suite: suite.id),
            ])
            let item = try #require(
                try storage.item(
                    StorageItem.Key(isLast ? .lastResort : .keyPackage, bundle.keyPackage.reference(suite))))
            let read = try item.keyPackage()
            #expect(read.keyPackage == bundle.keyPackage)
            #expect(read.initKey.reveal() == bundle.initKey.reveal())
            let identity = try #require(try storage.item(StorageItem.Key(.identity, [7]))).identity()
            #expect(identity.suite == suite.id && identity.key.reveal() == key.reveal())
        }
        #expect(try storage.items(.keyPackage).count == 4)
        try storage.put([StorageItem(psk: [1, 2], Secret(copying: [3, 4]))])
        #expect(try storage.items(.psk).map { try $0.presharedKey().reveal() } == [[3, 4]])
    }
}

private func row(_ kind: GroupRow.Kind, epoch: UInt64 = 0, number: UInt64 = 0, _ text: String) -> GroupRow {
    GroupRow(GroupRow.Key(kind, epoch: epoch, number: number), StoredBytes(copying: Array(text.utf8)))
}

private func texts(_ storage: any GroupStorage, _ group: [UInt8]) throws -> [String] {
    let stored = try #require(try storage.load(group))
    return stored.rows.sorted {
        ($0.key.kind.rawValue, $0.key.epoch, $0.key.number) < ($1.key.kind.rawValue, $1.key.epoch, $1.key.number)
    }.map {
        "\($0.key.kind) \($0.key.epoch) \($0.key.number) \($0.content.withBytes { String(decoding: $0, as: UTF8.self) })"
    }
}

/// The properties of the database alone: sealing, several processes, damage.
@Suite struct GroupDatabaseTests {
    private let folder: TemporaryFolder
    private let keys = MemoryKeyStore()

    init() throws { folder = try TemporaryFolder() }

    private func open(_ path: String? = nil) throws -> GroupDatabase {
        try GroupDatabase.open(directory: path ?? folder.path, keys: keys)
    }

    private func write(_ database: GroupDatabase, _ version: UInt64?, _ rows: [GroupRow]) throws {
        var changes = GroupChanges([1], expectedVersion: version)
        changes.firstVersion = 1
        changes.rows = rows
        try database.commit(StorageChanges(changes))
    }

    @Test func `nothing that is stored stands in the file, and nobody else may read it`() throws {
        let database = try open()
        let text = "a secret that is easily found"
        try write(database, nil, [row(.state, text), row(.node, text), row(.inbox, text)])
        try database.put([StorageItem(psk: [5], Secret(copying: Array(text.utf8)))])
        for name in ["groups.sqlite"] {
            let content = try folder.bytes(name)
            #expect(content.count > 1000)
            #expect(Data(content).range(of: Data(text.utf8)) == nil)
            #expect(try folder.mode(of: name) == 0o600)
        }
        database.close()
        let again = try open()
        #expect(try texts(again, [1]) == ["state 0 0 \(text)", "node 0 0 \(text)", "inbox 0 0 \(text)"])
    }

    @Test func `a change of two rows among many is in three blocks of the disk`() throws {
        let database = try open()
        try write(
            database, nil,
            (0..<1_000).map { row(.node, number: $0, "node \($0)") }
                + (0..<100).map { row(.skippedKey, epoch: 1, number: $0, "key \($0)") })
        func blocks() throws -> [ArraySlice<UInt8>] {
            let content = try folder.bytes("groups.sqlite")
            return stride(from: 0, to: content.count, by: 4_096).map { content[$0..<min($0 + 4_096, content.count)] }
        }
        for number in 0..<20 as Range<UInt64> {
            let before = try blocks()
            try write(
                database, number + 1,
                [row(.ratchet, epoch: 1, number: 0, "head \(number)"), row(.ratchet, epoch: 1, number: 1, "tail")])
            let after = try blocks()
            let changed = zip(before, after).count { $0 != $1 } + max(0, after.count - before.count)
            #expect(1...3 ~= changed)
        }
    }

    @Test func `a row in another's place, or changed, does not open`() throws {
        let database = try open()
        try write(
            database, nil, [row(.ratchet, epoch: 1, number: 1, "one"), row(.ratchet, epoch: 1, number: 2, "two")])
        database.close()
        for sql in [
            "UPDATE group_rows SET number = 3 - number + 10", "UPDATE group_rows SET epoch = 2",
            "UPDATE group_rows SET content = zeroblob(31)", "UPDATE group_rows SET content = x''",
            "UPDATE groups SET id = x'02'",
        ] {
            let copy = try TemporaryFolder()
            try copy.write(folder.bytes("groups.sqlite"), to: "groups.sqlite")
            try DatabaseQueue(path: copy.path + "/groups.sqlite").write { try $0.execute(sql: sql) }
            let database = try open(copy.path)
            #expect(throws: GroupStorageError.corrupt, "\(sql)") { try database.load(database.groups()[0]) }
        }
    }

    @Test func `the key steps forward, rows follow, and an old copy does not open any more`() throws {
        let database = try open()
        try write(database, nil, (0..<40).map { row(.skippedKey, epoch: 1, number: $0, "key \($0)") })
        try database.put([StorageItem(psk: [5], Secret(copying: [1]))])
        let old = try TemporaryFolder()
        try old.write(folder.bytes("groups.sqlite"), to: "groups.sqlite")
        let first = try #require(try keys.secret(named: "groups"))
        var version: UInt64 = 1
        func send(_ count: Int) throws {
            for number in 0..<count {
                try write(database, version, [row(.ratchet, epoch: 1, number: 2, "head \(number)")])
                version += 1
            }
        }
        try send(256)
        // The second key is there, the first as long as rows are under it.
        #expect(try #require(try keys.secret(named: "groups")).count == 42 + 80)
        #expect(try open(old.path).load([1])?.rows.count == 40)
        try send(10)
        #expect(try #require(try keys.secret(named: "groups")).count == 42 + 80)
        try send(10)
        let second = try #require(try keys.secret(named: "groups"))
        #expect(second.count == 42 + 40 && second[41...] != first[41...])
        #expect(try database.load([1])?.rows.count == 41)
        #expect(try database.items(.psk).map { try $0.presharedKey().reveal() } == [[1]])
        let error = #expect(throws: KithError.self) { try open(old.path) }
        #expect(error?.code == .corrupt && error?.message.contains("old copy") == true)
        // A quiet moment does it at once.
        try send(256)
        #expect(try database.maintain() == 0)
        #expect(try #require(try keys.secret(named: "groups")).count == 42 + 40)
    }

    /// A key store whose process ends, now and then, right after a secret was stored.
    private final class FragileKeyStore: KeyStore {
        private let secrets = MemoryKeyStore()
        private let left = Mutex(Int.max)

        func end(after count: Int) { left.withLock { $0 = count } }

        func secret(named name: String) throws(KithError) -> [UInt8]? { try secrets.secret(named: name) }

        func secretNames() -> [String] { secrets.secretNames() }

        func generation() -> UInt64? { secrets.generation() }

        func store(_ secret: [UInt8], named name: String) throws(KithError) {
            try secrets.store(secret, named: name)
            let hasEnded = left.withLock { left in
                left -= 1
                return left < 0
            }
            if hasEnded { throw KithError(.internal, "This is where the process ended.") }
        }

        func add(_ secret: [UInt8], named name: String) throws(KithError) -> Bool {
            try secrets.add(secret, named: name)
        }

        func removeSecret(named name: String) throws(KithError) { try secrets.removeSecret(named: name) }
    }

    @Test func `a change whose number cannot be written beside the keys is stored, and not to be acted on`() throws {
        let keys = BreakableKeyStore()
        func open() throws -> GroupDatabase { try GroupDatabase.open(directory: folder.path, keys: keys) }
        let database = try open()
        try write(database, nil, [row(.state, "one")])
        let old = try folder.bytes("groups.sqlite")
        keys.isBroken = true
        var isUnsettled = false
        do { try write(database, 1, [row(.state, "two")]) } catch GroupStorageError.unsettled { isUnsettled = true }
        #expect(isUnsettled)
        // Whoever loads it would act on it.
        #expect(throws: GroupStorageError.self) { try database.load([1]) }
        #expect(try database.version(of: [1]) == 2)
        #expect(throws: GroupStorageError.self) { try database.maintain(limit: 0) }
        database.close()
        #expect(throws: KithError.self) { try open() }
        keys.isBroken = false
        // Opened again it is settled: the copy from before is an old one.
        let again = try open()
        #expect(try texts(again, [1]) == ["state 0 0 two"])
        again.close()
        try folder.write(old, to: "groups.sqlite")
        #expect(try open().load([1])?.isRolledBack == true)
    }

    @Test(arguments: [1, 2, 3, 5, 30])
    func `a process that ends while the key steps forward leaves every row readable`(rows: Int) throws {
        let keys = FragileKeyStore()
        var database = try GroupDatabase.open(directory: folder.path, keys: keys)
        let numbers = 0..<UInt64(rows)
        try write(database, nil, numbers.map { row(.skippedKey, epoch: 1, number: $0, "key \($0)") })
        for group in 2...9 as ClosedRange<UInt8> {
            var changes = GroupChanges([group])
            changes.rows = [row(.node, "without a secret")]
            try database.commit(StorageChanges(changes))
        }
        var ends = 0
        // Each group that goes makes the key step, as soon as nothing is under the one before.
        for group in 2...9 as ClosedRange<UInt8> {
            var changes = GroupChanges([group], expectedVersion: try database.version(of: [group]))
            changes.deletesGroup = true
            for attempt in 0..<2 {
                keys.end(after: attempt)
                do {
                    try database.commit(StorageChanges(changes))
                    break
                } catch {
                    ends += 1
                    database.close()
                    keys.end(after: .max)
                    database = try GroupDatabase.open(directory: folder.path, keys: keys)
                    #expect(try texts(database, [1]) == numbers.map { "skippedKey 1 \($0) key \($0)" })
                    if try database.version(of: [group]) == nil { break }
                }
            }
        }
        #expect(ends >= 1)
        #expect(try texts(database, [1]) == numbers.map { "skippedKey 1 \($0) key \($0)" })
    }

    @Test func `a process that had the file open meanwhile finds the new key`() throws {
        let one = try open()
        let other = try open()
        try write(one, nil, [row(.state, "x")])
        for number in 1...300 { try write(one, UInt64(number), [row(.ratchet, epoch: 1, "\(number)")]) }
        #expect(try texts(other, [1]) == ["state 0 0 x", "ratchet 1 0 300"])
        try write(other, 301, [row(.state, "y")])
        #expect(throws: GroupStorageError.conflict) { try write(one, 301, [row(.state, "z")]) }
        for number in 302...700 { try write(other, UInt64(number), [row(.ratchet, epoch: 1, "\(number)")]) }
        #expect(try texts(one, [1]) == ["state 0 0 y", "ratchet 1 0 700"])
    }

    @Test func `missing or damaged keys are told, and nothing is overwritten`() throws {
        let database = try open()
        try write(database, nil, [row(.state, "x")])
        database.close()
        let good = try #require(try keys.secret(named: "groups"))
        let bads: [[UInt8]?] = [
            nil, [], [1], Array(good.dropLast()), [4] + good.dropFirst(), Array(good.prefix(41)) + [0],
        ]
        for bad in bads {
            try keys.removeSecret(named: "groups")
            if let bad { try keys.store(bad, named: "groups") }
            #expect(throws: KithError.self) { try open() }
            #expect(try keys.secret(named: "groups") == bad)
        }
        try keys.store(good, named: "groups")
        #expect(try texts(open(), [1]) == ["state 0 0 x"])
    }

    @Test func `a database of a later version is left alone`() throws {
        try open().close()
        try DatabaseQueue(path: folder.path + "/groups.sqlite").write {
            try $0.execute(sql: "INSERT INTO grdb_migrations VALUES ('99')")
        }
        let error = #expect(throws: KithError.self) { try open() }
        #expect(error?.message.contains("later version") == true)
    }

    /// The rows that hold secrets, as they stand in the file.
    private func sealed() throws -> Set<Data> {
        try DatabaseQueue(path: folder.path + "/groups.sqlite").read { database in
            let rows = try Data.fetchSet(database, sql: "SELECT content FROM group_rows WHERE seal > 0")
            return try rows.union(Data.fetchSet(database, sql: "SELECT content FROM items"))
        }
    }

    /// Every file there is, cut off anywhere, holds nothing of what was deleted or replaced.
    private func expectNowhere(_ gone: Set<Data>, sourceLocation: SourceLocation = #_sourceLocation) throws {
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path) {
            let content = Data(try folder.bytes(name))
            for one in gone where content.range(of: one) != nil {
                Issue.record("\(name) of \(content.count) bytes has it", sourceLocation: sourceLocation)
            }
        }
    }

    @Test func `what was deleted or replaced stands in no page and no frame, after every change`() throws {
        let database = try open()
        var version: UInt64 = 1
        try write(
            database, nil,
            (0..<300).map { row(.skippedKey, epoch: 1, number: $0, "key \($0)") }
                + [row(.inbox, number: 1, String(repeating: "long ", count: 5_000))])
        try database.put((0..<20).map { StorageItem(psk: [$0], Secret(copying: [$0])) })
        var gone: Set<Data> = []
        for number in 0..<60 as Range<UInt64> {
            let before = try sealed()
            var changes = GroupChanges([1], expectedVersion: version)
            changes.rows = [row(.ratchet, epoch: 1, number: number % 3, "head \(number)")]
            changes.removed = (0..<3).map { GroupRow.Key(.skippedKey, epoch: 1, number: 5 * number + $0) }
            if number == 30 { changes.removed.append(GroupRow.Key(.inbox, number: 1)) }
            if number == 59 { changes.removedEpochs = [1] }
            var all = StorageChanges(changes)
            if number < 20 { all.taken = [StorageItem.Key(.psk, [UInt8(number)])] }
            try database.commit(all)
            version += 1
            gone.formUnion(before.subtracting(try sealed()))
            try expectNowhere(gone)
        }
        #expect(gone.count > 300 && gone.contains { $0.count > 20_000 })
        let before = try sealed()
        var changes = GroupChanges([1], expectedVersion: version)
        changes.rows = [row(.state, "the last")]
        try database.commit(StorageChanges(changes))
        let last = try sealed().subtracting(before)
        changes = GroupChanges([1], expectedVersion: version + 1)
        changes.deletesGroup = true
        try database.commit(StorageChanges(changes))
        #expect(!last.isEmpty)
        try expectNowhere(gone.union(last))
        // Another process that has it open sees to it as well.
        let other = try open()
        try write(other, nil, [row(.state, "again")])
        let again = try sealed()
        try write(other, 1, [row(.state, "and again")])
        try expectNowhere(again.subtracting(try sealed()))
    }

    @Test func `a journal that a killed process left, cut off anywhere, opens as it was before`() throws {
        let database = try open()
        try write(database, nil, (0..<200).map { row(.skippedKey, epoch: 1, number: $0, "key \($0)") })
        database.close()
        let path = folder.path + "/groups.sqlite"
        var (file, journal) = ([UInt8](), [UInt8]())
        try DatabaseQueue(path: path).write { database in
            try database.execute(sql: "DELETE FROM group_rows WHERE number % 2 = 0")
            // The process ends here.
            file = Array(try folder.bytes("groups.sqlite"))
            journal = Array(try folder.bytes("groups.sqlite-journal"))
        }
        #expect(journal.count > 4_096)
        for cut in Array(stride(from: 0, to: journal.count, by: 1_009)) + [journal.count] {
            let copy = try TemporaryFolder()
            try copy.write(file, to: "groups.sqlite")
            try copy.write(Array(journal.prefix(cut)), to: "groups.sqlite-journal")
            let database = try open(copy.path)
            #expect(try database.load([1])?.rows.count == 200)
            database.close()
        }
    }

    @Test func `an old copy is noticed, however little has changed since`() throws {
        var database = try open()
        try write(database, nil, [row(.state, "1")])
        let bundle = try KeyPackageBundle(
            CipherSuites.all[0], profile: LeafProfile(credential: .basic(identity: [1])),
            signatureKey: CipherSuites.all[0].generateSignatureKey(), lifetime: Lifetime(notBefore: 0, notAfter: 10))
        try database.put([StorageItem(bundle), StorageItem(psk: [5], Secret(copying: [1]))])
        database.close()
        let old = try folder.bytes("groups.sqlite")
        database = try open()
        #expect(try database.load([1])?.isRolledBack == false)
        try write(database, 1, [row(.state, "2")])
        database.close()
        try folder.write(old, to: "groups.sqlite")
        for _ in 0..<2 {
            database = try open()
            #expect(try database.load([1])?.isRolledBack == true)
            // A Welcome that was used up must not open its group again.
            #expect(try database.items(.keyPackage).isEmpty && database.items(.psk).count == 1)
            database.close()
        }
        database = try open()
        var changes = GroupChanges([1], expectedVersion: try database.version(of: [1]))
        changes.replacesState = true
        changes.rows = [row(.state, "3")]
        try database.commit(StorageChanges(changes))
        database.close()
        #expect(try open().load([1])?.isRolledBack == false)
    }

    @Test func `a process that ends between a change and its number has not gone back`() throws {
        let keys = FragileKeyStore()
        var database = try GroupDatabase.open(directory: folder.path, keys: keys)
        try write(database, nil, [row(.state, "1")])
        let before = try #require(try keys.secret(named: "groups"))
        try write(database, 1, [row(.state, "2")])
        database.close()
        // The number was not written.
        try keys.store(before, named: "groups")
        database = try GroupDatabase.open(directory: folder.path, keys: keys)
        let stored = try database.load([1])
        #expect(stored?.isRolledBack == false && stored?.version == 2)
    }
}
