@testable import KithMLS

extension Rule {
    /// The evil member commits a path whose leaf is changed.
    private static func path(_ stage: Stage, _ leaf: @escaping (inout LeafNode) -> Void) throws {
        var forgery = Forgery()
        forgery.leaf = leaf
        try stage.commit(forgery)
    }

    private static let strange = ExtensionType(rawValue: 0xF123)

    static let leaves: [Rule] = [
        Rule("7.2", "a path's leaf lists the protocol's version", .versionNotSupportedByMember) { stage in
            try path(stage) { $0.capabilities.versions = [] }
        },
        Rule("7.2", "a path's leaf lists the cipher suite", .cipherSuiteNotSupportedByMember) { stage in
            try path(stage) { $0.capabilities.cipherSuites = [] }
        },
        Rule("7.2", "a path's leaf lists its credential's kind", .credentialNotInCapabilities) { stage in
            try path(stage) { $0.capabilities.credentials = [.x509] }
        },
        Rule("7.3", "a path's leaf lists its extensions", .extensionNotInCapabilities) { stage in
            try path(stage) { $0.extensions = [Extension(type: strange, data: [])] }
        },
        Rule("13.4", "a leaf has each kind of extension once", .duplicateExtension) { stage in
            try path(stage) { $0.extensions = [.applicationID([1]), .applicationID([2])] }
        },
        Rule("7.3", "a path's leaf supports what the group requires", .requiredCapabilitiesMissing) { stage in
            var capabilities = Capabilities()
            capabilities.proposals = [ProposalType(rawValue: 0xF001)]
            stage.use(
                [.requiredCapabilities(RequiredCapabilities(proposals: [ProposalType(rawValue: 0xF001)]))],
                capabilities)
            try path(stage) { $0.capabilities.proposals = [] }
        },
        Rule("13.4", "a path's leaf supports the group's extensions", .extensionNotSupportedByMember) { stage in
            var capabilities = Capabilities()
            capabilities.extensions = [strange]
            stage.use([Extension(type: strange, data: [1])], capabilities)
            try path(stage) { $0.capabilities.extensions = [] }
        },
        Rule("7.3", "every member supports a new leaf's kind of credential", .credentialNotSupportedByMember) { stage in
            let type = CredentialType(rawValue: 0xF00D)
            let package = try stage.package(leaf: {
                $0.capabilities.credentials.append(type)
                $0.credential = .other(type, [1])
            })
            try stage.commit(.add(package))
        },
        Rule("7.3", "a new leaf supports every kind of credential in use", .credentialNotSupportedByMember) { stage in
            let type = CredentialType(rawValue: 0xF00D)
            let package = try stage.package(leaf: {
                $0.capabilities.credentials = [type]
                $0.credential = .other(type, [1])
            })
            try stage.commit(.add(package))
        },
        Rule("7.3", "a path's leaf says to come from a commit", .wrongLeafNodeSource) { stage in
            try path(stage) { $0.source = .update }
        },
        Rule("7.3", "an Update's leaf says to come from an Update", .wrongLeafNodeSource) { stage in
            try stage.deliver(stage.update(leaf: { $0.source = .commit(parentHash: []) }))
        },
        Rule("7.3", "a path's leaf is signed by its owner for its place", .invalidLeafSignature) { stage in
            var forgery = Forgery()
            forgery.signedLeaf = { $0.signature[$0.signature.count - 1] ^= 1 }
            try stage.commit(forgery)
        },
        Rule("7.3", "an Update's leaf is signed by its owner for its place", .invalidLeafSignature) { stage in
            try stage.deliver(stage.update(signed: { $0.extensions = [.applicationID([1])] }))
        },
        Rule("7.3", "an Update's encryption key is new", .encryptionKeyNotChanged) { stage in
            let old = try present(stage.evil.with { $0.tree.leaf(2) })
            try stage.deliver(stage.update(leaf: { $0.encryptionKey = old.encryptionKey }))
        },
        Rule("7.3", "an Update's encryption key is nobody else's", .duplicateEncryptionKey) { stage in
            let other = try present(stage.evil.with { $0.tree.leaf(3) })
            try stage.deliver(stage.update(leaf: { $0.encryptionKey = other.encryptionKey }))
        },
        Rule("7.3", "an Update's signature key is nobody else's", .duplicateSignatureKey) { stage in
            let fourth = stage.members[3]
            let third = stage.members[2]
            let message = try third.with { group throws in
                let node = try LeafNode(
                    third.profile, suite: third.suite, encryptionKey: third.suite.generateHPKEKey().publicKey,
                    signatureKey: fourth.signatureKey, source: .update,
                    at: LeafLocation(groupID: group.groupID, leafIndex: group.leafIndex))
                return try group.forged(.proposal(.update(node)))
            }
            try stage.deliver(message)
        },
        Rule("12.4.2", "a path's leaf has a new encryption key", .encryptionKeyNotChanged) { stage in
            let old = try present(stage.evil.with { $0.tree.leaf(0) })
            try path(stage) { $0.encryptionKey = old.encryptionKey }
        },
        Rule("7.3", "a path's signature key is nobody else's", .duplicateSignatureKey) { stage in
            var forgery = Forgery()
            forgery.signatureKey = stage.members[3].signatureKey
            try stage.commit(forgery)
        },
        Rule("5.3.1", "the application believes an Update's credential", .credentialRejected) { stage in
            stage.victim.with { $0.configuration.authentication = Distrust(event: .update) }
            try stage.deliver(stage.update(leaf: { $0.credential = .basic(identity: [1]) }))
        },
        Rule("5.3.1", "the application takes an Update's credential after the old one", .credentialNotSuccessor) {
            stage in
            try stage.deliver(stage.update(leaf: { $0.credential = .basic(identity: [1]) }))
        },
        Rule("5.3.1", "the application believes a path's credential", .credentialRejected) { stage in
            stage.victim.with { $0.configuration.authentication = Distrust(event: .commit) }
            try path(stage) { $0.credential = .basic(identity: [1]) }
        },
        Rule("5.3.1", "the application takes a path's credential after the old one", .credentialNotSuccessor) { stage in
            try path(stage) { $0.credential = .basic(identity: [1]) }
        },
        Rule("7.2", "a leaf from a key package has no longer lifetime than the client takes", .lifetimeTooLong) {
            stage in
            try stage.commit(.add(stage.package(leaf: { $0.source = .keyPackage(lifetime(1_000_000_000)) })))
        },
        Rule("7.2", "a leaf's lifetime does not end before it begins", .lifetimeTooLong) { stage in
            try stage.commit(
                .add(
                    stage.package(leaf: {
                        $0.source = .keyPackage(Lifetime(notBefore: noon + 1, notAfter: noon))
                    })))
        },
        Rule("7.3", "a leaf's lifetime has begun", .leafExpired) { stage in
            try stage.commit(.add(stage.package(leaf: { $0.source = .keyPackage(lifetime(from: noon + 60)) })))
        },
        Rule("7.3", "a leaf's lifetime has not ended", .leafExpired) { stage in
            try stage.commit(.add(stage.package(leaf: { $0.source = .keyPackage(lifetime(from: noon - 90_000)) })))
        },
    ]

    static let keyPackages: [Rule] = [
        Rule("10.1", "a key package is of this version", .keyPackageVersionMismatch) { stage in
            try stage.commit(.add(stage.package(change: { $0.version = ProtocolVersion(rawValue: 2) })))
        },
        Rule("10", "a key package's version is its message's", .keyPackageVersionMismatch) { stage in
            let package = try stage.package(change: { $0.version = ProtocolVersion(rawValue: 2) })
            _ = try KeyPackage(message: MLSMessage.keyPackage(package).bytes)
        },
        Rule("10.1", "a key package is for the group's cipher suite", .keyPackageCipherSuiteMismatch) { stage in
            try stage.commit(.add(stage.package(change: { $0.cipherSuite = CipherSuiteID(rawValue: 3) })))
        },
        Rule("10.1", "a key package's leaf says to come from one", .wrongLeafNodeSource) { stage in
            try stage.commit(.add(stage.package(leaf: { $0.source = .update })))
        },
        Rule("10.1", "a key package is signed by its owner", .invalidKeyPackageSignature) { stage in
            try stage.commit(.add(stage.package(signed: { $0.extensions = [.applicationID([1])] })))
        },
        Rule("10.1", "a key package's leaf is signed by its owner", .invalidLeafSignature) { stage in
            try stage.commit(.add(stage.package(signedLeaf: { $0.extensions = [.applicationID([1])] })))
        },
        Rule("10.1", "a key package's init key is not its leaf's key", .initKeyIsEncryptionKey) { stage in
            try stage.commit(.add(stage.package(change: { $0.initKey = $0.leafNode.encryptionKey })))
        },
        Rule("10", "a key package's init key is a public key of the suite", .invalidPublicKey) { stage in
            try stage.commit(.add(stage.package(change: { $0.initKey = [1, 2, 3] })))
        },
        Rule("10", "a key package's encryption key is a public key of the suite", .invalidPublicKey) { stage in
            try stage.commit(.add(stage.package(leaf: { $0.encryptionKey = [1, 2, 3] })))
        },
        Rule("13.4", "a key package has each kind of extension once", .duplicateExtension) { stage in
            try stage.commit(
                .add(stage.package(change: { $0.extensions = [.applicationID([1]), .applicationID([2])] })))
        },
        Rule("5.3.1", "the application believes an added credential", .credentialRejected) { stage in
            stage.victim.with { $0.configuration.authentication = Distrust(event: .add) }
            try stage.commit(.add(stage.package()))
        },
        Rule("11.1", "a proposed client supports what the group requires", .requiredCapabilitiesMissing) { stage in
            var capabilities = Capabilities()
            capabilities.proposals = [ProposalType(rawValue: 0xF001)]
            stage.use(
                [.requiredCapabilities(RequiredCapabilities(proposals: [ProposalType(rawValue: 0xF001)]))],
                capabilities)
            try stage.propose(.add(stage.package()))
        },
        Rule("13.4", "an added client supports the group's extensions", .extensionNotSupportedByMember) { stage in
            var capabilities = Capabilities()
            capabilities.extensions = [strange]
            stage.use([Extension(type: strange, data: [1])], capabilities)
            try stage.commit(.add(stage.package()))
        },
        Rule("11.1", "a group's creator supports what it requires", .requiredCapabilitiesMissing) { _ in
            try Member("creator").create(extensions: [
                .requiredCapabilities(RequiredCapabilities(proposals: [ProposalType(rawValue: 0xF001)]))
            ])
        },
        Rule("5.3.1", "the application believes a credential that is proposed", .credentialRejected) { stage in
            stage.victim.with { $0.configuration.authentication = Distrust(event: .add) }
            try stage.propose(.add(stage.package()))
        },
        Rule("5.3.1", "the application believes a fetched key package's credential", .credentialRejected) { stage in
            try stage.package().validate(cipherSuite(), at: noon, authentication: Distrust(event: .keyPackage))
        },
    ]
}

/// Believes nobody at one event, and lets everybody replace anything at that event's sake.
struct Distrust: AuthenticationService {
    let event: CredentialEvent

    func isValid(_ credential: Credential, signatureKey: SignaturePublicKey, for event: CredentialEvent) -> Bool {
        event != self.event
    }
    func isSuccessor(_ new: Credential, of old: Credential) -> Bool { true }
    func isSameParticipant(_ one: Credential, _ other: Credential) -> Bool { one == other }
}
