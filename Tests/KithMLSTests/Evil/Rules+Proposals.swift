@testable import KithMLS

extension Rule {
    private static let custom = ProposalType(rawValue: 0xF0AA)

    static let proposals: [Rule] = [
        Rule("12.2", "a commit holds no Update of its committer, by value", .updateByCommitter) { stage in
            let leaf = try present(stage.evil.with { $0.tree.leaf(0) })
            try stage.commit(.update(leaf))
        },
        Rule("12.2", "a commit holds no Update of its committer, by reference", .updateByCommitter) { stage in
            let message = try stage.evil.with { group throws in try group.proposeUpdate() }
            try stage.victim.queue(message)
            let reference = try present(stage.evil.with { $0.queuedProposals.last?.reference })
            var forgery = Forgery()
            forgery.proposals = [.reference(reference)]
            try stage.commit(forgery)
        },
        Rule("12.2", "a commit does not remove its committer", .removeOfCommitter) { stage in
            try stage.commit(.remove(0))
        },
        Rule("12.1.3", "a Remove names a leaf with a member", .removeOfBlankLeaf) { stage in
            try stage.commit(.remove(6))
        },
        Rule("12.1.3", "a proposed Remove names a leaf with a member", .removeOfBlankLeaf) { stage in
            try stage.propose(.remove(77))
        },
        Rule("12.2", "a commit does not remove a member twice", .multipleChangesOfLeaf) { stage in
            try stage.commit(.remove(2), .remove(2))
        },
        Rule("12.2", "a commit does not both update and remove a member", .multipleChangesOfLeaf) { stage in
            let message = try stage.update()
            try stage.evil.queue(message)
            try stage.victim.queue(message)
            let reference = try present(stage.evil.with { $0.queuedProposals.last?.reference })
            var forgery = Forgery([.remove(2)])
            forgery.proposals.append(.reference(reference))
            try stage.commit(forgery)
        },
        Rule("12.2", "a commit adds no client twice", .duplicateSignatureKey) { stage in
            let client = Member("newcomer")
            try stage.commit(.add(stage.package(by: client)), .add(stage.package(by: client)))
        },
        Rule("12.2", "a commit adds no client that is a member", .duplicateSignatureKey) { stage in
            try stage.commit(.add(stage.package(by: stage.members[2])))
        },
        Rule("7.3", "an added client's encryption key is nobody else's", .duplicateEncryptionKey) { stage in
            let other = try present(stage.evil.with { $0.tree.leaf(3) })
            try stage.commit(.add(stage.package(leaf: { $0.encryptionKey = other.encryptionKey })))
        },
        Rule("12.2", "a commit names no pre-shared key twice", .duplicatePSK) { stage in
            try stage.commit(.psk(stage.pskID()), .psk(stage.pskID()))
        },
        Rule("12.1.4", "a PSK nonce is as long as a secret", .wrongPSKNonceLength) { stage in
            try stage.commit(.psk(stage.pskID(nonce: 31)))
        },
        Rule("12.1.4", "a PSK for a following group stands in no other", .pskUsageNotAllowed) { stage in
            try stage.commit(.psk(stage.pskID(.resumption(.reInit, groupID: [1], epoch: 1))))
        },
        Rule("12.1.4", "a PSK for a branch stands in no other group", .pskUsageNotAllowed) { stage in
            try stage.commit(.psk(stage.pskID(.resumption(.branch, groupID: [1], epoch: 1))))
        },
        Rule("12.4.2", "every pre-shared key is at hand", .unknownPSK) { stage in
            try stage.commit(.psk(stage.pskID()))
        },
        Rule("12.2", "a commit replaces the group's extensions once", .multipleGroupContextExtensions) { stage in
            try stage.commit(.groupContextExtensions([]), .groupContextExtensions([]))
        },
        Rule("13.4", "a group has each kind of extension once", .duplicateExtension) { stage in
            try stage.commit(.groupContextExtensions([.externalSenders([]), .externalSenders([])]))
        },
        Rule("12.1.7", "members support what the group is to require", .requiredCapabilitiesMissing) { stage in
            try stage.commit(
                .groupContextExtensions([.requiredCapabilities(RequiredCapabilities(proposals: [custom]))]))
        },
        Rule("13.4", "members support the group's new extensions", .extensionNotSupportedByMember) { stage in
            try stage.commit(
                .groupContextExtensions([Extension(type: ExtensionType(rawValue: 0xF00B), data: [])]))
        },
        Rule("12.3", "new extensions bind the clients added beside them", .requiredCapabilitiesMissing) { stage in
            var capabilities = Capabilities()
            capabilities.proposals = [custom]
            stage.use([], capabilities)
            try stage.commit(
                .groupContextExtensions([.requiredCapabilities(RequiredCapabilities(proposals: [custom]))]),
                .add(stage.package()))
        },
        Rule("5.3.1", "the application believes a new external sender", .credentialRejected) { stage in
            stage.victim.with { $0.configuration.authentication = Distrust(event: .externalSender) }
            let sender = ExternalSender(
                signatureKey: cipherSuite().generateSignatureKey().publicKey, credential: .basic(identity: [1]))
            try stage.commit(.groupContextExtensions([.externalSenders([sender])]))
        },
        Rule("12.2", "a ReInit stands alone", .reInitNotAlone) { stage in
            try stage.commit(.reInit(ReInit(groupID: [1], cipherSuite: cipherSuite().id)), .remove(2))
        },
        Rule("12.1.5", "a ReInit does not go back to an older version", .reInitVersionTooLow) { stage in
            try stage.commit(
                .reInit(
                    ReInit(groupID: [1], version: ProtocolVersion(rawValue: 0), cipherSuite: cipherSuite().id)))
        },
        Rule("12.2", "a member's commit holds no ExternalInit", .externalInitNotAllowed) { stage in
            try stage.commit(.externalInit(kemOutput: [1]))
        },
        Rule("12.1.6", "an ExternalInit is not proposed", .externalInitNotAllowed) { stage in
            try stage.propose(.externalInit(kemOutput: [1]))
        },
        Rule("12.2", "every member supports a committed proposal's kind", .proposalNotSupportedByMember) { stage in
            try stage.commit(.custom(custom, [1]))
        },
        Rule("12.4", "a referenced proposal was received", .unknownProposal) { stage in
            var forgery = Forgery()
            forgery.proposals = [.reference([UInt8](repeating: 1, count: 32))]
            try stage.commit(forgery)
        },
        Rule("12.4", "a proposal is referenced once", .duplicateProposalReference) { stage in
            let reference = try stage.honest(.remove(3))
            var forgery = Forgery()
            forgery.proposals = [.reference(reference), .reference(reference)]
            try stage.commit(forgery)
        },
    ]

    /// The group's external sender, who forges here.
    private static func outside(_ stage: Stage, _ proposal: Proposal, index: UInt32 = 0) throws {
        let key = cipherSuite().generateSignatureKey()
        stage.use([
            .externalSenders([ExternalSender(signatureKey: key.publicKey, credential: .basic(identity: [1]))])
        ])
        try stage.deliver(
            stage.evil.with { group throws in
                try group.forged(.proposal(proposal), sender: .external(index), key: key)
            })
    }

    static let externalProposals: [Rule] = [
        Rule("12.1.8", "an external sender sends no Update", .proposalNotAllowedFromSender) { stage in
            try outside(stage, .update(stage.package().leafNode))
        },
        Rule("12.1.8", "an external sender sends no ExternalInit", .proposalNotAllowedFromSender) { stage in
            try outside(stage, .externalInit(kemOutput: [1]))
        },
        Rule("12.1.8", "an external sender is one of the group's", .unknownExternalSender) { stage in
            try outside(stage, .remove(2), index: 1)
        },
        Rule("12.1.8", "without the extension there are no external senders", .unknownExternalSender) { stage in
            try stage.deliver(
                stage.evil.with { group throws in
                    try group.forged(.proposal(.remove(2)), sender: .external(0))
                })
        },
        Rule("6.1", "an external sender's message is signed by it", .invalidMessageSignature) { stage in
            stage.use([
                .externalSenders([
                    ExternalSender(
                        signatureKey: cipherSuite().generateSignatureKey().publicKey,
                        credential: .basic(identity: [1]))
                ])
            ])
            try stage.deliver(
                stage.evil.with { group throws in
                    try group.forged(.proposal(.remove(2)), sender: .external(0))
                })
        },
        Rule("6.1", "a client from outside proposes only to be added", .proposalNotAllowedFromSender) { stage in
            try stage.deliver(
                stage.evil.with { group throws in
                    try group.forged(.proposal(.remove(2)), sender: .newMemberProposal)
                })
        },
        Rule("6.1", "a client that proposes itself signs as itself", .invalidMessageSignature) { stage in
            let package = try stage.package()
            try stage.deliver(
                stage.evil.with { group throws in
                    try group.forged(.proposal(.add(package)), sender: .newMemberProposal)
                })
        },
    ]
}
