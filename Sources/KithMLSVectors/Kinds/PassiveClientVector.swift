import KithMLS

struct PassiveClientVector: Vector {
    struct PSK: Codable, Sendable {
        let pskId: Hex
        let psk: Hex
    }
    struct Epoch: Codable, Sendable {
        let proposals: [Hex]
        let commit: Hex
        let epochAuthenticator: Hex
    }

    let cipherSuite: UInt16
    let externalPsks: [PSK]
    let keyPackage: Hex
    let signaturePriv: Hex
    let encryptionPriv: Hex
    let initPriv: Hex
    let welcome: Hex
    let ratchetTree: Hex?
    let initialEpochAuthenticator: Hex
    let epochs: [Epoch]
    var suite: UInt16? { cipherSuite }

    /// The vectors' members have bare identities, which some of them change.
    private struct Anybody: AuthenticationService {
        func isValid(_ credential: Credential, signatureKey: SignaturePublicKey, for event: CredentialEvent) -> Bool {
            true
        }
        func isSuccessor(_ new: Credential, of old: Credential) -> Bool { true }
        func isSameParticipant(_ one: Credential, _ other: Credential) -> Bool { one == other }
    }

    private var psks: PreSharedKeys {
        var keys = PreSharedKeys()
        for psk in externalPsks { keys.add(external: psk.pskId.bytes, Secret(copying: psk.psk.bytes)) }
        return keys
    }

    func verify(_ suite: any CipherSuite) throws {
        let bundle = try KeyPackageBundle(
            keyPackage: KeyPackage(message: keyPackage.bytes), initKey: suite.importHPKEKey(initPriv.bytes),
            encryptionKey: suite.importHPKEKey(encryptionPriv.bytes),
            signatureKey: suite.importSignatureKey(signaturePriv.bytes))
        guard case .welcome(let welcome) = try MLSMessage(welcome.bytes) else {
            throw VectorFailure("not a welcome")
        }
        var options = JoinOptions()
        options.psks = psks
        if let ratchetTree { options.tree = try RatchetTree(ratchetTree.bytes) }
        var configuration = GroupConfiguration(authentication: Anybody())
        configuration.maximumLifetime = .max
        var group = try Group(joining: welcome, with: bundle, options, configuration: configuration)
        try check(group.epochAuthenticator == initialEpochAuthenticator.bytes, "initial_epoch_authenticator")
        for (index, epoch) in epochs.enumerated() {
            for proposal in epoch.proposals { _ = try group.process(MLSMessage(proposal.bytes), psks: options.psks) }
            switch try group.process(MLSMessage(epoch.commit.bytes), psks: options.psks) {
            case .commit(let staged): _ = try group.confirm(staged)
            default: throw VectorFailure("epoch \(index) has no commit")
            }
            try check(group.epochAuthenticator == epoch.epochAuthenticator.bytes, "epoch_authenticator \(index)")
        }
    }
}

extension PassiveClientVector {
    /// A client that joins and looks on for `epochs` commits.
    ///
    /// The first eight cases join in all ways: with the tree in the Welcome or beside it, with a pre-shared key or
    /// without, by a commit with a path or without.
    static func make(
        _ suite: any CipherSuite, _ index: Int, epochs: Int, _ draw: inout Draw
    ) throws -> PassiveClientVector {
        var history = try History(suite, &draw)
        try history.populate(draw.number(0...3), &draw)
        let bundle = try GroupMember(suite, "passive client").keyPackage()
        let hasTree = index & 1 == 0
        let (welcome, tree) = try history.add(
            [bundle.keyPackage], withTree: hasTree, withPSK: index & 2 != 0, withPath: index & 4 == 0, &draw)
        let authenticator = try history.members[0].with { $0.epochAuthenticator }
        var steps: [Epoch] = []
        for _ in 0..<epochs {
            let step = try history.step(&draw)
            steps.append(
                Epoch(
                    proposals: step.proposals.map { Hex($0.bytes) }, commit: Hex(step.commit.bytes),
                    epochAuthenticator: Hex(step.authenticator)))
        }
        return PassiveClientVector(
            cipherSuite: suite.id.rawValue,
            externalPsks: history.external.map { PSK(pskId: Hex($0.id), psk: Hex($0.key)) },
            keyPackage: Hex(MLSMessage.keyPackage(bundle.keyPackage).bytes),
            signaturePriv: Hex(bundle.signatureKey.reveal()), encryptionPriv: Hex(bundle.encryptionKey.reveal()),
            initPriv: Hex(bundle.initKey.reveal()), welcome: Hex(welcome.bytes),
            ratchetTree: hasTree ? nil : Hex(tree.bytes), initialEpochAuthenticator: Hex(authenticator), epochs: steps)
    }
}
