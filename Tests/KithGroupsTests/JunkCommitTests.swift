import Foundation
import KithGroups
import KithMLS
import KithTesting
import Testing

/// Commits that the delivery service takes, and nobody can follow.
@Suite struct JunkCommitTests {
    private func send(_ message: [UInt8], _ session: GroupSession, _ delivery: any GroupDelivery) async throws {
        guard case .accepted = try await delivery.send(message, to: session.groupID) else {
            Issue.record("the service has not taken it")
            return
        }
    }

    @Test(arguments: [1, 2, 3, 5])
    func `a group outlives a junk commit, and another, and whoever waited is heard`(count: Int) async throws {
        let delivery = MemoryDelivery()
        let clients = try (0..<count).map { try client("member \($0)", delivery) }
        let sessions = count > 1 ? try await party(clients) : [try await clients[0].createGroup()]
        try await sessions[0].synchronise()
        for round in 0..<2 {
            try await send(junkCommit(sessions[0].groupID, epoch: sessions[0].epoch()), sessions[0], delivery)
            // What is said meanwhile waits; a commit is lost.
            #expect(try await !sessions[0].send(Array("\(round)".utf8)).isDelivered)
            guard case .lost = try await sessions[0].commit() else {
                Issue.record("two commits of one epoch")
                return
            }
            for session in sessions { #expect(try await session.synchronise().refused.count == 1) }
            for session in sessions { try await session.synchronise() }
            #expect(try await sessions[0].waitingMessages().isEmpty)
            guard case .confirmed = try await sessions[count - 1].commit() else {
                Issue.record("the epoch is not open again")
                return
            }
            for session in sessions { #expect(try await session.synchronise().refused.isEmpty) }
            for session in sessions {
                #expect(try await session.agreement() == sessions[0].agreement())
                #expect(try await texts(taken(session)) == (session === sessions[0] ? [] : ["\(round)"]))
            }
        }
    }

    @Test func `a commit of a member whose confirmation is wrong is no end either`() async throws {
        let delivery = MemoryDelivery()
        var clients = try ["anna", "ben", "cleo"].map { try client($0, delivery) }
        let (link, storage) = (UnreliableDelivery(delivery), MemoryGroupStorage())
        clients[2] = try client("cleo", link, storage)
        let sessions = try await party(clients)
        // Cleo's commit is signed and encrypted as it should be, for another epoch than the others have.
        let id = PreSharedKeyID(key: .external(id: [5]), nonce: [UInt8](repeating: 3, count: 32))
        try clients[2].addPresharedKey([5], Secret(copying: [1]))
        for client in clients[0..<2] { try client.addPresharedKey([5], Secret(copying: [2])) }
        guard case .confirmed = try await sessions[2].commit(CommitOptions([.psk(id)])) else {
            Issue.record("not confirmed")
            return
        }
        for session in sessions[0..<2] {
            #expect(try await session.synchronise().refused.map(\.reason) == [.invalidConfirmationTag])
        }
        guard case .confirmed = try await sessions[0].commit(CommitOptions([.remove(2)])) else {
            Issue.record("the epoch is not open again")
            return
        }
        #expect(try await sessions[1].synchronise().refused.isEmpty)
        #expect(try await sessions[0].agreement() == sessions[1].agreement())
    }

    @Test func `words about a commit count once somebody shows who the members are`() async throws {
        let delivery = MemoryDelivery()
        let link = UnreliableDelivery(delivery)
        let storages = [MemoryGroupStorage(), MemoryGroupStorage()]
        let clients = try [
            client("anna", link), client("ben", delivery, storages[0]), client("cleo", delivery, storages[1]),
        ]
        let sessions = try await party(clients)
        let group = sessions[0].groupID
        // Anna begins an epoch, and nobody learns from her who is in it.
        link.losesStates = true
        guard case .confirmed = try await sessions[0].commit() else {
            Issue.record("not confirmed")
            return
        }
        for session in sessions[1...] { try await session.synchronise() }
        let junk = junkCommit(group, epoch: 2)
        try await send(junk, sessions[0], delivery)
        for storage in storages {
            let member = try Group.restored(
                from: #require(try storage.load(group)), configuration: options().configuration)
            try await delivery.send(refusal: member.refusal(of: junk).bytes, to: group)
        }
        guard case .lost = try await sessions[1].commit() else {
            Issue.record("two commits of one epoch")
            return
        }
        link.losesStates = false
        try await sessions[0].synchronise()
        guard case .confirmed = try await sessions[0].commit() else {
            Issue.record("the epoch is not open again")
            return
        }
        for session in sessions { try await session.synchronise() }
        for session in sessions { #expect(try await session.agreement() == sessions[0].agreement()) }
    }

    @Test func `a junk commit is no end where the epoch's maker is away`() async throws {
        let delivery = MemoryDelivery()
        let link = UnreliableDelivery(delivery)
        let clients = try [client("anna", link), client("ben", delivery), client("cleo", delivery)]
        let sessions = try await party(clients)
        link.losesStates = true
        _ = try await sessions[0].commit()
        for session in sessions[1...] { try await session.synchronise() }
        try await send(junkCommit(sessions[0].groupID, epoch: 2), sessions[0], delivery)
        for session in sessions[1...] { #expect(try await session.synchronise().refused.count == 1) }
        guard case .confirmed = try await sessions[1].commit() else {
            Issue.record("the epoch is not open again")
            return
        }
    }

    @Test func `a minority does not open an epoch, nor do an outsider, a copy, or words about another commit`()
        async throws
    {
        let delivery = MemoryDelivery()
        let storage = MemoryGroupStorage()
        let names = ["anna", "ben", "cleo", "dora"]
        let clients = try names.map { try client($0, delivery, $0 == "ben" ? storage : MemoryGroupStorage()) }
        let sessions = try await party(clients)
        let group = sessions[0].groupID
        func word(about commit: [UInt8]) throws -> [UInt8] {
            let stored = try #require(try storage.load(group))
            let ben = try Group.restored(from: stored, configuration: options().configuration)
            return try ben.refusal(of: commit).bytes
        }
        let early = try word(about: [1])
        let position = UInt64(try await delivery.messages(of: group, from: 0, limit: 100).count)
        guard case .confirmed = try await sessions[0].commit() else {
            Issue.record("not confirmed")
            return
        }
        let commit = try #require(try await delivery.messages(of: group, from: position, limit: 1).first).bytes
        let ben = try word(about: commit)
        var forged = ben
        forged[forged.count - 1] ^= 1
        for bytes in [early, forged, ben, ben, ben] { try await delivery.send(refusal: bytes, to: group) }
        await #expect(throws: DeliveryError.self) { try await delivery.send(refusal: [1, 2], to: group) }
        // The epoch is over: one of three is no majority.
        #expect(try await delivery.send(junkCommit(group, epoch: 1), to: group) == .refused)
        for session in sessions { #expect(try await session.synchronise().refused.isEmpty) }
        #expect(try await sessions[3].agreement() == sessions[0].agreement())
    }

    @Test func `a service on a disk remembers that an epoch was opened again`() async throws {
        let folder = try TemporaryFolder()
        let place = folder.path + "/delivery"
        let delivery = try FileDelivery(path: place)
        let sessions = try await party(["anna", "ben"].map { try client($0, delivery) })
        try await send(junkCommit(sessions[0].groupID, epoch: 1), sessions[0], delivery)
        for session in sessions { try await session.synchronise() }
        let again = try FileDelivery(path: place)
        try await send(junkCommit(sessions[0].groupID, epoch: 1), sessions[0], again)
        #expect(try await again.send(junkCommit(sessions[0].groupID, epoch: 2), to: sessions[0].groupID) == .refused)
        guard case .confirmed = try await sessions[1].commit() else {
            Issue.record("the epoch is not open again")
            return
        }
    }
}
