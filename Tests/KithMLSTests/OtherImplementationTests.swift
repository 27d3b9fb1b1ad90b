import Foundation
@testable import KithMLS
import KithMLSVectors
import Testing

/// The defaults against what others send, and the choices they have.
@Suite struct OtherImplementationTests {
    private func configuration() -> GroupConfiguration {
        GroupConfiguration(authentication: TrustingAuthenticationService())
    }

    @Test func `a key package that never expires is taken, and its member is joined with`() throws {
        let (anna, ben, cleo) = (Member("anna"), Member("ben"), Member("cleo"))
        // The lifetime that mlspp gives a key package by default.
        let forever = Lifetime(notBefore: 0, notAfter: .max)
        let eternal = try KeyPackageBundle(
            ben.suite, profile: ben.profile, signatureKey: ben.signatureKey, lifetime: forever)
        try eternal.keyPackage.validate(
            ben.suite, at: noon, maximumLifetime: configuration().maximumLifetime,
            authentication: TrustingAuthenticationService())
        var group = try Group(
            anna.suite, profile: anna.profile, signatureKey: anna.signatureKey, lifetime: lifetime(),
            configuration: configuration())
        let bundle = try cleo.keyPackage()
        let output = try group.stageCommit(
            CommitOptions([.add(eternal.keyPackage), .add(bundle.keyPackage)]), at: noon)
        _ = try group.confirmPendingCommit(at: noon)
        guard case .welcome(let welcome)? = output.welcome else { throw MLSError.unexpectedWireFormat }
        var options = JoinOptions()
        options.now = noon
        let joined = try Group(joining: welcome, with: bundle, options, configuration: configuration())
        #expect(joined.epochAuthenticator == group.epochAuthenticator)
    }

    @Test(arguments: [false, true])
    func `a successor and a branch begin with a path, and with the tree beside the Welcome`(isBranch: Bool) throws {
        let members = try party(["anna", "ben"])
        if !isBranch {
            let reInit = ReInit(groupID: [7], cipherSuite: cipherSuite().id)
            let output = try members[0].commit(CommitOptions([.reInit(reInit)]))
            try members[1].follow(output.commit)
        }
        let (anna, ben) = (Member("anna"), Member("ben"))
        let bundle = try ben.keyPackage()
        var options = CommitOptions()
        options.forcesPath = true
        options.welcomeHasTree = false
        options.authenticatedData = [3]
        let founding = try members[0].with { group throws(MLSError) in
            isBranch
                ? try group.foundBranch(
                    keyPackages: [bundle.keyPackage], profile: anna.profile, signatureKey: anna.signatureKey,
                    lifetime: lifetime(), options: options, at: noon)
                : try group.foundSuccessor(
                    keyPackages: [bundle.keyPackage], profile: anna.profile, signatureKey: anna.signatureKey,
                    lifetime: lifetime(), options: options, at: noon)
        }
        let output = founding.output
        #expect(output.change.hasPath && output.change.authenticatedData == [3])
        anna.take(founding.take())
        _ = try anna.with { group throws in try group.confirmPendingCommit(at: noon) }
        var join = JoinOptions()
        join.lineages = [members[1].with { $0.lineage }]
        #expect(throws: MLSError.treeMissing) { try ben.join(output.welcome, bundle, join) }
        join.tree = anna.with { $0.tree }
        try ben.join(output.welcome, bundle, join)
        try agree([anna, ben])
    }

    @Test func `of the queued proposals those are committed that were chosen`() throws {
        let members = try party(["anna", "ben", "cleo", "dora"])
        for leaf in [2, 3] as [UInt32] {
            let proposal = try members[1].with { group throws in try group.propose(.remove(leaf), at: noon) }
            for member in members where member !== members[1] { try member.queue(proposal) }
        }
        let queued = members[0].with { $0.queuedProposals }
        var options = CommitOptions()
        options.chosenProposals = [[1, 2, 3]]
        #expect(throws: MLSError.unknownProposal) { try members[0].commit(options) }
        options.chosenProposals = [queued[1].reference, queued[1].reference]
        #expect(throws: MLSError.duplicateProposalReference) { try members[0].commit(options) }
        options.chosenProposals = [queued[1].reference]
        let output = try members[0].commit(options)
        #expect(output.references == [queued[1].reference])
        for member in members[1...2] { #expect(try member.follow(output.commit).removed.map(\.leaf) == [3]) }
        try agree(Array(members[0..<3]))
        options.chosenProposals = []
        #expect(try members[0].commit(options).change.removed.isEmpty)
    }

    @Test func `an external sender is written and read`() throws {
        let sender = ExternalSender(
            signatureKey: cipherSuite().generateSignatureKey().publicKey, credential: .basic(identity: [1, 2]))
        #expect(try ExternalSender(sender.bytes) == sender)
        #expect(throws: MLSError.truncated) { try ExternalSender(Array(sender.bytes.dropLast())) }
        #expect(throws: MLSError.trailingBytes) { try ExternalSender(sender.bytes + [0]) }
    }
}
