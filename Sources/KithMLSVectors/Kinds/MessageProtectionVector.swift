import KithMLS

struct MessageProtectionVector: Vector {
    let cipherSuite: UInt16
    let groupId: Hex
    let epoch: UInt64
    let treeHash: Hex
    let confirmedTranscriptHash: Hex
    let signaturePriv: Hex
    let signaturePub: Hex
    let encryptionSecret: Hex
    let senderDataSecret: Hex
    let membershipKey: Hex
    let proposal: Hex
    let proposalPub: Hex
    let proposalPriv: Hex
    let commit: Hex
    let commitPub: Hex
    let commitPriv: Hex
    let application: Hex
    let applicationPriv: Hex
    var suite: UInt16? { cipherSuite }

    private var context: [UInt8] {
        GroupContext(
            cipherSuite: CipherSuiteID(rawValue: cipherSuite), groupID: groupId.bytes, epoch: epoch,
            treeHash: treeHash.bytes, confirmedTranscriptHash: confirmedTranscriptHash.bytes, extensions: []
        ).encoded
    }

    private func tree(_ suite: any CipherSuite) -> SecretTree {
        SecretTree(suite, encryptionSecret: Secret(copying: encryptionSecret.bytes), leaves: 2)
    }

    func verify(_ suite: any CipherSuite) throws {
        let proposal = FramedContent.Content.proposal(try Proposal(decoding: proposal.bytes))
        let commit = FramedContent.Content.commit(try Commit(decoding: commit.bytes))
        try verifyPublic(suite, proposalPub.bytes, proposal)
        try verifyPublic(suite, commitPub.bytes, commit)
        try verifyPrivate(suite, proposalPriv.bytes, proposal)
        try verifyPrivate(suite, commitPriv.bytes, commit)
        try verifyPrivate(suite, applicationPriv.bytes, .application(application.bytes))
        let signed = try sign(suite, .application(application.bytes), .publicMessage)
        do throws(MLSError) {
            _ = try PublicMessage(
                protecting: signed, suite, membershipKey: Secret(copying: membershipKey.bytes), context: context)
            throw .signingFailed
        } catch {
            try check(error == .applicationDataNotEncrypted, "refusal of application data in the clear")
        }
    }

    private func sign(
        _ suite: any CipherSuite, _ content: FramedContent.Content, _ format: WireFormat
    ) throws -> AuthenticatedContent {
        var signed = AuthenticatedContent(
            wireFormat: format,
            content: FramedContent(
                groupID: groupId.bytes, epoch: epoch, sender: .member(1), authenticatedData: [], content: content))
        try signed.sign(suite, with: suite.importSignatureKey(signaturePriv.bytes), context: context)
        if case .commit = content { signed.confirmationTag = [UInt8](repeating: 7, count: suite.secretLength) }
        return signed
    }

    private func verifyPublic(_ suite: any CipherSuite, _ bytes: [UInt8], _ content: FramedContent.Content) throws {
        let key = Secret(copying: membershipKey.bytes)
        let own = try PublicMessage(
            protecting: sign(suite, content, .publicMessage), suite, membershipKey: key, context: context)
        for bytes in [bytes, MLSMessage.publicMessage(own).bytes] {
            guard case .publicMessage(let message) = try MLSMessage(bytes) else {
                throw VectorFailure("wire format differs")
            }
            try message.checkMembership(suite, key, context: context)
            try check(
                message.authenticated.hasValidSignature(suite, by: signaturePub.bytes, context: context), "signature")
            try check(message.authenticated.content.content == content, "content")
            try check(message.authenticated.content.sender == .member(1), "sender")
        }
    }

    private func verifyPrivate(_ suite: any CipherSuite, _ bytes: [UInt8], _ content: FramedContent.Content) throws {
        let senderDataSecret = Secret(copying: senderDataSecret.bytes)
        let step = try tree(suite).next(leaf: 1, RatchetKind(content.type))
        let own = try PrivateMessage(
            protecting: sign(suite, content, .privateMessage), suite, senderDataSecret: senderDataSecret,
            key: step.key, generation: step.generation, padding: 13)
        for bytes in [bytes, MLSMessage.privateMessage(own).bytes] {
            guard case .privateMessage(let message) = try MLSMessage(bytes) else {
                throw VectorFailure("wire format differs")
            }
            let senderData = try message.senderData(suite, senderDataSecret: senderDataSecret)
            try check(senderData.leafIndex == 1, "sender")
            let step = try tree(suite).key(
                leaf: 1, RatchetKind(content.type), generation: senderData.generation, limits: RatchetLimits())
            let opened = try message.content(suite, senderData: senderData, key: step.key)
            try check(opened.hasValidSignature(suite, by: signaturePub.bytes, context: context), "signature")
            try check(opened.content.content == content, "content")
        }
    }
}

extension MessageProtectionVector {
    static func make(_ suite: any CipherSuite, _ draw: inout Draw) throws -> MessageProtectionVector {
        let key = suite.generateSignatureKey()
        // What is protected stands in the vector; the messages are made by the same way that verifies them.
        let bare = MessageProtectionVector(
            cipherSuite: suite.id.rawValue, groupId: draw.hex(draw.number(1...32)), epoch: draw.number(0...UInt64.max),
            treeHash: draw.hex(suite.secretLength), confirmedTranscriptHash: draw.hex(suite.secretLength),
            signaturePriv: Hex(key.reveal()), signaturePub: Hex(key.publicKey),
            encryptionSecret: draw.hex(suite.secretLength), senderDataSecret: draw.hex(suite.secretLength),
            membershipKey: draw.hex(suite.secretLength), proposal: Hex(proposal(suite, &draw).encoded),
            proposalPub: Hex([]), proposalPriv: Hex([]),
            commit: Hex(
                Commit(
                    proposals: [
                        .proposal(proposal(suite, &draw)), .reference(draw.bytes(suite.secretLength)),
                    ], path: nil
                ).encoded), commitPub: Hex([]), commitPriv: Hex([]), application: draw.hex(draw.number(0...100)),
            applicationPriv: Hex([]))
        let proposal = FramedContent.Content.proposal(try Proposal(decoding: bare.proposal.bytes))
        let commit = FramedContent.Content.commit(try Commit(decoding: bare.commit.bytes))
        // Each ratchet's first key goes to the first message, its second to the next.
        var tree = bare.tree(suite)
        return MessageProtectionVector(
            cipherSuite: bare.cipherSuite, groupId: bare.groupId, epoch: bare.epoch, treeHash: bare.treeHash,
            confirmedTranscriptHash: bare.confirmedTranscriptHash, signaturePriv: bare.signaturePriv,
            signaturePub: bare.signaturePub, encryptionSecret: bare.encryptionSecret,
            senderDataSecret: bare.senderDataSecret, membershipKey: bare.membershipKey, proposal: bare.proposal,
            proposalPub: try bare.public(suite, proposal),
            proposalPriv: try bare.private(suite, proposal, &tree, padding: draw.number(0...64)), commit: bare.commit,
            commitPub: try bare.public(suite, commit),
            commitPriv: try bare.private(suite, commit, &tree, padding: draw.number(0...64)),
            application: bare.application,
            applicationPriv: try bare.private(
                suite, .application(bare.application.bytes), &tree, padding: draw.number(0...64)))
    }

    private static func proposal(_ suite: any CipherSuite, _ draw: inout Draw) -> Proposal {
        switch draw.number(0...2) {
        case 0: .remove(draw.number(0...1_000))
        case 1:
            .psk(
                PreSharedKeyID(
                    key: .external(id: draw.bytes(draw.number(1...32))), nonce: draw.bytes(suite.secretLength)))
        default: .externalInit(kemOutput: draw.bytes(32))
        }
    }

    private func `public`(_ suite: any CipherSuite, _ content: FramedContent.Content) throws -> Hex {
        let message = try PublicMessage(
            protecting: sign(suite, content, .publicMessage), suite,
            membershipKey: Secret(copying: membershipKey.bytes), context: context)
        return Hex(MLSMessage.publicMessage(message).bytes)
    }

    private func `private`(
        _ suite: any CipherSuite, _ content: FramedContent.Content, _ tree: inout SecretTree, padding: Int
    ) throws -> Hex {
        let step = try tree.next(leaf: 1, RatchetKind(content.type))
        tree.apply(step)
        let message = try PrivateMessage(
            protecting: sign(suite, content, .privateMessage), suite,
            senderDataSecret: Secret(copying: senderDataSecret.bytes), key: step.key, generation: step.generation,
            padding: padding)
        return Hex(MLSMessage.privateMessage(message).bytes)
    }
}
