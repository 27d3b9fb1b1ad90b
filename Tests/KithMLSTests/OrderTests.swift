@testable import KithMLS
import Testing

/// Messages that come late, early, twice or never.
@Suite struct OrderTests {
    private func send(_ sender: Member, _ count: Int) throws -> [MLSMessage] {
        try (0..<count).map { number in try sender.with { group throws in try group.encrypt([UInt8(number)]) } }
    }

    @Test func `messages of one epoch may come in any order within the window`() throws {
        let members = try party(["anna", "ben"])
        let messages = try send(members[0], 40)
        for index in [39, 0, 20, 1, 38, 2] + Array(3...19) {
            #expect(try members[1].read(messages[index]).data == [UInt8(index)])
        }
        #expect(throws: MLSError.messageKeyUsed) { try members[1].read(messages[20]) }
    }

    @Test func `keys beyond the window are given up`() throws {
        let members = try party(["anna", "ben"])
        members[1].with { $0.configuration.ratchetLimits = RatchetLimits(forward: 30, outOfOrder: 4) }
        let messages = try send(members[0], 33)
        #expect(throws: MLSError.generationTooFarAhead) { try members[1].read(messages[31]) }
        _ = try members[1].read(messages[10])
        for index in 6...9 { _ = try members[1].read(messages[index]) }
        #expect(throws: MLSError.messageKeyUsed) { try members[1].read(messages[5]) }
        _ = try members[1].read(messages[32])
    }

    @Test func `a message that cannot be decrypted costs nothing`() throws {
        let members = try party(["anna", "ben"])
        let message = try send(members[0], 1)[0]
        guard case .privateMessage(var broken) = message else { throw MLSError.unexpectedWireFormat }
        broken.ciphertext[0] ^= 1
        #expect(throws: MLSError.decryptionFailed) { try members[1].read(.privateMessage(broken)) }
        _ = try members[1].read(message)
    }

    @Test func `late messages are read while their epoch is kept, by count`() throws {
        let members = try party(["anna", "ben"])
        members[1].with { $0.configuration.retention = EpochRetention(epochs: 2) }
        var late: [MLSMessage] = []
        for _ in 0..<3 {
            late += try send(members[0], 1)
            try members[1].follow(members[0].commit().commit)
        }
        #expect(throws: MLSError.wrongEpoch) { try members[1].read(late[0]) }
        #expect(try members[1].read(late[1]).epoch == 2)
        #expect(try members[1].read(late[2]).epoch == 3)
        #expect(throws: MLSError.messageKeyUsed) { try members[1].read(late[2]) }
    }

    @Test func `late messages are read while their epoch is kept, by age and by number`() throws {
        let members = try party(["anna", "ben"])
        members[1].with { $0.configuration.retention = EpochRetention(epochs: 5, seconds: 100, messages: 2) }
        let late = try send(members[0], 4)
        try members[1].follow(members[0].commit().commit)
        for index in 0..<2 { _ = try members[1].read(late[index]) }
        #expect(throws: MLSError.wrongEpoch) { try members[1].read(late[2]) }
        let later = try send(members[0], 1)
        try members[1].follow(members[0].commit().commit)
        #expect(throws: MLSError.wrongEpoch) {
            try members[1].with { group throws in _ = try group.process(later[0], at: noon + 100) }
        }
    }

    @Test func `used keys, passed nodes and replaced private keys are deleted`() throws {
        let members = try party(["anna", "ben", "cleo"])
        let fresh = try members[2].commit()
        for member in members.dropLast() { try member.follow(fresh.commit) }
        let before = members[1].with { $0.state.keys.parents }
        // §9.2: an own message consumes the nodes above the sender in the secret tree.
        let held = members[0].with { $0.state.secretTree.knownNodes }
        #expect(held == [3])
        _ = try send(members[0], 1)
        #expect(members[0].with { $0.state.secretTree.knownNodes } == [2, 5])
        _ = try members[2].with { group throws in try group.encrypt([1]) }
        // §7.5: keys of nodes that another's path replaces are gone.
        try members[1].follow(members[0].commit().commit)
        let after = members[1].with { $0.state.keys.parents }
        for (node, key) in before { #expect(after[node]?.publicKey != key.publicKey) }
    }

    @Test func `no description of a group or an error shows a secret`() throws {
        let members = try party(["anna", "ben"])
        let (leaf, signature) = members[0].with { ($0.state.keys.leaf, $0.signatureKey) }
        let secrets = [leaf.reveal(), signature.reveal()]
        var shown = ""
        dump(leaf, to: &shown)
        dump(signature, to: &shown)
        shown += "\(leaf) \(signature)"
        for secret in secrets {
            #expect(!shown.contains(secret.map { String($0) }.joined(separator: ", ")))
        }
    }
}
