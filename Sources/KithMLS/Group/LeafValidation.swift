/// The time of a check, in seconds since 1970, and the longest lifetime of a leaf (RFC 9420 §7.2, §7.3).
struct LifetimeRule {
    /// Nil where the client has no clock; lifetimes are then not held against it.
    let now: UInt64?
    let maximum: UInt64

    func check(_ lifetime: Lifetime) throws(MLSError) {
        guard lifetime.notBefore <= lifetime.notAfter, lifetime.notAfter - lifetime.notBefore <= maximum else {
            throw .lifetimeTooLong
        }
        if let now, !lifetime.contains(now) { throw .leafExpired }
    }
}

extension LeafNode {
    /// Checks what can be said about a leaf alone (§7.3).
    ///
    /// Its support of the group's features, and that its keys are nobody else's, are checked on the whole tree.
    func validate(
        _ suite: any CipherSuite, at location: LeafLocation, lifetime: LifetimeRule?
    ) throws(MLSError) {
        guard capabilities.versions.contains(.mls10) else { throw .versionNotSupportedByMember }
        guard capabilities.cipherSuites.contains(suite.id) else { throw .cipherSuiteNotSupportedByMember }
        guard capabilities.credentials.contains(credential.type) else { throw .credentialNotInCapabilities }
        try extensions.checkUnique()
        guard capabilities.supports(extensions.map(\.type)) else { throw .extensionNotInCapabilities }
        if case .keyPackage(let own) = source, let lifetime { try lifetime.check(own) }
        guard suite.isValidHPKEKey(encryptionKey) else { throw .invalidPublicKey }
        guard hasValidSignature(suite, at: location) else { throw .invalidLeafSignature }
    }
}

extension KeyPackage {
    /// Checks everything about a key package but its credential and its keys' uniqueness (§10.1).
    func validate(
        _ suite: any CipherSuite, lifetime: LifetimeRule
    ) throws(MLSError) {
        guard version == .mls10 else { throw .keyPackageVersionMismatch }
        guard cipherSuite == suite.id else { throw .keyPackageCipherSuiteMismatch }
        guard case .keyPackage = leafNode.source else { throw .wrongLeafNodeSource }
        guard initKey != leafNode.encryptionKey else { throw .initKeyIsEncryptionKey }
        guard suite.isValidHPKEKey(initKey) else { throw .invalidPublicKey }
        try extensions.checkUnique()
        try leafNode.validate(
            suite, at: LeafLocation(groupID: [], leafIndex: 0),
            lifetime: lifetime)
        guard hasValidSignature(suite) else { throw .invalidKeyPackageSignature }
    }

    /// Checks a key package that was fetched, before it is used to add its client (§10.1).
    public func validate(
        _ suite: any CipherSuite, at now: UInt64, maximumLifetime: UInt64 = .max,
        authentication: any AuthenticationService
    ) throws(MLSError) {
        try validate(
            suite, lifetime: LifetimeRule(now: now, maximum: maximumLifetime))
        guard
            authentication.isValid(leafNode.credential, signatureKey: leafNode.signatureKey, for: .keyPackage)
        else { throw .credentialRejected }
    }
}

extension TreeTraits {
    /// Checks that what all have in common is enough: for the credentials in use, for what the group requires, and for
    /// its extensions (§7.3, §11.1, §13.4).
    func check(extensions: [Extension], required: RequiredCapabilities?) throws(MLSError) {
        guard credentialsInUse.isCovered(by: credentials) else { throw .credentialNotSupportedByMember }
        if let required, !satisfies(required) { throw .requiredCapabilitiesMissing }
        guard supports(extensions.map(\.type)) else { throw .extensionNotSupportedByMember }
    }
}

extension RatchetTree {
    /// Checks that every member supports every credential in use, what the group requires and its extensions (§7.3,
    /// §11.1, §13.4).
    func checkCommonSupport(extensions: [Extension], required: RequiredCapabilities?) throws(MLSError) {
        try traits?.check(extensions: extensions, required: required)
    }

    /// Checks a whole tree as a new member does: its hash, its parent hashes and all its leaves (§12.4.3.1).
    func validate(
        _ suite: any CipherSuite, context: GroupContext, lifetime: LifetimeRule, configuration: GroupConfiguration
    ) throws(MLSError) {
        guard hash(suite) == context.treeHash else { throw .treeHashMismatch }
        try checkParentHashes(suite)
        let required: RequiredCapabilities? = try context.extensions.decoded(.requiredCapabilities)
        let members = memberNodes
        _ = try configuration.executor.map(members.count) { index throws(MLSError) in
            // A leaf that expired after it came in is its owner's to renew; that does not keep anybody from
            // joining (§7.3; Documentation/Deviations.md).
            try members[index].node.leaf?.validate(
                suite, at: LeafLocation(groupID: context.groupID, leafIndex: members[index].index),
                lifetime: LifetimeRule(now: nil, maximum: lifetime.maximum))
        }
        for (_, node) in members {
            guard
                configuration.authentication.isValid(
                    node.credential, signatureKey: node.signatureKey, for: .joining)
            else { throw .credentialRejected }
        }
        try checkCommonSupport(extensions: context.extensions, required: required)
    }
}
