import KithGroups
import KithMLS
import Testing

/// Members that want another one out.
@Suite struct HostileMemberTests {
    /// Clients in a group whose last member can make commits that all others refuse.
    private func party(_ names: [String]) async throws -> (sessions: [GroupSession], [GroupClient], MemoryDelivery) {
        let delivery = MemoryDelivery()
        let clients = try names.map { try client($0, delivery) }
        let sessions = try await KithGroupsTests.party(clients)
        for (index, client) in clients.enumerated() {
            try client.addPresharedKey([5], Secret(copying: [index == names.count - 1 ? 1 : 2]))
            try client.addPresharedKey([6], Secret(copying: [6]))
        }
        return (sessions, clients, delivery)
    }

    private func key(_ id: UInt8) -> PreSharedKeyID {
        PreSharedKeyID(key: .external(id: [id]), nonce: [UInt8](repeating: 3, count: 32))
    }

    @Test(arguments: [["anna", "ben", "mallory"], ["anna", "ben", "cleo", "dora", "mallory"]])
    func `a commit that the others refuse evicts nobody`(names: [String]) async throws {
        let (sessions, _, _) = try await party(names)
        let mallory = UInt32(names.count - 1)
        try await sessions[0].propose(.psk(key(6)))
        for session in sessions { try await session.synchronise() }
        guard case .confirmed = try await sessions[names.count - 1].commit(CommitOptions([.remove(1), .psk(key(5))]))
        else {
            Issue.record("not confirmed")
            return
        }
        try await sessions[1].synchronise()
        #expect(try await sessions[1].isRemoved())
        for session in sessions.dropLast() where session !== sessions[1] {
            #expect(try await session.synchronise().refused.map(\.reason) == [.invalidConfirmationTag])
        }
        // The proposal from before is part of it.
        guard case .confirmed(let change) = try await sessions[0].commit(CommitOptions([.remove(mallory)])) else {
            Issue.record("the epoch is not open again")
            return
        }
        #expect(change.psks == [key(6)] && change.removed.map(\.leaf) == [mallory])
        for session in sessions.dropLast() { #expect(try await session.synchronise().refused.isEmpty) }
        #expect(try await !sessions[1].isRemoved())
        for session in sessions.dropLast() { #expect(try await session.agreement() == sessions[0].agreement()) }
        try await sessions[1].say("still here")
        try await sessions[0].synchronise()
        #expect(try await texts(taken(sessions[0])) == ["still here"])
    }

    @Test func `whoever is removed does not open the epoch again`() async throws {
        for names in [["anna", "ben"], ["anna", "ben", "cleo"]] {
            let (sessions, _, delivery) = try await party(names)
            _ = try await sessions[0].commit(CommitOptions([.remove(1)]))
            for session in sessions { try await session.synchronise() }
            let group = sessions[0].groupID
            #expect(try await delivery.send(junkCommit(group, epoch: 1), to: group) == .refused)
            #expect(try await sessions[1].isRemoved())
        }
    }
}
