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
