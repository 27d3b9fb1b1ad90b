import Foundation
@testable import KithGroups
import KithMLS
import KithStore
import KithTesting
import Synchronization
import Testing

/// Faults on the way, and how they are made good.
@Suite struct RecoveryTests {
    @Test func `what others said before an own commit is read, however many commits follow`() async throws {
        let delivery = MemoryDelivery()
        let sessions = try await party([client("anna", delivery), client("ben", delivery)])
        try await sessions[1].say("first")
        for _ in 0..<8 {
            guard case .confirmed = try await sessions[0].commit() else {
                Issue.record("a commit without a rival was not confirmed")
                return
            }
        }
        #expect(try await texts(taken(sessions[0])) == ["first"])
        #expect(try await sessions[0].synchronise().refused.isEmpty)
    }

    @Test func `hundreds of messages wait behind one that is to be encrypted again, and all are read`() async throws {
        let delivery = MemoryDelivery()
        let link = UnreliableDelivery(delivery)
        let sessions = try await party([client("anna", link), client("ben", delivery)])
        link.losesMessages = true
        try await sessions[0].say("0")
        _ = try await sessions[1].commit()
        link.losesMessages = false
        for number in 1...300 { try await sessions[0].say("\(number)") }
        let last = try await sessions[0].send(Array("301".utf8))
        #expect(!last.isDelivered && last.bytes.isEmpty)
        try await sessions[0].synchronise()
        #expect(try await sessions[1].synchronise().refused.isEmpty)
        #expect(try await texts(taken(sessions[1])) == (0...301).map { "\($0)" })
    }

    @Test func `what the service does not take keeps nothing from coming in, and can be taken back`() async throws {
        let delivery = MemoryDelivery()
        let link = UnreliableDelivery(delivery)
        let sessions = try await party([client("anna", link), client("ben", delivery)])
        link.refuses = { $0.count > 2_000 }
        #expect(try await !sessions[0].send([UInt8](repeating: 1, count: 3_000), authenticatedData: [2]).isDelivered)
        try await sessions[0].say("behind it")
        try await sessions[1].say("hello")
        await #expect(throws: GroupError.unreachable(DeliveryError("That is too large."))) {
            try await sessions[0].synchronise()
        }
        #expect(try await texts(taken(sessions[0])) == ["hello"])
        let waiting = try await sessions[0].waitingMessages()
        #expect(waiting.count == 2 && waiting[0].data.count == 3_000 && waiting[0].authenticatedData == [2])
        try await sessions[0].withdraw(waiting[0].number)
        try await sessions[0].synchronise()
        #expect(try await sessions[0].waitingMessages().isEmpty)
        try await sessions[1].synchronise()
        #expect(try await texts(taken(sessions[1])) == ["behind it"])
        await #expect(throws: GroupError.tooLarge) {
            try await sessions[0].send([UInt8](repeating: 0, count: 16 << 20 | 1))
        }
    }

    @Test func `a commit that waited and lost is told with the winner`() async throws {
        let delivery = MemoryDelivery()
        let link = UnreliableDelivery(delivery)
        let storage = MemoryGroupStorage()
        let clients = try [client("anna", link, storage), client("ben", delivery), client("cleo", delivery)]
        let sessions = try await party(clients)
        link.losesMessages = true
        guard case .pending = try await sessions[0].commit(CommitOptions([.remove(2)])) else {
            Issue.record("not pending")
            return
        }
        _ = try await sessions[1].commit()
        link.losesMessages = false
        // By another run of the program.
        let anna = try #require(try client("anna", link, storage).group(sessions[0].groupID))
        try await anna.synchronise()
        guard case .epochChanged(_, isOwn: false, let retry)? = try await taken(anna).last else {
            Issue.record("no new epoch")
            return
        }
        #expect(retry == [SentProposal(proposal: .remove(2), sender: .member(0))])
        #expect(try await anna.pendingCommit() == nil)
        guard case .confirmed = try await anna.commit(CommitOptions([.remove(2)])) else {
            Issue.record("the second attempt was not confirmed")
            return
        }
    }

    @Test func `a client that was away is let in again by a Welcome that came before it knew it was out`() async throws
    {
        let delivery = MemoryDelivery()
        let ben = try client("ben", delivery)
        let sessions = try await party([client("anna", delivery), ben])
        _ = try await sessions[0].commit(CommitOptions([.remove(1)]))
        _ = try await sessions[0].add(["ben"])
        // Nothing can be made of it yet.
        #expect(try await ben.receiveWelcomes().isEmpty)
        try await ben.synchronise()
        #expect(try await sessions[1].isRemoved() == false)
        try await sessions[0].say("welcome back")
        try await ben.synchronise()
        #expect(try await texts(taken(sessions[1])) == ["welcome back"])
    }

    @Test func `a successor that was founded meanwhile is joined by those who were away`() async throws {
        let delivery = MemoryDelivery()
        let clients = try [client("anna", delivery), client("ben", delivery)]
        let sessions = try await party(clients)
        let reInit = ReInit(groupID: [4, 4], cipherSuite: CipherSuites.all[0].id)
        _ = try await sessions[0].commit(CommitOptions([.reInit(reInit)]))
        let (successor, _) = try await clients[0].foundSuccessor(of: sessions[0], with: ["ben"])
        #expect(try await clients[1].receiveWelcomes().isEmpty)
        try await clients[1].synchronise()
        let joined = try #require(try clients[1].group([4, 4]))
        #expect(try await joined.agreement() == successor.agreement())
    }

    @Test func `a commit to join by whose answer was lost does not lock its maker out`() async throws {
        let delivery = MemoryDelivery()
        let link = UnreliableDelivery(delivery)
        let storage = MemoryGroupStorage()
        let sessions = try await party([client("anna", delivery), client("ben", link, storage)])
        // Once in one run, which sends the same again; once with the program gone in between.
        for isGone in [false, true] {
            link.losesAnswers = true
            let first = try #require(try client("ben", link, storage).group(sessions[0].groupID))
            await #expect(throws: GroupError.self) { try await first.rejoin() }
            link.losesAnswers = false
            let second = isGone ? try #require(try client("ben", link, storage).group(sessions[0].groupID)) : first
            if isGone { try await sessions[0].synchronise() }
            try await second.rejoin()
            try await sessions[0].synchronise()
            try await second.synchronise()
            #expect(try await second.agreement() == sessions[0].agreement())
            #expect(try await second.members().count == 2)
        }
    }

    @Test func `what had its place before its sender joined anew is not said twice`() async throws {
        let delivery = MemoryDelivery()
        let link = UnreliableDelivery(delivery)
        let sessions = try await party([client("anna", delivery), client("ben", link)])
        link.losesAnswers = true
        try await sessions[1].say("one")
        link.losesAnswers = false
        try await sessions[1].rejoin()
        try await sessions[1].synchronise()
        try await sessions[0].synchronise()
        #expect(try await texts(taken(sessions[0])) == ["one"])
    }

    @Test func `the last member joins anew from wherever it stands, and opens the group again`() async throws {
        let delivery = MemoryDelivery()
        let storage = MemoryGroupStorage()
        let ben = try client("ben", delivery, storage)
        let sessions = try await party([client("anna", delivery), ben])
        _ = try await sessions[1].commit(CommitOptions([.remove(0)]))
        try await sessions[1].rejoin()
        #expect(try await sessions[1].leafIndex() == 0)
        let again = try #require(try client("ben", delivery, storage).group(sessions[1].groupID))
        #expect(try await again.epoch() == 3)
        try await again.rejoin()
        #expect(try await again.members().count == 1)
    }

    @Test func `a group whose rows are damaged can be forgotten, or joined anew`() async throws {
        let delivery = MemoryDelivery()
        let storage = MemoryGroupStorage()
        let ben = try client("ben", delivery, storage)
        let sessions = try await party([client("anna", delivery), ben])
        let group = sessions[0].groupID
        for forgets in [false, true] {
            var changes = GroupChanges(group, expectedVersion: try storage.version(of: group))
            changes.rows = [
                GroupRow(GroupRow.Key(.state), StoredBytes(copying: [1, 2])),
                GroupRow(GroupRow.Key(.inbox, number: 1 << 40), StoredBytes(copying: [1])),
            ]
            try storage.commit(StorageChanges(changes))
            let session = try #require(try ben.group(group))
            await #expect(throws: GroupError.storage(.corrupt)) { try await session.synchronise() }
            if forgets {
                try await session.forget()
                #expect(try ben.groups().isEmpty)
            } else {
                try await session.rejoin()
                try await sessions[0].synchronise()
                #expect(try await session.agreement() == sessions[0].agreement())
            }
        }
    }
}

/// What happens in the middle of something.
@Suite struct InterruptionTests {
    @Test func `a damaged group is there until it is joined anew`() async throws {
        let delivery = MemoryDelivery()
        let storage = HookedStorage()
        let ben = try client("ben", delivery, storage)
        let sessions = try await party([client("anna", delivery), ben])
        let group = sessions[0].groupID
        var changes = GroupChanges(group, expectedVersion: try storage.version(of: group))
        changes.rows = [
            GroupRow(GroupRow.Key(.state), StoredBytes(copying: [1, 2])),
            GroupRow(GroupRow.Key(.session), StoredBytes(copying: [1])),
        ]
        try storage.commit(StorageChanges(changes))
        // Whatever was written first is all there is.
        var isEnded = false
        storage.beforeCommit = { (_: StorageChanges) throws(GroupStorageError) in
            guard !isEnded else { throw .unavailable("This is where the process ended.") }
            isEnded = true
        }
        let session = try #require(try ben.group(group))
        try? await session.rejoin()
        storage.beforeCommit = { (_: StorageChanges) throws(GroupStorageError) in }
        let again = try #require(try client("ben", delivery, storage).group(group))
        try await sessions[0].synchronise()
        #expect(try await again.agreement() == sessions[0].agreement())
        try await again.say("back")
        try await sessions[0].synchronise()
        #expect(try await texts(taken(sessions[0])) == ["back"])
    }

    @Test func `what is stored while the keys cannot be written goes out later, and once`() async throws {
        let folder = try TemporaryFolder()
        let keys = BreakableKeyStore()
        let storage = try GroupDatabase.open(directory: folder.path, keys: keys)
        let delivery = MemoryDelivery()
        let sessions = try await party([client("anna", delivery), client("ben", delivery, storage)])
        keys.isBroken = true
        #expect(try await !sessions[1].send(Array("it waits".utf8)).isDelivered)
        guard case .pending = try await sessions[1].commit() else {
            Issue.record("a commit that is stored and may not leave")
            return
        }
        try await sessions[0].synchronise()
        #expect(try await taken(sessions[0]).isEmpty)
        await #expect(throws: GroupError.self) { try await sessions[1].synchronise() }
        #expect(try await sessions[1].waitingMessages().count == 1)
        keys.isBroken = false
        try await sessions[1].synchronise()
        try await sessions[0].synchronise()
        #expect(try await texts(taken(sessions[0])) == ["it waits"])
        #expect(try await sessions[0].agreement() == sessions[1].agreement())
    }

    @Test func `of two processes that begin at once both have the first one's key`() throws {
        let storage = HookedStorage()
        let delivery = MemoryDelivery()
        var first: GroupClient?
        storage.afterItem = { _ in
            storage.afterItem = { _ in }
            first = try? client("anna", delivery, storage)
        }
        let second = try client("anna", delivery, storage)
        let third = try client("anna", delivery, storage)
        let keys = [first?.signatureKey.publicKey, second.signatureKey.publicKey, third.signatureKey.publicKey]
        #expect(first != nil && Set(keys).count == 1)
    }
}

/// An old copy of the storage that has come back.
@Suite struct RollbackTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    @Test(arguments: [1, 2, 30])
    func `a client whose storage was put back uses no key again, and joins anew`(changes: Int) async throws {
        let delivery = MemoryDelivery()
        let storage = try database(folder.path, "ben")
        let sessions = try await party([client("anna", delivery), client("ben", delivery, storage)])
        let group = sessions[0].groupID
        delivery.isReachable = false
        try await sessions[1].say("it waits")
        storage.close()
        let path = URL(filePath: folder.path + "/ben/groups.sqlite")
        let old = try Data(contentsOf: path)
        let later = try database(folder.path, "ben")
        delivery.isReachable = true
        let session = try #require(try client("ben", delivery, later).group(group))
        for number in 0..<changes { try await session.say("\(number)") }
        later.close()
        try old.write(to: path)

        let ben = try client("ben", delivery, database(folder.path, "ben"))
        let again = try #require(try ben.group(group))
        await #expect(throws: GroupError.storage(.rolledBack)) { try await again.say("with a key that was used") }
        try await ben.synchronise()
        #expect(try await again.epoch() == 2)
        let events = try await taken(again)
        #expect(events.contains(.unsent(Array("it waits".utf8), authenticatedData: [])))
        try await again.say("back")
        try await sessions[0].synchronise()
        let heard = try await taken(sessions[0])
        #expect(texts(heard) == ["it waits"] + (0..<changes).map { "\($0)" } + ["back"])
        let keys = heard.compactMap { event -> String? in
            guard case .message(let message) = event else { return nil }
            return "\(message.sender) \(message.epoch) \(message.generation)"
        }
        #expect(Set(keys).count == keys.count)
        #expect(try await again.agreement() == sessions[0].agreement())
    }
}

/// Lies of the delivery service, or of somebody with its help.
@Suite struct TrustTests {
    @Test func `a Welcome does not replace a group that the client is in, though it seems to be behind`() async throws {
        let delivery = MemoryDelivery()
        let clients = try ["anna", "ben"].map { try client($0, delivery) }
        let sessions = try await party(clients)
        let id = PreSharedKeyID(key: .external(id: [5]), nonce: [UInt8](repeating: 3, count: 32))
        try clients[0].addPresharedKey([5], Secret(copying: [1]))
        _ = try await sessions[0].commit(CommitOptions([.psk(id)]))
        _ = try await sessions[0].commit(CommitOptions([.remove(1)]))
        _ = try await sessions[0].add(["ben"])
        // It cannot follow, is told so, and whoever let it in again might be anybody.
        await #expect(throws: Never.self) { try await sessions[1].synchronise() }
        #expect(try await clients[1].receiveWelcomes().isEmpty)
        #expect(try await sessions[1].epoch() == 1)
        try await sessions[1].rejoin()
        try await sessions[0].synchronise()
        #expect(try await sessions[1].agreement() == sessions[0].agreement())
    }

    @Test func `a Welcome for a key package of last resort opens a group once`() async throws {
        let delivery = MemoryDelivery()
        let ben = try client("ben", delivery, keyPackages: 0)
        let sessions = try await party([client("anna", delivery), ben])
        let welcome = try #require(try await delivery.welcomes(for: "ben", from: 0, limit: 1).first).bytes
        _ = try await sessions[0].commit(CommitOptions([.remove(1)]))
        try await sessions[1].synchronise()
        await #expect(throws: GroupError.refused(.groupAlreadyKnown)) { try await ben.join(welcome) }
        try await sessions[1].forget()
        await #expect(throws: GroupError.refused(.groupAlreadyKnown)) { try await ben.join(welcome) }
        #expect(try ben.groups().isEmpty)
        // Nor with other bytes.
        guard case .welcome(var changed) = try MLSMessage(welcome) else { throw MLSError.unexpectedWireFormat }
        let secrets = try #require(changed.secrets.first)
        changed.secrets.append(
            EncryptedGroupSecrets(newMember: [1], encryptedGroupSecrets: secrets.encryptedGroupSecrets))
        await #expect(throws: GroupError.refused(.groupAlreadyKnown)) {
            try await ben.join(MLSMessage.welcome(changed).bytes)
        }
        #expect(try ben.groups().isEmpty)
    }

    @Test func `what a key package of last resort has opened is forgotten with it, and not before`() async throws {
        let delivery = MemoryDelivery()
        let storage = MemoryGroupStorage()
        let now = Mutex(noon)
        var options = options(keyPackages: 0)
        options.now = { now.withLock { $0 } }
        let ben = try GroupClient(name: "ben", storage: storage, delivery: delivery, options: options)
        _ = try await party([client("anna", delivery), ben])
        func count() throws -> Int {
            try storage.items(.note).count { $0.key.name.starts(with: Array("used".utf8)) }
        }
        try await ben.replenishKeyPackages()
        #expect(try count() == 1)
        now.withLock { $0 += 14 * 7 * 86_400 }
        try await ben.replenishKeyPackages()
        #expect(try count() == 0)
    }

    @Test func `a Welcome that names millions is looked up once, and one that is too large is not`() async throws {
        let delivery = MemoryDelivery()
        let storage = HookedStorage()
        var options = options()
        options.largestReceived = 100_000
        let ben = try GroupClient(name: "ben", storage: storage, delivery: delivery, options: options)
        let sealed = HPKECiphertext(kemOutput: [], ciphertext: [])
        func welcome(_ count: Int) -> [UInt8] {
            let secrets = (0..<count).map {
                EncryptedGroupSecrets(newMember: [UInt8($0 % 200)], encryptedGroupSecrets: sealed)
            }
            var writer = TLSWriter()
            writer.integer(CipherSuites.all[0].id.rawValue)
            writer.list(secrets)
            writer.opaque([])
            var message = TLSWriter()
            message.integer(1 as UInt16)
            message.integer(3 as UInt16)
            return message.bytes + writer.bytes
        }
        storage.reads = 0
        await #expect(throws: GroupError.notForUs) { try await ben.join(welcome(10_000)) }
        #expect(storage.reads <= 2)
        await #expect(throws: GroupError.refused(.messageTooLong)) { try await ben.join(welcome(30_000)) }
    }

    @Test func `a message of more than is taken in is refused, and the next one is heard`() async throws {
        let delivery = MemoryDelivery()
        var options = options()
        options.largestReceived = 10_000
        let ben = try GroupClient(
            name: "ben", storage: MemoryGroupStorage(), delivery: delivery, options: options)
        let sessions = try await party([client("anna", delivery), ben])
        try await sessions[0].say(String(repeating: "long ", count: 5_000))
        try await sessions[0].say("short")
        #expect(try await sessions[1].synchronise().refused.map(\.reason) == [.messageTooLong])
        #expect(try await texts(taken(sessions[1])) == ["short"])
    }

    @Test func `a damaged group keeps nobody from being let into others`() async throws {
        let delivery = MemoryDelivery()
        let storage = MemoryGroupStorage()
        let ben = try client("ben", delivery, storage)
        let anna = try client("anna", delivery)
        let sessions = try await party([anna, ben])
        let group = sessions[0].groupID
        var changes = GroupChanges(group, expectedVersion: try storage.version(of: group))
        changes.rows = [GroupRow(GroupRow.Key(.state), StoredBytes(copying: [1, 2]))]
        try storage.commit(StorageChanges(changes))
        _ = try await sessions[0].commit(CommitOptions([.remove(1)]))
        _ = try await sessions[0].add(["ben"])
        let other = try await anna.createGroup()
        _ = try await other.add(["ben"])
        // A new run, which has nothing of the group in memory.
        let again = try client("ben", delivery, storage)
        #expect(try await again.receiveWelcomes().map(\.groupID) == [other.groupID])
        // Once the damage is gone it is let into the first one, too.
        try await #require(try again.group(group)).forget()
        #expect(try await again.receiveWelcomes().map(\.groupID) == [group])
    }

    @Test func `an old state of the group is not joined`() async throws {
        let delivery = MemoryDelivery()
        let link = UnreliableDelivery(delivery)
        let sessions = try await party([client("anna", delivery), client("ben", link)])
        link.info = try await delivery.groupInfo(of: sessions[0].groupID)
        _ = try await sessions[0].commit()
        try await sessions[1].synchronise()
        await #expect(throws: GroupError.refused(.wrongEpoch)) { try await sessions[1].rejoin() }
        #expect(try await sessions[1].epoch() == 2)
        link.info = nil
        try await sessions[1].rejoin()
        #expect(try await sessions[1].epoch() == 3)
    }

    @Test func `an outsider does not come in by its own commit, and a name is not another's`() async throws {
        let delivery = MemoryDelivery()
        let sessions = try await party([client("anna", delivery), client("ben", delivery)])
        await #expect(throws: GroupError.refused(.externalCommitsNotAccepted)) {
            try await client("dora", delivery).joinExternally(sessions[0].groupID)
        }
        let dora = try client("dora", delivery, acceptsOutsiders: true)
        _ = try await dora.joinExternally(sessions[0].groupID)
        #expect(try await sessions[1].synchronise().refused.map(\.reason) == [.externalCommitsNotAccepted])
        #expect(try await sessions[1].members().count == 2)

        let mallory = CipherSuites.all[0]
        let bundle = try KeyPackageBundle(
            mallory, profile: LeafProfile(credential: .basic(identity: Array("mallory".utf8))),
            signatureKey: mallory.generateSignatureKey(), lifetime: Lifetime(notBefore: noon - 1, notAfter: noon + 9))
        let message = MLSMessage.keyPackage(bundle.keyPackage).bytes
        try await delivery.publish(keyPackages: [message], for: "emma")
        let session = try await client("frida", delivery).createGroup()
        await #expect(throws: GroupError.refused(.credentialRejected)) { try await session.add(["emma"]) }
    }

    @Test(arguments: [UInt64.max, UInt64.max - 1, UInt64(1) << 63, 5, 0])
    func `messages out of their order are not passed over`(position: UInt64) async throws {
        let delivery = MemoryDelivery()
        let link = UnreliableDelivery(delivery)
        let ben = try client("ben", link)
        let sessions = try await party([client("anna", delivery), ben])
        try await sessions[0].say("one")
        link.changes = { DeliveredMessage(position: position, bytes: $0.bytes) }
        await #expect(throws: GroupError.self) { try await sessions[1].synchronise() }
        if position > 0 {
            _ = try await client("cleo", delivery).createGroup().add(["ben"])
            await #expect(throws: GroupError.self) { try await ben.receiveWelcomes() }
        }
        link.changes = { $0 }
        try await sessions[1].synchronise()
        #expect(try await texts(taken(sessions[1])) == ["one"])
        #expect(try await ben.receiveWelcomes().count == (position > 0 ? 1 : 0))
    }
}
