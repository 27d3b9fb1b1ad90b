extension Group {
    /// Encrypts data of the application to the group (§15).
    ///
    /// - Throws: ``MLSError/commitRequired`` while proposals of this epoch await a commit (§12.4);
    ///   ``MLSError/messageTooLong`` for more than 512 MiB of both.
    public mutating func encrypt(
        _ data: [UInt8], authenticatedData: [UInt8] = []
    ) throws(MLSError) -> MLSMessage {
        try checkSending()
        var content = try signed(.application(data), authenticatedData, .privateMessage)
        return try protect(&content)
    }

    /// Checks that data could be encrypted now.
    ///
    /// - Throws: what ``encrypt(_:authenticatedData:)`` would.
    package func checkSending() throws(MLSError) {
        try checkUsable()
        guard proposals.all.isEmpty else { throw .commitRequired }
    }

    /// Forgets the proposals of this epoch, which nobody will then commit here.
    public mutating func discardProposals() { proposals = ProposalQueue() }

    /// A content of this member, signed for the current epoch; a commit still lacks its tag.
    func signed(
        _ content: FramedContent.Content, _ authenticatedData: [UInt8], _ format: WireFormat
    ) throws(MLSError) -> AuthenticatedContent {
        let content = FramedContent(
            groupID: groupID, epoch: epoch, sender: .member(leafIndex), authenticatedData: authenticatedData,
            content: content)
        try content.checkLength()
        var authenticated = AuthenticatedContent(wireFormat: format, content: content)
        try authenticated.sign(state.suite, with: signatureKey, context: state.shared.contextBytes)
        return authenticated
    }

    /// Protects a signed content with the keys of the current epoch, which uses up a generation when it is encrypted.
    mutating func protect(_ authenticated: inout AuthenticatedContent) throws(MLSError) -> MLSMessage {
        guard authenticated.wireFormat == .privateMessage else {
            return .publicMessage(
                try PublicMessage(
                    protecting: authenticated, state.suite, membershipKey: state.secrets.membershipKey,
                    context: state.shared.contextBytes))
        }
        let step = try state.secretTree.next(
            leaf: leafIndex, RatchetKind(authenticated.content.content.type),
            keeps: authenticated.content.content.type == .application ? configuration.readableOwnMessages : 0)
        let message = try PrivateMessage(
            protecting: authenticated, state.suite, senderDataSecret: state.secrets.senderData, key: step.key,
            generation: step.generation, padding: configuration.padding.padding(for: authenticated.contentBytes.count))
        state.secretTree.apply(step)
        sent.add(state.suite.hash(message.ciphertext), limit: configuration.rememberedMessages)
        return .privateMessage(message)
    }
}
