extension Group {
    /// Makes a group with one member (§11).
    ///
    /// `groupID` is a name nobody else gives a group, by default random; `extensions` are the group's parameters, which
    /// the creator itself must support.
    public init(
        _ suite: any CipherSuite, groupID: [UInt8]? = nil, profile: LeafProfile, signatureKey: SignaturePrivateKey,
        lifetime: Lifetime, extensions: [Extension] = [], configuration: GroupConfiguration
    ) throws(MLSError) {
        try profile.credential.checkReadable()
        let groupID = groupID ?? randomBytes(suite.secretLength)
        let encryptionKey = suite.generateHPKEKey()
        let leaf = try LeafNode(
            profile, suite: suite, encryptionKey: encryptionKey.publicKey, signatureKey: signatureKey,
            source: .keyPackage(lifetime), at: LeafLocation(groupID: [], leafIndex: 0))
        try extensions.checkUnique()
        try leaf.validate(
            suite, at: LeafLocation(groupID: groupID, leafIndex: 0),
            lifetime: LifetimeRule(now: nil, maximum: configuration.maximumLifetime))
        try configuration.authentication.admitOrRefuse([leaf.admission(replacing: nil)])
        let tree = RatchetTree(leaf)
        try tree.checkCommonSupport(
            extensions: extensions, required: extensions.decoded(.requiredCapabilities))
        let context = GroupContext(
            cipherSuite: suite.id, groupID: groupID, epoch: 0, treeHash: tree.hash(suite), confirmedTranscriptHash: [],
            extensions: extensions)
        let derived = DerivedEpoch(
            suite, epochSecret: .random(suite.secretLength), context: context, tree: tree)
        self.init(
            derived.state(
                suite, context: context, tree: tree, keys: TreeKeys(leafIndex: 0, leaf: encryptionKey)),
            signatureKey: signatureKey, configuration: configuration)
    }
}
