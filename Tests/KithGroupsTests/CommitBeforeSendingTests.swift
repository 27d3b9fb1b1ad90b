import KithGroups
import KithMLS
import KithTesting
import Testing

/// Data that proposals stand in the way of (RFC 9420 §12.4).
@Suite struct CommitBeforeSendingTests {
    @Test func `proposals are committed before data is sent`() async throws {
        let delivery = MemoryDelivery()
        let sessions = try await party(["anna", "ben", "cleo"].map { try client($0, delivery) })
        try await sessions[2].proposeUpdate()
        try await sessions[0].synchronise()
        #expect(try await sessions[0].queuedProposals().count == 1)
        let sent = try await sessions[0].send(Array("one".utf8))
        #expect(sent.isDelivered && sent.epoch == 2 && !sent.bytes.isEmpty)
        for session in sessions.dropFirst() {
            #expect(try await session.synchronise().refused.isEmpty)
            #expect(try await session.epoch() == 2)
            #expect(try await texts(taken(session)) == ["one"])
        }
    }

    @Test func `who leaves is removed with the next message of another, and reads it no more`() async throws {
        let delivery = MemoryDelivery()
        let sessions = try await party(["anna", "ben", "cleo"].map { try client($0, delivery) })
        try await sessions[2].leave()
        #expect(try await !sessions[2].isRemoved())
        // That commit is not its to make.
        await #expect(throws: GroupError.refused(.commitRequired)) { try await sessions[2].say("goodbye") }
        try await sessions[0].synchronise()
        try await sessions[0].say("one")
        for session in sessions { #expect(try await session.synchronise().refused.isEmpty) }
        #expect(try await sessions[0].members().count == 2)
        #expect(try await texts(taken(sessions[1])) == ["one"])
        let last = try await taken(sessions[2])
        #expect(texts(last).isEmpty)
        guard case .removed = last.last else {
            Issue.record("not removed: \(last)")
            return
        }
        #expect(try await sessions[2].isRemoved())
        try await sessions[2].forget()
    }

    @Test func `whoever loses the commit to another sends in the epoch of the winner`() async throws {
        let delivery = MemoryDelivery()
        let sessions = try await party(["anna", "ben", "cleo"].map { try client($0, delivery) })
        try await sessions[2].proposeUpdate()
        for session in sessions.prefix(2) { try await session.synchronise() }
        try await sessions[0].say("one")
        // Ben has not seen Anna's commit.
        #expect(try await sessions[1].epoch() == 1)
        let sent = try await sessions[1].send(Array("two".utf8))
        #expect(sent.isDelivered && sent.epoch == 2)
        for session in sessions { #expect(try await session.synchronise().refused.isEmpty) }
        #expect(try await texts(taken(sessions[2])) == ["one", "two"])
        #expect(try await texts(taken(sessions[1])) == ["one"])
    }

    @Test func `all who talk at once over a proposal are heard, in one more epoch`() async throws {
        let delivery = MemoryDelivery()
        let sessions = try await party((0..<6).map { try client("member \($0)", delivery) })
        try await sessions[0].proposeUpdate()
        for session in sessions { try await session.synchronise() }
        _ = try await concurrentlySaying(sessions)
        for session in sessions { #expect(try await session.synchronise().refused.isEmpty) }
        for (index, session) in sessions.enumerated() {
            #expect(try await session.epoch() == 2)
            let heard = try await texts(taken(session))
            #expect(heard.sorted() == (0..<6).filter { $0 != index }.map { "from \($0)" })
        }
    }

    @Test func `without the delivery service the data waits for its commit, also across a restart`() async throws {
        let delivery = MemoryDelivery()
        let link = UnreliableDelivery(delivery)
        let storage = MemoryGroupStorage()
        let sessions = try await party([client("anna", link, storage), client("ben", delivery)])
        try await sessions[1].proposeUpdate()
        try await sessions[0].synchronise()
        link.losesMessages = true
        let sent = try await sessions[0].send(Array("one".utf8))
        #expect(!sent.isDelivered && sent.bytes.isEmpty)
        try await sessions[0].say("two")
        link.losesMessages = false
        let anna = try #require(try client("anna", link, storage).group(sessions[0].groupID))
        #expect(try await anna.waitingMessages().map(\.data) == [Array("one".utf8), Array("two".utf8)])
        try await anna.synchronise()
        #expect(try await anna.waitingMessages().isEmpty)
        try await sessions[1].synchronise()
        #expect(try await sessions[1].epoch() == 2)
        #expect(try await texts(taken(sessions[1])) == ["one", "two"])
    }

    @Test func `data that is to be encrypted again commits what was proposed meanwhile`() async throws {
        let delivery = MemoryDelivery()
        let link = UnreliableDelivery(delivery)
        let sessions = try await party([client("anna", link), client("ben", delivery)])
        link.losesMessages = true
        try await sessions[0].say("one")
        _ = try await sessions[1].commit()
        try await sessions[1].proposeUpdate()
        link.losesMessages = false
        try await sessions[0].synchronise()
        #expect(try await sessions[0].epoch() == 3)
        #expect(try await sessions[0].waitingMessages().isEmpty)
        try await sessions[1].synchronise()
        #expect(try await texts(taken(sessions[1])) == ["one"])
    }

    @Test func `what is for others or the application to commit is refused, and nothing changes`() async throws {
        let delivery = MemoryDelivery()
        let sessions = try await party([
            client("anna", delivery), client("ben", delivery), client("cleo", delivery, commitsBeforeSending: false),
        ])
        // A member that is about to leave cannot commit that itself, and must not undo it by talking.
        try await sessions[1].propose(.remove(1))
        for session in sessions { try await session.synchronise() }
        for session in sessions[1...] {
            await #expect(throws: GroupError.refused(.commitRequired)) { try await session.say("one") }
            #expect(try await session.epoch() == 1)
            #expect(try await session.waitingMessages().isEmpty)
        }
        // A staged commit awaits the application's word.
        _ = try await sessions[0].stageCommit()
        await #expect(throws: GroupError.refused(.commitPending)) { try await sessions[0].say("one") }
        #expect(try await sessions[0].epoch() == 1)
        try await sessions[0].discardPendingCommit()
        try await sessions[0].say("one")
        #expect(try await sessions[0].members().count == 2)
        try await sessions[2].synchronise()
        #expect(try await texts(taken(sessions[2])) == ["one"])

        let suite = sessions[0].client.options.suite.id
        try await sessions[2].propose(
            .reInit(ReInit(groupID: [9], version: .mls10, cipherSuite: suite, extensions: [])))
        try await sessions[0].synchronise()
        await #expect(throws: GroupError.refused(.commitRequired)) { try await sessions[0].say("two") }
    }

    private func concurrentlySaying(_ sessions: [GroupSession]) async throws {
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            for (index, session) in sessions.enumerated() {
                tasks.addTask { try await session.say("from \(index)") }
            }
            try await tasks.waitForAll()
        }
    }
}
