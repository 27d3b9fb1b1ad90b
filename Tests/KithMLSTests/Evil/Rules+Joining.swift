@testable import KithMLS

extension Rule {
    /// A newcomer joins a group that was invented for it.
    private static func join(
        extensions: [Extension] = [], _ options: JoinOptions = JoinOptions(),
        trusting authentication: any AuthenticationService = TrustingAuthenticationService(),
        _ change: (inout ForgedWelcome, KeyPackageBundle) throws -> Void
    ) throws {
        let newcomer = Member("newcomer")
        let bundle = try newcomer.keyPackage()
        var forged = try ForgedWelcome(Member("inventor"), for: bundle.keyPackage, extensions: extensions)
        try change(&forged, bundle)
        guard case .welcome(let welcome) = try MLSMessage(forged.make(for: bundle.keyPackage).bytes) else { return }
        var options = options
        options.now = noon
        var settings = configuration()
        settings.authentication = authentication
        let group = try Group(joining: welcome, with: bundle, options, configuration: settings)
        _ = group.epoch
    }

    private static func parent(_ forged: inout ForgedWelcome, _ change: (inout ParentNode) -> Void) {
        guard var parent = forged.nodes[1]?.parent else { return }
        change(&parent)
        forged.nodes[1] = .parent(parent)
    }

    /// An outsider joins by a group info that was changed on its way.
    private static func joinFromOutside(_ stage: Stage, _ change: (inout GroupInfo) -> Void) throws {
        var info = try stage.evil.with { group throws in try group.groupInfo() }
        change(&info)
        let joiner = Member("joiner")
        let join = try ExternalJoin(
            info, profile: joiner.profile, signatureKey: joiner.signatureKey, configuration: configuration())
        _ = join.commit
    }

    static let joining: [Rule] = [
        Rule("12.4.3.1", "a Welcome has secrets for the key package", .keyPackageNotInWelcome) { _ in
            try join { forged, _ in forged.welcome = { $0.secrets[0].newMember[0] ^= 1 } }
        },
        Rule("12.4.3.1", "a Welcome has secrets for the key package once", .keyPackageNotInWelcome) { _ in
            try join { forged, _ in forged.welcome = { $0.secrets.append($0.secrets[0]) } }
        },
        Rule("12.4.3.1", "a Welcome's suite is the key package's", .keyPackageCipherSuiteMismatch) { _ in
            try join { forged, _ in forged.welcome = { $0.cipherSuite = CipherSuiteID(rawValue: 3) } }
        },
        Rule("12.4.3.1", "a Welcome's suite is one the client has", .unsupportedCipherSuite) { _ in
            try join { forged, _ in forged.welcome = { $0.cipherSuite = CipherSuiteID(rawValue: 0xAAAA) } }
        },
        Rule("12.4.3.1", "the group's suite is the Welcome's", .keyPackageCipherSuiteMismatch) { _ in
            try join { forged, _ in forged.context.cipherSuite = CipherSuiteID(rawValue: 3) }
        },
        Rule("12.4.3.1", "the group's version is the protocol's", .unsupportedVersion) { _ in
            try join { forged, _ in forged.context.version = ProtocolVersion(rawValue: 2) }
        },
        Rule("12.4.3.1", "a Welcome's secrets are encrypted to the key package", .decryptionFailed) { _ in
            try join { forged, _ in
                forged.welcome = { $0.secrets[0].encryptedGroupSecrets.ciphertext[0] ^= 1 }
            }
        },
        Rule("12.4.3.1", "a Welcome's secrets are bound to its group info", .decryptionFailed) { _ in
            try join { forged, _ in forged.welcome = { $0.encryptedGroupInfo[0] ^= 1 } }
        },
        Rule("12.4.3.1", "every pre-shared key of a Welcome is at hand", .unknownPSK) { _ in
            try join { forged, _ in
                forged.psks = [PreSharedKeyID(key: .external(id: [7]), nonce: [UInt8](repeating: 1, count: 32))]
            }
        },
        Rule("8.4", "a Welcome names no pre-shared key twice", .duplicatePSK) { _ in
            try join { forged, _ in
                let id = PreSharedKeyID(key: .external(id: [7]), nonce: [UInt8](repeating: 1, count: 32))
                forged.psks = [id, id]
            }
        },
        Rule("8.4", "a Welcome's PSK nonces are as long as a secret", .wrongPSKNonceLength) { _ in
            try join { forged, _ in forged.psks = [PreSharedKeyID(key: .external(id: [7]), nonce: [1])] }
        },
        Rule("12.4.3.1", "a group info is signed by its signer", .invalidGroupInfoSignature) { _ in
            try join { forged, _ in forged.signedInfo = { $0.signature[0] ^= 1 } }
        },
        Rule("12.4.3.1", "a group info's signer is a member", .signerNotMember) { _ in
            try join { forged, _ in forged.info = { $0.signer = 3 } }
        },
        Rule("12.4.3.1", "a group info is signed by the member it names", .invalidGroupInfoSignature) { _ in
            try join { forged, _ in forged.info = { $0.signer = 1 } }
        },
        Rule("12.4.3", "the client is in no group of that name", .groupAlreadyKnown) { _ in
            var options = JoinOptions()
            options.knownGroups = [Array("forged".utf8)]
            try join(options) { _, _ in }
        },
        Rule("12.4.3.3", "the tree is at hand", .treeMissing) { _ in
            try join { forged, _ in forged.info = { $0.extensions = [] } }
        },
        Rule("12.4.3.1", "the tree's hash is the group's", .treeHashMismatch) { _ in
            try join { forged, _ in
                forged.hasTreeHash = false
                forged.context.treeHash = [UInt8](repeating: 1, count: 32)
            }
        },
        Rule("13.4", "the client supports the group's extensions", .extensionNotSupported) { _ in
            try join(extensions: [Extension(type: ExtensionType(rawValue: 0xF00C), data: [])]) { forged, _ in
                try forged.changeLeaf({ $0.capabilities.extensions = [ExtensionType(rawValue: 0xF00C)] })
            }
        },
        Rule("13.4", "the group has each kind of extension once", .duplicateExtension) { _ in
            try join(extensions: [.externalSenders([]), .externalSenders([])]) { _, _ in }
        },
        Rule("13.4", "a group info has each kind of extension once", .duplicateExtension) { _ in
            try join { forged, _ in forged.info = { $0.extensions.append($0.extensions[0]) } }
        },
        Rule("12.4.3.3", "a tree does not end with a blank node", .blankTreeEnd) { _ in
            try join { forged, _ in forged.nodes.append(nil) }
        },
        Rule("12.4.3.3", "a tree is not empty", .blankTreeEnd) { _ in try join { forged, _ in forged.nodes = [] } },
        Rule("12.4.3.3", "a tree has parents between leaves", .misplacedNode) { _ in
            try join { forged, _ in forged.nodes[1] = forged.nodes[0] }
        },
        Rule("12.4.3.3", "a tree has leaves at even places", .misplacedNode) { _ in
            try join { forged, _ in forged.nodes[0] = forged.nodes[1] }
        },
        Rule("7.3", "no two leaves of a tree share an encryption key", .duplicateEncryptionKey) { _ in
            try join { forged, bundle in
                try forged.changeLeaf({ $0.encryptionKey = bundle.keyPackage.leafNode.encryptionKey })
            }
        },
        Rule("7.3", "no two leaves of a tree share a signature key", .duplicateSignatureKey) { _ in
            try join { forged, bundle in
                try forged.changeLeaf({ $0.signatureKey = bundle.keyPackage.leafNode.signatureKey })
            }
        },
        Rule("12.4.3.1", "a parent's key stands in no other node", .duplicateEncryptionKey) { _ in
            try join { forged, _ in
                // A leaf before it: of one behind it the leaf would be refused.
                guard let first = forged.nodes[0]?.leaf else { return }
                parent(&forged) { $0.encryptionKey = first.encryptionKey }
            }
        },
        Rule("12.4.3.1", "an unmerged leaf is below its node", .invalidUnmergedLeaves) { _ in
            try join { forged, _ in parent(&forged) { $0.unmergedLeaves = [2] } }
        },
        Rule("12.4.3.1", "an unmerged leaf has a member", .invalidUnmergedLeaves) { _ in
            try join { forged, _ in
                guard let node = forged.nodes[1]?.parent else { return }
                var top = node
                top.encryptionKey = cipherSuite().generateHPKEKey().publicKey
                top.unmergedLeaves = [3]
                forged.nodes = [
                    forged.nodes[0], forged.nodes[1], forged.nodes[2], .parent(top),
                    .leaf(try Stage().package("other").leafNode),
                ]
            }
        },
        Rule("12.4.3.1", "an unmerged leaf is unmerged at every node between", .invalidUnmergedLeaves) { _ in
            try join { forged, _ in
                guard let node = forged.nodes[1]?.parent else { return }
                var top = node
                top.encryptionKey = cipherSuite().generateHPKEKey().publicKey
                top.unmergedLeaves = [1]
                forged.nodes = [
                    forged.nodes[0], forged.nodes[1], forged.nodes[2], .parent(top),
                    .leaf(try Stage().package("other").leafNode),
                ]
            }
        },
        Rule("7.9.2", "every parent was set with a node below it", .invalidParentHash) { _ in
            try join { forged, _ in
                try forged.changeLeaf({ $0.source = .commit(parentHash: [UInt8](repeating: 1, count: 32)) })
            }
        },
        Rule("7.9.2", "a parent of leaves that never committed is not taken", .invalidParentHash) { _ in
            try join { forged, _ in try forged.changeLeaf({ $0.source = .update }) }
        },
        Rule("7.3", "every leaf of a tree is signed for its place", .invalidLeafSignature) { _ in
            try join { forged, _ in try forged.changeLeaf({ _ in }, signed: { $0.extensions = [.applicationID([1])] }) }
        },
        Rule("7.3", "every leaf of a tree supports what the group requires", .requiredCapabilitiesMissing) { _ in
            try join(
                extensions: [
                    .requiredCapabilities(RequiredCapabilities(proposals: [ProposalType(rawValue: 0xF001)]))
                ]
            ) { _, _ in }
        },
        Rule("7.3", "every leaf of a tree lists its own credential's kind", .credentialNotInCapabilities) { _ in
            try join { forged, _ in
                try forged.changeLeaf({
                    $0.capabilities.credentials = [.basic, .x509, CredentialType(rawValue: 9)]
                    $0.capabilities.credentials.removeAll { $0 == .basic }
                    $0.credential = .basic(identity: [1])
                })
            }
        },
        Rule("5.3.1", "the application believes the members' credentials", .credentialRejected) { _ in
            try join(trusting: Distrust(event: .joining)) { _, _ in }
        },
        Rule("12.4.3.1", "the key package's leaf stands in the tree", .ownLeafMissing) { _ in
            try join { forged, _ in
                forged.nodes = [forged.nodes[0], nil, .leaf(try Stage().package("other").leafNode)]
                forged.pathSecret = nil
            }
        },
        Rule("12.4.3.1", "the path secret gives the tree's keys", .pathSecretMismatch) { _ in
            try join { forged, _ in forged.pathSecret = [UInt8](repeating: 1, count: 32) }
        },
        Rule("12.4.3.1", "the confirmation tag is the epoch's", .invalidConfirmationTag) { _ in
            try join { forged, _ in forged.info = { $0.confirmationTag[0] ^= 1 } }
        },
        Rule("7.2", "no leaf of a tree has a longer lifetime than the client takes", .lifetimeTooLong) { _ in
            try join { forged, _ in
                try forged.changeLeaf({ $0.source = .keyPackage(lifetime(1_000_000_000)) })
                forged.nodes[1] = nil
                forged.pathSecret = nil
            }
        },
        Rule("12.4.3.2", "a joiner checks the signature of the group info it joins by", .invalidGroupInfoSignature) {
            stage in
            try joinFromOutside(stage) { $0.signature[0] ^= 1 }
        },
        Rule("12.4.3.2", "a joiner checks that the group info's signer is a member", .signerNotMember) { stage in
            try joinFromOutside(stage) { $0.signer = 7 }
        },
        Rule("12.4.3.2", "a joiner has the suite of the group it joins", .unsupportedCipherSuite) { stage in
            try joinFromOutside(stage) { $0.groupContext.cipherSuite = CipherSuiteID(rawValue: 0xAAAA) }
        },
        Rule("12.4.3.2", "a joiner knows the version of the group it joins", .unsupportedVersion) { stage in
            try joinFromOutside(stage) { $0.groupContext.version = ProtocolVersion(rawValue: 2) }
        },
        Rule("12.4.3.2", "a joiner has the tree of the group it joins", .treeMissing) { stage in
            try joinFromOutside(stage) { $0.extensions.removeAll { $0.type == .ratchetTree } }
        },
        Rule("8.1", "the epoch can be counted further", .epochExhausted) { _ in
            let newcomer = Member("newcomer")
            let bundle = try newcomer.keyPackage()
            var forged = try ForgedWelcome(Member("inventor"), for: bundle.keyPackage)
            forged.context.epoch = .max
            try newcomer.join(forged.make(for: bundle.keyPackage), bundle)
            _ = try newcomer.commit()
        },
        Rule("12.4.3.2", "a group info for external joins has the external key", .externalKeyMissing) { stage in
            let info = try stage.evil.with { group throws in try group.groupInfo(withExternalKey: false) }
            let joiner = Member("joiner")
            let join = try ExternalJoin(
                info, profile: joiner.profile, signatureKey: joiner.signatureKey, configuration: configuration())
            _ = join.commit
        },
    ]

    /// An old group of two, one of whom invents a group that says to come from it.
    private static func follow(
        _ usage: PreSharedKeyID.Usage, reInit: ReInit? = nil, from suite: any CipherSuite = cipherSuite(),
        _ change: @escaping (inout ForgedWelcome, PreSharedKeyID) throws -> Void
    ) throws {
        let members = try party(["inventor", "newcomer"], suite)
        if let reInit {
            let output = try members[0].commit(CommitOptions([.reInit(reInit)]))
            try members[1].follow(output.commit)
        }
        let lineage = members[1].with { $0.lineage }
        let newcomer = Member("newcomer")
        let bundle = try newcomer.keyPackage()
        var forged = try ForgedWelcome(Member("inventor"), for: bundle.keyPackage)
        let id = PreSharedKeyID(
            key: .resumption(usage, groupID: lineage.context.groupID, epoch: lineage.context.epoch),
            nonce: [UInt8](repeating: 1, count: 32))
        forged.psks = [id]
        forged.keys.add(lineage.context.groupID, lineage.context.epoch, lineage.resumptionPSK)
        try change(&forged, id)
        guard case .welcome(let welcome) = try forged.make(for: bundle.keyPackage) else { return }
        var options = JoinOptions()
        options.now = noon
        options.lineages = [lineage]
        let group = try Group(joining: welcome, with: bundle, options, configuration: configuration())
        _ = group.epoch
    }

    private static let next = ReInit(groupID: Array("forged".utf8), cipherSuite: cipherSuite().id)

    static let successors: [Rule] = [
        Rule("12.4.3.1", "a Welcome names one group that the new one comes from", .multipleStartingPSKs) { _ in
            try follow(.branch) { forged, id in
                forged.psks.append(PreSharedKeyID(key: id.key, nonce: [UInt8](repeating: 2, count: 32)))
            }
        },
        Rule("11.3", "a branch begins in epoch 1", .startingEpochNotOne) { _ in
            try follow(.branch) { forged, _ in forged.context.epoch = 2 }
        },
        Rule("11.3", "a branch has the old group's cipher suite", .branchParametersDiffer) { _ in
            try follow(.branch, from: cipherSuite(3)) { _, _ in }
        },
        Rule("11.3", "a branch has only members of the old group", .branchMembersDiffer) { _ in
            try follow(.branch) { forged, _ in try forged.changeLeaf({ $0.credential = .basic(identity: [1]) }) }
        },
        Rule("11.2", "a successor begins in epoch 1", .startingEpochNotOne) { _ in
            try follow(.reInit, reInit: next) { forged, _ in forged.context.epoch = 7 }
        },
        Rule("11.2", "a successor follows a group that was ended", .groupNotEnded) { _ in
            try follow(.reInit) { _, _ in }
        },
        Rule("11.2", "a successor has the name that was agreed", .reInitParametersDiffer) { _ in
            try follow(.reInit, reInit: ReInit(groupID: [1], cipherSuite: cipherSuite().id)) { _, _ in }
        },
        Rule("11.2", "a successor has the cipher suite that was agreed", .reInitParametersDiffer) { _ in
            try follow(.reInit, reInit: ReInit(groupID: Array("forged".utf8), cipherSuite: cipherSuite(3).id)) { _, _ in
            }
        },
        Rule("11.2", "a successor has the extensions that were agreed", .reInitParametersDiffer) { _ in
            try follow(
                .reInit,
                reInit: ReInit(
                    groupID: Array("forged".utf8), cipherSuite: cipherSuite().id, extensions: [.externalSenders([])])
            ) { _, _ in }
        },
        Rule("11.2", "a successor has all members", .reInitMembersDiffer) { _ in
            try follow(.reInit, reInit: next) { forged, _ in
                try forged.changeLeaf({ $0.credential = .basic(identity: [1]) })
            }
        },
    ]

    static let use: [Rule] = [
        Rule("8.4", "pre-shared keys can be counted", .tooManyPSKs) { stage in
            _ = try cipherSuite().pskSecret(
                [PreSharedKeyID](repeating: stage.pskID(), count: 65_536), from: PreSharedKeys())
        },
        Rule("10", "private keys are those of the key package", .keyPackageMismatch) { _ in
            let one = try Member("one").keyPackage()
            let other = try Member("other").keyPackage()
            _ = try KeyPackageBundle(
                keyPackage: one.keyPackage, initKey: other.initKey, encryptionKey: one.encryptionKey,
                signatureKey: one.signatureKey)
        },
        Rule("5.1.1", "a KEM's private key has its length", .invalidPrivateKey) { _ in
            _ = try cipherSuite().importHPKEKey([1, 2, 3])
        },
        Rule("5.1.1", "a signature key has its length", .invalidPrivateKey) { _ in
            _ = try cipherSuite().importSignatureKey([1, 2, 3])
        },
        Rule("14", "one own commit awaits its confirmation at a time", .commitPending) { stage in
            try stage.victim.with { group throws in
                _ = try group.stageCommit(at: noon)
                _ = try group.stageCommit(at: noon)
            }
        },
        Rule("14", "only an own commit that awaits it is confirmed", .noPendingCommit) { stage in
            try stage.victim.with { group throws in _ = try group.confirmPendingCommit() }
        },
        Rule("12.4.2", "a group that a ReInit has ended sends nothing", .groupEnded) { _ in
            let members = try party(["anna", "ben"])
            _ = try members[0].commit(CommitOptions([.reInit(ReInit(groupID: [1], cipherSuite: cipherSuite().id))]))
            try members[0].with { group throws in _ = try group.encrypt([1]) }
        },
        Rule("12.4.2", "a group that a ReInit has ended takes no commit", .groupEnded) { _ in
            let members = try party(["anna", "ben"])
            _ = try members[0].commit(CommitOptions([.reInit(ReInit(groupID: [1], cipherSuite: cipherSuite().id))]))
            try members[0].with { group throws in _ = try group.stageCommit(at: noon) }
        },
        Rule("12.4.2", "a group that a ReInit has ended follows nobody's commit", .groupEnded) { _ in
            let members = try party(["anna", "ben"], handshake: .publicMessage)
            let output = try members[0].commit(
                CommitOptions([.reInit(ReInit(groupID: [1], cipherSuite: cipherSuite().id))]))
            try members[1].follow(output.commit)
            try members[1].follow(members[0].with { group throws in try group.forged(Forgery()) })
        },
        Rule("12.4.2", "a removed member takes nothing in", .removedFromGroup) { _ in
            let members = try party(["anna", "ben"])
            let output = try members[0].commit(CommitOptions([.remove(1)]))
            try members[1].follow(output.commit)
            try members[1].follow(output.commit)
        },
        Rule("12.4.2", "a removed member sends nothing", .removedFromGroup) { _ in
            let members = try party(["anna", "ben"])
            let output = try members[0].commit(CommitOptions([.remove(1)]))
            try members[1].follow(output.commit)
            try members[1].with { group throws in _ = try group.encrypt([1]) }
        },
        Rule("12.4.2", "a commit is confirmed in the epoch it was staged in", .wrongEpoch) { stage in
            let output = try stage.evil.with { group throws in try group.stageCommit(at: noon) }
            let other = try stage.members[2].commit()
            for member in [stage.evil, stage.members[3]] { try member.follow(other.commit) }
            try stage.victim.with { group throws in
                guard case .commit(let first) = try group.process(output.commit, at: noon) else { return }
                guard case .commit(let second) = try group.process(other.commit, at: noon) else { return }
                _ = try group.confirm(second)
                _ = try group.confirm(first)
            }
        },
        Rule("12.4", "no data is sent while proposals await a commit", .commitRequired) { stage in
            _ = try stage.honest(.remove(3))
            try stage.victim.with { group throws in _ = try group.encrypt([1]) }
        },
        Rule(
            "12.1.8", "a client makes no proposal from outside that may not come from there",
            .proposalNotAllowedFromSender
        ) { _ in
            _ = try MLSMessage(
                proposing: .externalInit(kemOutput: []), asExternalSender: 0,
                key: cipherSuite().generateSignatureKey(), cipherSuite(), groupID: [1], epoch: 1)
        },
        Rule("12.1", "no more proposals pile up than the client keeps", .tooManyProposals) { stage in
            stage.victim.with { $0.configuration.queuedProposals = 1 }
            try stage.propose(.remove(2))
            try stage.propose(.remove(3))
        },
        Rule("12.1", "a client proposes no more than it keeps", .tooManyProposals) { stage in
            stage.victim.with { $0.configuration.queuedProposals = 0 }
            try stage.victim.with { group throws in _ = try group.propose(.remove(2), at: noon) }
        },
        Rule("8.5", "an exported secret is not longer than can be derived", .exportTooLong) { stage in
            try stage.victim.with { group throws in
                _ = try group.export(label: "x", context: [], count: 8_161)
            }
        },
        Rule("12.1.8", "the client takes proposals of others to be added", .newMemberProposalsNotAccepted) { stage in
            stage.victim.with { $0.configuration.acceptsNewMemberProposals = false }
            let (group, epoch) = stage.victim.with { ($0.groupID, $0.epoch) }
            try stage.deliver(
                MLSMessage(
                    proposingToJoin: Member("joiner").keyPackage(), cipherSuite(), groupID: group, epoch: epoch))
        },
        Rule("6.2", "the client takes proposals that are not encrypted", .publicHandshakeNotAccepted) { stage in
            let message = try stage.evil.with { group throws in try group.forged(.proposal(.remove(2))) }
            stage.victim.with { $0.configuration.acceptsPublicHandshake = false }
            defer { stage.victim.with { $0.configuration.acceptsPublicHandshake = true } }
            try stage.deliver(message)
        },
        Rule("6", "a Welcome is not a message of the group", .unexpectedWireFormat) { stage in
            let info = try stage.evil.with { group throws in try group.groupInfo() }
            try stage.deliver(.groupInfo(info))
        },
    ]
}
