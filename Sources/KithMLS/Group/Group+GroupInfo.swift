extension EpochState {
    /// The epoch's public state, signed (§12.4.3).
    func groupInfo(
        signatureKey: SignaturePrivateKey, withTree: Bool, withExternalKey: Bool, extensions: [Extension] = []
    ) throws(MLSError) -> GroupInfo {
        var extensions = extensions
        if withTree { extensions.append(Extension(type: .ratchetTree, data: tree.bytes)) }
        if withExternalKey {
            let key = try secrets.externalKey(suite).publicKey
            extensions.append(Extension(type: .externalPub, data: ExternalPub(key: key).encoded))
        }
        try extensions.checkUnique()
        var info = GroupInfo(
            groupContext: context, extensions: extensions, confirmationTag: shared.confirmationTag, signer: leafIndex,
            signature: [])
        try info.sign(suite, with: signatureKey)
        return info
    }
}

extension Group {
    /// The public state of the epoch that the own commit would begin, to be published once it was accepted; O(members)
    /// with the tree.
    ///
    /// - Throws: ``MLSError/noPendingCommit``.
    public func pendingGroupInfo(
        withTree: Bool = true, withExternalKey: Bool = true, extensions: [Extension] = []
    ) throws(MLSError) -> GroupInfo {
        switch pending {
        case .none: throw .noPendingCommit
        case .some(let pending):
            return try pending.state.groupInfo(
                signatureKey: pending.signatureKey, withTree: withTree, withExternalKey: withExternalKey,
                extensions: extensions)
        }
    }

    /// The group's public state, for those who want to join by their own commit or to observe; O(members) with the tree
    /// (§12.4.3).
    public func groupInfo(
        withTree: Bool = true, withExternalKey: Bool = true, extensions: [Extension] = []
    ) throws(MLSError) -> GroupInfo {
        try checkUsable()
        return try state.groupInfo(
            signatureKey: signatureKey, withTree: withTree, withExternalKey: withExternalKey, extensions: extensions)
    }
}
