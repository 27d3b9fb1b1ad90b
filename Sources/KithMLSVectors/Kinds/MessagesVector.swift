import KithMLS

struct MessagesVector: Vector {
    let mlsWelcome: Hex
    let mlsGroupInfo: Hex
    let mlsKeyPackage: Hex
    let ratchetTree: Hex
    let groupSecrets: Hex
    let addProposal: Hex
    let updateProposal: Hex
    let removeProposal: Hex
    let preSharedKeyProposal: Hex
    let reInitProposal: Hex
    let externalInitProposal: Hex
    let groupContextExtensionsProposal: Hex
    let commit: Hex
    let publicMessageApplication: Hex
    let publicMessageProposal: Hex
    let publicMessageCommit: Hex
    let privateMessage: Hex
    var suite: UInt16? { nil }

    func verify(_ suite: any CipherSuite) throws {
        let messages: [(Hex, WireFormat)] = [
            (mlsWelcome, .welcome), (mlsGroupInfo, .groupInfo), (mlsKeyPackage, .keyPackage),
            (publicMessageApplication, .publicMessage), (publicMessageProposal, .publicMessage),
            (publicMessageCommit, .publicMessage), (privateMessage, .privateMessage),
        ]
        for (hex, format) in messages {
            let message = try MLSMessage(hex.bytes)
            try check(message.wireFormat == format, "wire format")
            try check(message.bytes == hex.bytes, "encoding of \(format)")
        }
        try check(try RatchetTreeNodes(decoding: ratchetTree.bytes).encoded == ratchetTree.bytes, "ratchet tree")
        try check(try Commit(decoding: commit.bytes).encoded == commit.bytes, "commit")
        let secrets = try GroupSecrets(Secret(copying: groupSecrets.bytes))
        try check(secrets.encode() == groupSecrets.bytes, "group secrets")
        let proposals: [(Hex, ProposalType)] = [
            (addProposal, .add), (updateProposal, .update), (removeProposal, .remove), (preSharedKeyProposal, .psk),
            (reInitProposal, .reInit), (externalInitProposal, .externalInit),
            (groupContextExtensionsProposal, .groupContextExtensions),
        ]
        for (hex, type) in proposals {
            var reader = TLSReader(hex.bytes)
            let proposal = try Proposal(type: type, from: &reader)
            try reader.finish()
            var writer = TLSWriter()
            proposal.encodeContent(into: &writer)
            try check(writer.bytes == hex.bytes, "proposal \(type.rawValue)")
        }
    }
}

extension MessagesVector {
    /// One message of each kind, from the life of a small group.
    static func make(_ suite: any CipherSuite, _ draw: inout Draw) throws -> MessagesVector {
        var history = try History(suite, &draw)
        try history.populate(draw.number(1...3), &draw)
        let joiner = try GroupMember(suite, "joiner").keyPackage()
        let founder = history.members[0]
        let (info, tree, groupID, epoch) = try founder.with { group throws(MLSError) in
            (try group.groupInfo(), group.tree, group.groupID, group.epoch)
        }
        let data = draw.bytes(draw.number(0...200))
        let application = try founder.with { group throws(MLSError) in try group.encrypt(data) }
        let update = try LeafNode(
            founder.profile, suite: suite, encryptionKey: suite.generateHPKEKey().publicKey,
            signatureKey: founder.signatureKey, source: .update, at: LeafLocation(groupID: groupID, leafIndex: 0))
        let path = try tree.preparePath(
            suite, leaf: 0, profile: founder.profile, signatureKey: founder.signatureKey, groupID: groupID)
        let pskID = PreSharedKeyID(
            key: draw.flag()
                ? .external(id: draw.bytes(32)) : .resumption(.application, groupID: draw.bytes(16), epoch: 3),
            nonce: draw.bytes(suite.secretLength))
        let proposals: [Proposal] = [
            .add(joiner.keyPackage), .update(update), .remove(draw.number(0...UInt32.max)), .psk(pskID),
            .reInit(ReInit(groupID: draw.bytes(16), cipherSuite: suite.id)),
            .externalInit(kemOutput: draw.bytes(32)),
            .groupContextExtensions([.requiredCapabilities(RequiredCapabilities(credentials: [.basic]))]),
        ]
        let commit = Commit(
            proposals: [.proposal(proposals[2]), .reference(draw.bytes(suite.secretLength))],
            path: try tree.encrypt(suite, path, context: draw.bytes(64), excluding: []))
        let membershipTag = draw.bytes(suite.secretLength)
        let confirmationTag = draw.bytes(suite.secretLength)
        func message(_ content: FramedContent.Content) throws -> Hex {
            var signed = AuthenticatedContent(
                wireFormat: .publicMessage,
                content: FramedContent(
                    groupID: groupID, epoch: epoch, sender: .member(0), authenticatedData: data, content: content))
            try signed.sign(suite, with: founder.signatureKey, context: info.groupContext.encoded)
            if case .commit = content { signed.confirmationTag = confirmationTag }
            return Hex(MLSMessage.publicMessage(PublicMessage(signed, membershipTag: membershipTag)).bytes)
        }
        let secrets = GroupSecrets(
            joinerSecret: .random(suite.secretLength), pathSecret: .random(suite.secretLength), psks: [pskID]
        ).encode()
        let (welcome, _) = try history.add(
            [joiner.keyPackage], withTree: draw.flag(), withPSK: draw.flag(), withPath: draw.flag(), &draw)
        return MessagesVector(
            mlsWelcome: Hex(welcome.bytes), mlsGroupInfo: Hex(MLSMessage.groupInfo(info).bytes),
            mlsKeyPackage: Hex(MLSMessage.keyPackage(joiner.keyPackage).bytes), ratchetTree: Hex(tree.bytes),
            groupSecrets: Hex(secrets), addProposal: content(proposals[0]), updateProposal: content(proposals[1]),
            removeProposal: content(proposals[2]), preSharedKeyProposal: content(proposals[3]),
            reInitProposal: content(proposals[4]), externalInitProposal: content(proposals[5]),
            groupContextExtensionsProposal: content(proposals[6]), commit: Hex(commit.encoded),
            publicMessageApplication: try message(.application(data)),
            publicMessageProposal: try message(.proposal(proposals[draw.number(0...6)])),
            publicMessageCommit: try message(.commit(commit)), privateMessage: Hex(application.bytes))
    }

    /// The bytes that follow the kind.
    private static func content(_ proposal: Proposal) -> Hex {
        var writer = TLSWriter()
        proposal.encodeContent(into: &writer)
        return Hex(writer.bytes)
    }
}
