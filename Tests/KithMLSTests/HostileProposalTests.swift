@testable import KithMLS
import Testing

/// Proposals that are good alone, and that not everybody can commit.
@Suite struct HostileProposalTests {
    /// Queues a member's proposal at all others.
    private func propose(_ proposal: Proposal, by proposer: Int, _ members: [Member]) throws {
        let message = try members[proposer].with { group throws in try group.propose(proposal, at: noon) }
        for (index, member) in members.enumerated() where index != proposer { try member.queue(message) }
    }

    private func pin(_ member: Member) -> (PinningAuthenticationService, MemoryGroupStorage) {
        let storage = MemoryGroupStorage()
        let pins = PinningAuthenticationService(storage: storage)
        member.with { $0.configuration.authentication = pins }
        return (pins, storage)
    }

    @Test func `two keys of one name keep nobody from committing`() throws {
        var members = try party(["anna", "ben", "mallory"])
        let (pins, _) = pin(members[0])
        _ = pin(members[1])
        let doras = [Member("dora"), Member("dora")]
        let bundles = try doras.map { try $0.keyPackage() }
        for bundle in bundles { try propose(.add(bundle.keyPackage), by: 2, members) }
        let output = try members[0].commit()
        #expect(output.change.added.map(\.node.signatureKey) == [doras[0].signatureKey.publicKey])
        #expect(try pins.key(of: doras[0].profile.credential) == doras[0].signatureKey.publicKey)
        for member in members[1...] { try member.follow(output.commit) }
        try doras[0].join(output.welcome, bundles[0])
        members.append(doras[0])
        try agree(members)
    }

    @Test func `an Add whose key is another's by now keeps nobody from committing`() throws {
        let members = try party(["anna", "ben", "mallory"])
        let (pins, _) = pin(members[0])
        let (one, other) = (Member("dora"), Member("dora"))
        try propose(.add(one.keyPackage().keyPackage), by: 2, members)
        try pins.pin(other.signatureKey.publicKey, to: other.profile.credential)
        let output = try members[0].commit(CommitOptions([.add(other.keyPackage().keyPackage)]))
        #expect(output.change.added.map(\.node.signatureKey) == [other.signatureKey.publicKey])
    }

    @Test func `an external sender whose key is another's by now keeps nobody from committing`() throws {
        let members = try party(["anna", "ben", "mallory"])
        let (pins, _) = pin(members[0])
        let office = Member("office")
        let sender = ExternalSender(
            signatureKey: office.signatureKey.publicKey, credential: office.profile.credential)
        try propose(.groupContextExtensions([.externalSenders([sender])]), by: 2, members)
        try pins.pin(Member("office").signatureKey.publicKey, to: office.profile.credential)
        let output = try members[0].commit()
        #expect(output.change.extensions == nil)
        for member in members[1...] { try member.follow(output.commit) }
        try agree(members)
    }

    @Test func `a commit, a Welcome and a group that are refused pin nobody`() throws {
        let members = try party(["anna", "ben"])
        let (_, storage) = pin(members[0])
        let (emma, doras) = (Member("emma"), [Member("dora"), Member("dora")])
        let bundle = try emma.keyPackage()
        let packages = try [bundle.keyPackage] + doras.map { try $0.keyPackage().keyPackage }
        let output = try members[1].commit(CommitOptions(packages.map { .add($0) }))
        #expect(throws: MLSError.credentialRejected) { try members[0].follow(output.commit) }
        #expect(try storage.items(.pin).isEmpty)
        #expect(throws: MLSError.credentialRejected) {
            try members[0].commit(CommitOptions(packages.map { .add($0) }))
        }
        #expect(try storage.items(.pin).isEmpty)

        var configuration = configuration()
        configuration.authentication = PinningAuthenticationService(storage: storage)
        guard case .welcome(let welcome)? = output.welcome else { throw MLSError.unexpectedWireFormat }
        let info = try members[1].with { group throws in try group.groupInfo() }
        for isExternal in [false, true] {
            let error = #expect(throws: MLSError.self) {
                if isExternal {
                    _ = try ExternalJoin(
                        info, profile: profile("frida"), signatureKey: cipherSuite().generateSignatureKey(),
                        configuration: configuration)
                } else {
                    _ = try Group(joining: welcome, with: bundle, configuration: configuration)
                }
            }
            #expect(error == .credentialRejected)
        }
        #expect(try storage.items(.pin).isEmpty)
    }
}

/// Messages and commits that make a member believe something about itself.
@Suite struct ForgedSenderTests {
    /// A commit under another member's number, with content that is its own or junk.
    private func commit(_ message: PrivateMessage, from leaf: UInt32, by member: Member) throws -> MLSMessage {
        try member.with { group throws in
            let suite = group.cipherSuite
            var message = message
            message.ciphertext = [UInt8](repeating: 8, count: 200)
            let outer = SenderDataKey(suite, group.state.secrets.senderData, ciphertext: message.ciphertext)
            let data = SenderData(leafIndex: leaf, generation: 0, reuseGuard: [1, 2, 3, 4])
            var aad = TLSWriter()
            aad.opaque(message.groupID)
            aad.integer(message.epoch)
            message.contentType.encode(into: &aad)
            message.encryptedSenderData = suite.seal(
                data.encoded, key: outer.key, nonce: outer.nonce, authenticating: aad.bytes)
            return .privateMessage(message)
        }
    }

    @Test func `a commit under a member's own number that is not its own is refused`() throws {
        let members = try party(["anna", "ben", "mallory"])
        let output = try members[2].with { group throws in try group.stageCommit(at: noon) }
        guard case .privateMessage(let message) = output.commit else { throw MLSError.unexpectedWireFormat }
        let forged = try commit(message, from: 1, by: members[2])
        for member in members[0..<2] {
            let error = #expect(throws: MLSError.self) {
                try member.with { group throws in _ = try group.process(forged, at: noon) }
            }
            #expect(error == .decryptionFailed)
        }
        try agree(Array(members[0..<2]))
    }

    @Test func `a message that comes back is its sender's once`() throws {
        let members = try party(["anna", "ben"])
        let message = try members[0].with { group throws in try group.encrypt([1]) }
        let other = try members[0].with { group throws in try group.encrypt([2]) }
        for one in [message, other] {
            try members[0].with { group throws in
                guard case .own(let own) = try group.process(one, at: noon) else {
                    throw MLSError.unexpectedWireFormat
                }
                #expect(own == OwnMessage(kind: .remembered(.application), epoch: 1))
            }
        }
        for one in [other, message] {
            let error = #expect(throws: MLSError.self) {
                try members[0].with { group throws in _ = try group.process(one, at: noon) }
            }
            #expect(error == .messageKeyUsed)
        }
        try agree(members)
    }

    @Test func `a commit of a state that was lost is its own, and its key is not used again`() throws {
        let members = try party(["anna", "ben"])
        let stored = members[0].with { group in
            StoredGroup(groupID: group.groupID, version: 1, rows: group.takeChanges().rows)
        }
        let output = try members[0].with { group throws in try group.stageCommit(at: noon) }
        members[0].take(try Group.restored(from: stored, configuration: configuration()))
        try members[0].with { group throws in
            guard case .own(let own) = try group.process(output.commit, at: noon) else {
                throw MLSError.unexpectedWireFormat
            }
            #expect(own == OwnMessage(kind: .unknown(.commit), epoch: 1))
        }
        let error = #expect(throws: MLSError.self) {
            try members[0].with { group throws in _ = try group.process(output.commit, at: noon) }
        }
        #expect(error == .messageKeyUsed)
    }
}

/// Proposals that would fill a member's memory.
@Suite struct ProposalSizeTests {
    @Test func `the proposals of an epoch are bounded by their size`() throws {
        let members = try party(["anna", "ben"])
        members[1].with { $0.configuration.queuedProposalBytes = 10_000 }
        func proposal(_ number: UInt8, _ size: Int) throws -> MLSMessage {
            let id = PreSharedKeyID(
                key: .external(id: [UInt8](repeating: number, count: size)),
                nonce: [UInt8](repeating: 3, count: cipherSuite().secretLength))
            return try members[0].with { group throws in try group.propose(.psk(id), at: noon) }
        }
        try members[1].queue(proposal(1, 6_000))
        #expect(throws: MLSError.tooManyProposals) { try members[1].queue(proposal(2, 6_000)) }
        try members[1].queue(proposal(3, 3_000))
        // In the next epoch there is room again.
        var options = CommitOptions()
        options.chosenProposals = []
        let output = try members[1].commit(options)
        try members[0].follow(output.commit)
        try members[1].queue(proposal(4, 6_000))
    }
}
