@testable import KithMLS

extension Rule {
    private static func withoutPath(_ stage: Stage, _ proposals: Proposal...) throws {
        var forgery = Forgery(proposals)
        forgery.hasPath = false
        try stage.commit(forgery)
    }

    private static func path(_ stage: Stage, _ change: @escaping (inout UpdatePath) throws -> Void) throws {
        var forgery = Forgery()
        forgery.path = change
        try stage.commit(forgery)
    }

    static let commits: [Rule] = [
        Rule("12.4", "an empty commit has a path", .pathRequired) { try withoutPath($0) },
        Rule("12.4", "a commit with a Remove has a path", .pathRequired) { try withoutPath($0, .remove(2)) },
        Rule("12.4", "a commit with an Update has a path", .pathRequired) { stage in
            let message = try stage.update()
            try stage.evil.queue(message)
            try stage.victim.queue(message)
            let reference = try present(stage.evil.with { $0.queuedProposals.last?.reference })
            var forgery = Forgery()
            forgery.proposals = [.reference(reference)]
            forgery.hasPath = false
            try stage.commit(forgery)
        },
        Rule("12.4", "a commit with GroupContextExtensions has a path", .pathRequired) {
            try withoutPath($0, .groupContextExtensions([]))
        },
        Rule("7.5", "a path has no fewer nodes than the filtered direct path", .wrongPathLength) { stage in
            try path(stage) { $0.nodes.removeLast() }
        },
        Rule("7.5", "a path has no more nodes than the filtered direct path", .wrongPathLength) { stage in
            try path(stage) { $0.nodes.append($0.nodes[0]) }
        },
        Rule("7.6", "a path secret is encrypted to no more than the resolution", .wrongPathSecretCount) { stage in
            try path(stage) { path in
                let one = try path.nodes[0].encryptedPathSecret[0]
                path.nodes[0].encryptedPathSecret = HPKECiphertexts([one, one])
            }
        },
        Rule("7.6", "a path secret is encrypted to no less than the resolution", .wrongPathSecretCount) { stage in
            try path(stage) { $0.nodes[1].encryptedPathSecret = HPKECiphertexts([]) }
        },
        Rule("7.5", "a path secret can be decrypted", .decryptionFailed) { stage in
            try path(stage) { path in
                var one = try path.nodes[0].encryptedPathSecret[0]
                one.ciphertext[0] ^= 1
                path.nodes[0].encryptedPathSecret = HPKECiphertexts([one])
            }
        },
        Rule("7.4", "a path secret is as long as a secret", .pathSecretMismatch) { stage in
            var forgery = Forgery()
            forgery.secret = { $0.removeLast() }
            try stage.commit(forgery)
        },
        Rule("12.4.2", "a path's leaf key does not stand in the tree", .pathKeyInUse) { stage in
            let other = try present(stage.evil.with { $0.tree.leaf(3) })
            var forgery = Forgery()
            forgery.leaf = { $0.encryptionKey = other.encryptionKey }
            try stage.commit(forgery)
        },
        Rule("12.4.2", "a path's node key does not stand in the tree", .pathKeyInUse) { stage in
            let other = try present(stage.evil.with { $0.tree.leaf(3) })
            var forgery = Forgery()
            forgery.keys = { $0[1] = other.encryptionKey }
            try stage.commit(forgery)
        },
        Rule("12.4.2", "a path's node key does not stand in the path twice", .duplicateEncryptionKey) { stage in
            var forgery = Forgery()
            forgery.keys = { $0[1] = $0[0] }
            try stage.commit(forgery)
        },
        Rule("7.5", "a path's node key follows from its secret", .pathKeyMismatch) { stage in
            var forgery = Forgery()
            forgery.keys = { $0[1] = cipherSuite().generateHPKEKey().publicKey }
            try stage.commit(forgery)
        },
        Rule("7.1", "a path's node key is a public key of the suite", .invalidPublicKey) { stage in
            var forgery = Forgery()
            forgery.keys = { $0[1] = [1, 2, 3] }
            try stage.commit(forgery)
        },
        Rule("7.9.2", "a path's leaf has the parent hash of the nodes above", .invalidParentHash) { stage in
            var forgery = Forgery()
            forgery.leaf = { $0.source = .commit(parentHash: [UInt8](repeating: 3, count: 32)) }
            try stage.commit(forgery)
        },
        Rule("12.4.2", "a commit's confirmation tag is the new epoch's", .invalidConfirmationTag) { stage in
            var forgery = Forgery()
            forgery.tag = { $0[0] ^= 1 }
            try stage.commit(forgery)
        },
        Rule("12.4.2", "a commit's confirmation tag is whole", .invalidConfirmationTag) { stage in
            var forgery = Forgery()
            forgery.tag = { $0.removeLast() }
            try stage.commit(forgery)
        },
    ]

    static let externalCommits: [Rule] = [
        Rule("12.2", "an external commit has an ExternalInit", .wrongExternalInitCount) { stage in
            try stage.join(Forgery(), externalInit: false)
        },
        Rule("12.2", "an external commit has one ExternalInit", .wrongExternalInitCount) { stage in
            try stage.join(Forgery([.externalInit(kemOutput: [1])]))
        },
        Rule("12.4.3.2", "an external commit has a path", .pathRequired) { stage in
            var forgery = Forgery()
            forgery.hasPath = false
            try stage.join(forgery)
        },
        Rule("12.4.3.2", "an external commit has no proposal by reference", .referenceInExternalCommit) { stage in
            let reference = try stage.honest(.remove(3))
            var forgery = Forgery()
            forgery.proposals = [.reference(reference)]
            try stage.join(forgery)
        },
        Rule("12.2", "an external commit adds nobody else", .proposalNotAllowedInExternalCommit) { stage in
            try stage.join(Forgery([.add(stage.package())]))
        },
        Rule("12.2", "an external commit changes no group extensions", .proposalNotAllowedInExternalCommit) { stage in
            try stage.join(Forgery([.groupContextExtensions([])]))
        },
        Rule("12.2", "an external commit has no ReInit", .proposalNotAllowedInExternalCommit) { stage in
            try stage.join(Forgery([.reInit(ReInit(groupID: [1], cipherSuite: cipherSuite().id))]))
        },
        Rule("12.2", "an external commit has no proposal of another kind", .proposalNotAllowedInExternalCommit) {
            stage in
            try stage.join(Forgery([.custom(ProposalType(rawValue: 0xF0AA), [1])]))
        },
        Rule("12.2", "an external commit has no Update", .proposalNotAllowedFromSender) { stage in
            try stage.join(Forgery([.update(stage.package().leafNode)]))
        },
        Rule("12.2", "an external commit removes one member at most", .proposalNotAllowedInExternalCommit) { stage in
            try stage.join(Forgery([.remove(2), .remove(3)]))
        },
        Rule("12.2", "an external commit removes its sender's older appearance only", .credentialNotSuccessor) {
            stage in
            stage.victim.with { $0.configuration.acceptsResync = .successor }
            try stage.join(Forgery([.remove(2)]))
        },
        Rule("12.4.3.2", "an external commit that replaces a member has that member's key", .resyncNotAccepted) {
            stage in
            try stage.join(Forgery([.remove(2)]))
        },
        Rule("12.2", "a replacing joiner's encryption key is new", .encryptionKeyNotChanged) { stage in
            let old = try present(stage.evil.with { $0.tree.leaf(2) })
            var forgery = Forgery([.remove(2)])
            forgery.leaf = { $0.encryptionKey = old.encryptionKey }
            try stage.join(forgery, by: stage.members[2])
        },
        Rule("12.4.3.2", "an external commit is signed by the joiner", .invalidMessageSignature) { stage in
            var forgery = Forgery()
            forgery.signatureKey = cipherSuite().generateSignatureKey()
            forgery.leaf = { $0.signatureKey = cipherSuite().generateSignatureKey().publicKey }
            try stage.join(forgery)
        },
        Rule("7.3", "a joiner's signature key is no member's", .duplicateSignatureKey) { stage in
            try stage.join(Forgery(), by: stage.members[3])
        },
        Rule("7.3", "a joiner's leaf says to come from a commit", .wrongLeafNodeSource) { stage in
            var forgery = Forgery()
            forgery.leaf = { $0.source = .keyPackage(lifetime()) }
            try stage.join(forgery)
        },
        Rule("5.3.1", "the application believes a joiner's credential", .credentialRejected) { stage in
            stage.victim.with { $0.configuration.authentication = Distrust(event: .commit) }
            try stage.join(Forgery())
        },
        Rule("5.3.1", "the application believes the credential of one who replaces itself", .credentialRejected) {
            stage in
            stage.victim.with { $0.configuration.authentication = Distrust(event: .commit) }
            try stage.join(Forgery([.remove(2)]), by: stage.members[2])
        },
        Rule("12.4.3.2", "the client takes external commits", .externalCommitsNotAccepted) { stage in
            stage.victim.with { $0.configuration.acceptsExternalCommits = false }
            try stage.join(Forgery())
        },
        Rule("12.4.3.2", "the client takes external commits that replace a member", .resyncNotAccepted) { stage in
            stage.victim.with { $0.configuration.acceptsResync = .never }
            try stage.join(Forgery([.remove(2)]), by: stage.members[2])
        },
        Rule("12.4.2", "an external commit's confirmation tag is the new epoch's", .invalidConfirmationTag) { stage in
            var forgery = Forgery()
            forgery.tag = { $0[0] ^= 1 }
            try stage.join(forgery)
        },
        Rule("8.3", "an ExternalInit holds a KEM output for the group", .invalidPublicKey) { stage in
            try stage.join(Forgery([.externalInit(kemOutput: [1])]), externalInit: false)
        },
    ]
}
