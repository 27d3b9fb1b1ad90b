import KithMLS
import Testing

@Suite struct GroupTests {
    @Test(arguments: [1, 2, 3, 5, 7] as [UInt16])
    func `members who were added together agree and talk`(number: UInt16) throws {
        _ = try party(["anna", "ben", "cleo", "dora", "emil"], cipherSuite(number))
    }

    @Test(arguments: [WireFormat.publicMessage, .privateMessage])
    func `add, update, remove and an empty commit by value and by reference`(format: WireFormat) throws {
        var members = try party(["anna", "ben", "cleo", "dora"], handshake: format)
        // An empty commit renews the committer's keys.
        let empty = try members[2].commit()
        #expect(empty.change.hasPath)
        for member in members where member !== members[2] { try member.follow(empty.commit) }
        try agree(members)
        // An update by reference, committed by another.
        let update = try members[1].with { group throws in try group.proposeUpdate() }
        for member in members where member !== members[1] { try member.queue(update) }
        let committed = try members[3].commit()
        #expect(committed.change.updated.map(\.leaf).sorted() == [1, 3])
        for member in members where member !== members[3] { try member.follow(committed.commit) }
        try agree(members)
        // An add by reference.
        let emil = Member("emil")
        let bundle = try emil.keyPackage()
        let add = try members[0].with { group throws in try group.propose(.add(bundle.keyPackage), at: noon) }
        for member in members where member !== members[0] { try member.queue(add) }
        let added = try members[1].commit()
        for member in members where member !== members[1] { try member.follow(added.commit) }
        try emil.join(added.welcome, bundle, handshake: format)
        members.append(emil)
        try agree(members)
        // A removal: the removed member notices and is out.
        let removed = try members[4].commit(CommitOptions([.remove(2)]))
        #expect(removed.change.removed.map(\.leaf) == [2])
        for member in members where member !== members[4] { try member.follow(removed.commit) }
        #expect(members[2].with { $0.isRemoved })
        #expect(throws: MLSError.removedFromGroup) {
            try members[2].with { group throws in _ = try group.encrypt([1]) }
        }
        members.remove(at: 2)
        try agree(members)
    }

    @Test func `a group grows and shrinks one by one`() throws {
        var members = try party(["0"])
        for number in 1..<18 {
            let member = Member("\(number)")
            let bundle = try member.keyPackage()
            let committer = members[number * 7 % members.count]
            let output = try committer.commit(CommitOptions([.add(bundle.keyPackage)]))
            for other in members where other !== committer { try other.follow(output.commit) }
            try member.join(output.welcome, bundle)
            members.append(member)
            try agree(members)
        }
        while members.count > 1 {
            let committer = members[members.count * 5 % (members.count - 1)]
            let leaving = members.removeLast()
            let leaf = leaving.leaf
            let output = try committer.commit(CommitOptions([.remove(leaf)]))
            for other in members where other !== committer { try other.follow(output.commit) }
            if members.count > 1 { try agree(members) }
        }
        #expect(members[0].with { $0.tree.memberCount } == 1)
    }

    @Test func `a staged commit changes nothing before it is confirmed`() throws {
        let members = try party(["anna", "ben"])
        let before = members[0].authenticator
        let output = try members[0].with { group throws in try group.stageCommit(at: noon) }
        #expect(members[0].authenticator == before)
        #expect(throws: MLSError.commitPending) {
            try members[0].with { group throws in _ = try group.stageCommit(at: noon) }
        }
        members[0].with { $0.discardPendingCommit() }
        #expect(throws: MLSError.noPendingCommit) {
            try members[0].with { group throws in _ = try group.confirmPendingCommit() }
        }
        // The discarded commit is nobody's; another takes its place.
        let other = try members[1].commit()
        try members[0].follow(other.commit)
        #expect(throws: MLSError.wrongEpoch) { try members[0].follow(output.commit) }
        try agree(members)
    }

    @Test(arguments: [WireFormat.publicMessage, .privateMessage])
    func `an own commit that comes back is known`(format: WireFormat) throws {
        let members = try party(["anna", "ben"], handshake: format)
        let output = try members[0].with { group throws in try group.stageCommit(at: noon) }
        try members[0].with { group throws in
            guard case .own(let own) = try group.process(output.commit, at: noon) else {
                Issue.record("not known as own")
                return
            }
            #expect(own.kind == .pendingCommit)
            _ = try group.confirmPendingCommit(at: noon)
        }
        try members[1].follow(output.commit)
        try agree(members)
        let message = try members[0].with { group throws in try group.encrypt([1, 2, 3]) }
        try members[0].with { group throws in
            guard case .own(let own) = try group.process(message, at: noon) else {
                Issue.record("not known as own")
                return
            }
            #expect(own.kind == .remembered(.application))
        }
    }

    @Test func `of two commits the accepted one wins and the other's proposals are named`() throws {
        let members = try party(["anna", "ben", "cleo"])
        let update = try members[2].with { group throws in try group.proposeUpdate() }
        try members[0].queue(update)
        try members[1].queue(update)
        _ = try members[0].with { group throws in try group.stageCommit(at: noon) }
        var options = CommitOptions()
        options.includesQueuedProposals = false
        let winner = try members[1].commit(options)
        try members[0].with { group throws in
            guard case .commit(let staged) = try group.process(winner.commit, at: noon) else {
                Issue.record("not a commit")
                return
            }
            let (change, leftOut) = try group.confirm(staged, at: noon)
            #expect(change.committer == 1)
            #expect(leftOut.map(\.sender) == [.member(2)])
            let hasPendingCommit = group.hasPendingCommit
            #expect(!hasPendingCommit)
        }
        try members[2].follow(winner.commit)
        try agree(members)
    }

    @Test func `proposals that are good alone and bad in company keep nobody from committing`() throws {
        var members = try party(["anna", "ben", "cleo", "dora"])
        let emil = Member("emil")
        let (first, second) = (try emil.keyPackage(), try emil.keyPackage())
        func queue(_ proposal: Proposal, from sender: Int) throws {
            let message = try members[sender].with { group throws in try group.propose(proposal, at: noon) }
            for (index, member) in members.enumerated() where index != sender { try member.queue(message) }
        }
        // Twice one client, a client that is a member, a key that nobody has, an update of one who is to go.
        try queue(.add(first.keyPackage), from: 0)
        try queue(.add(second.keyPackage), from: 1)
        try queue(.add(members[2].keyPackage().keyPackage), from: 0)
        try queue(.psk(members[0].with { $0.presharedKeyID(.external(id: [99])) }), from: 0)
        let update = try members[3].with { group throws in try group.proposeUpdate() }
        for member in members.dropLast() { try member.queue(update) }
        let output = try members[1].commit(CommitOptions([.remove(3)]))
        #expect(output.change.added.map(\.leaf) == [3])
        #expect(output.change.removed.map(\.leaf) == [3])
        #expect(output.change.psks.isEmpty)
        for member in members where member !== members[1] { try member.follow(output.commit) }
        try emil.join(output.welcome, first)
        members[3] = emil
        try agree(members)
    }

    @Test func `a member replaces its credential and signature key`() throws {
        struct Anybody: AuthenticationService {
            func isValid(_ credential: Credential, signatureKey: SignaturePublicKey, for event: CredentialEvent) -> Bool
            {
                true
            }
            func isSuccessor(_ new: Credential, of old: Credential) -> Bool { true }
            func isSameParticipant(_ one: Credential, _ other: Credential) -> Bool { one == other }
        }
        let members = try party(["anna", "ben", "cleo"])
        for member in members { member.with { $0.configuration.authentication = Anybody() } }
        var options = CommitOptions()
        options.profile = profile("anna, the second")
        options.signatureKey = cipherSuite().generateSignatureKey()
        let output = try members[0].commit(options)
        for member in members.dropFirst() { try member.follow(output.commit) }
        try agree(members)
        let key = cipherSuite().generateSignatureKey()
        let update = try members[1].with { group throws in
            try group.proposeUpdate(profile: profile("ben, the second"), signatureKey: key)
        }
        try members[0].queue(update)
        try members[2].queue(update)
        let committed = try members[2].commit()
        for member in members.dropLast() { try member.follow(committed.commit) }
        try agree(members)
        #expect(members[2].with { $0.tree.leaf(1)?.signatureKey } == key.publicKey)
    }

    @Test func `exported secrets are the same for all and differ by label, context and length`() throws {
        let members = try party(["anna", "ben"])
        func export(_ member: Member, _ label: String, _ context: [UInt8], _ count: Int) throws -> [UInt8] {
            try member.with { group throws in try group.export(label: label, context: context, count: count).reveal() }
        }
        #expect(try export(members[0], "a", [1], 32) == export(members[1], "a", [1], 32))
        #expect(try export(members[0], "a", [1], 32) != export(members[0], "b", [1], 32))
        #expect(try export(members[0], "a", [1], 32) != export(members[0], "a", [2], 32))
        #expect(try export(members[0], "a", [1], 100).count == 100)
        #expect(throws: MLSError.exportTooLong) { try export(members[0], "a", [1], 255 * 32 + 1) }
    }
}
