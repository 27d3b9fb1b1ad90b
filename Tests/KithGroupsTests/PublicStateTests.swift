import KithGroups
import KithMLS
import Testing

/// Public states that somebody who is not a member has made up.
@Suite struct PublicStateTests {
    /// A group of somebody's own, under another group's name.
    private func fork(_ groupID: [UInt8], epoch: UInt64) throws -> Group {
        let suite = CipherSuites.all[0]
        var group = try Group(
            suite, groupID: groupID, profile: LeafProfile(credential: .basic(identity: [1])),
            signatureKey: suite.generateSignatureKey(), lifetime: Lifetime(notBefore: noon - 1, notAfter: noon + 9),
            configuration: options().configuration)
        while group.epoch < epoch {
            _ = try group.stageCommit(at: noon)
            _ = try group.confirmPendingCommit(at: noon)
        }
        return group
    }

    private func state(_ group: borrowing Group) throws -> [UInt8] {
        MLSMessage.groupInfo(try group.groupInfo()).bytes
    }

    @Test func `a made-up state opens no epoch again, and stands in nobody's way`() async throws {
        let delivery = MemoryDelivery()
        let link = UnreliableDelivery(delivery)
        let sessions = try await party([client("anna", link), client("ben", delivery)])
        let group = sessions[0].groupID
        let real = try await delivery.groupInfo(of: group)
        let mallory = try fork(group, epoch: 1)
        try await delivery.publish(groupInfo: state(mallory), of: group)
        #expect(try await delivery.groupInfo(of: group) == real)
        var position = UInt64(try await delivery.messages(of: group, from: 0, limit: 100).count)
        _ = try await sessions[0].commit()
        let commit = try #require(try await delivery.messages(of: group, from: position, limit: 1).first).bytes
        try await delivery.send(refusal: mallory.refusal(of: commit).bytes, to: group)
        #expect(try await delivery.send(junkCommit(group, epoch: 1), to: group) == .refused)
        try await sessions[1].synchronise()

        // Nor where nobody has published the real one.
        link.losesStates = true
        _ = try await sessions[0].commit()
        let later = try fork(group, epoch: 3)
        let made = try state(later)
        try await delivery.publish(groupInfo: made, of: group)
        #expect(try await delivery.groupInfo(of: group) == made)
        try await sessions[1].synchronise()
        position = UInt64(try await delivery.messages(of: group, from: 0, limit: 100).count)
        _ = try await sessions[0].commit()
        let last = try #require(try await delivery.messages(of: group, from: position, limit: 1).first).bytes
        try await delivery.send(refusal: later.refusal(of: last).bytes, to: group)
        try await delivery.publish(groupInfo: made, of: group)
        #expect(try await delivery.send(junkCommit(group, epoch: 3), to: group) == .refused)
        link.losesStates = false
        try await sessions[0].synchronise()
        #expect(try await delivery.groupInfo(of: group) != made)
        try await sessions[1].synchronise()
        #expect(try await sessions[1].agreement() == sessions[0].agreement())
    }

    @Test func `a made-up state of a later epoch does not keep a group from beginning`() async throws {
        let delivery = MemoryDelivery()
        let clients = try [client("anna", delivery), client("ben", delivery)]
        try await clients[1].replenishKeyPackages()
        let session = try await clients[0].createGroup()
        try await session.synchronise()
        try await delivery.publish(groupInfo: state(fork(session.groupID, epoch: 2)), of: session.groupID)
        guard case .confirmed = try await session.add(["ben"]) else {
            Issue.record("the first commit is not taken")
            return
        }
    }

    @Test func `a state that its signer has not signed, or whose tree is another, is refused`() async throws {
        let delivery = MemoryDelivery()
        let mallory = try fork([7], epoch: 0)
        var info = try mallory.groupInfo()
        info.groupContext.epoch = .max
        await #expect(throws: DeliveryError.self) {
            try await delivery.publish(groupInfo: MLSMessage.groupInfo(info).bytes, of: [7])
        }
        #expect(try await delivery.groupInfo(of: [7]) == nil)
    }

    @Test func `a member with a new key shows the next state, or another does`() async throws {
        let delivery = MemoryDelivery()
        let sessions = try await party([client("anna", delivery), client("ben", delivery), client("cleo", delivery)])
        var options = CommitOptions()
        options.signatureKey = CipherSuites.all[0].generateSignatureKey()
        _ = try await sessions[0].commit(options)
        for session in sessions[1...] { try await session.synchronise() }
        // A junk commit now is judged by those who know the new key.
        _ = try await delivery.send(junkCommit(sessions[0].groupID, epoch: 2), to: sessions[0].groupID)
        for session in sessions { try await session.synchronise() }
        for session in sessions { try await session.synchronise() }
        guard case .confirmed = try await sessions[0].commit() else {
            Issue.record("the epoch is not open again")
            return
        }
    }
}
