// An epoch in bytes. Every part is written by one function and read by the one beside it.

extension EpochSecrets {
    func encode(into writer: inout TLSWriter) {
        writer.secret(senderData)
        writer.secret(exporter)
        writer.secret(external)
        writer.secret(confirmationKey)
        writer.secret(membershipKey)
        writer.secret(resumptionPSK.secret)
        writer.secret(authenticator)
        writer.secret(initSecret)
    }

    init(from reader: inout TLSReader) throws(MLSError) {
        self.init(
            senderData: try reader.secret(), exporter: try reader.secret(), external: try reader.secret(),
            confirmationKey: try reader.secret(), membershipKey: try reader.secret(),
            resumptionPSK: SecretBox(try reader.secret()), authenticator: try reader.secret(),
            initSecret: try reader.secret())
    }
}

extension TreeKeys {
    func encode(into writer: inout TLSWriter) {
        writer.integer(leafIndex)
        writer.secret(leaf.secret)
        writer.integer(UInt8(parents.count))
        for (node, key) in parents.sorted(by: { $0.key < $1.key }) {
            writer.integer(node)
            writer.secret(key.secret)
        }
    }

    init(from reader: inout TLSReader, _ suite: any CipherSuite) throws(MLSError) {
        self.init(leafIndex: try reader.integer(), leaf: try reader.hpkeKey(suite))
        for _ in 0..<(try reader.integer(as: UInt8.self)) {
            let node: UInt32 = try reader.integer()
            parents[node] = try reader.hpkeKey(suite)
        }
    }
}

/// An epoch's fixed part: all but the tree, the private keys and the message keys.
struct EpochCore: ~Copyable {
    let context: GroupContext
    let confirmationTag: [UInt8]
    /// The height of the tree's root above its leaves.
    let treeLevel: Int
    let secrets: EpochSecrets

    init(from reader: inout TLSReader) throws(MLSError) {
        let context = try GroupContext(from: &reader)
        let tag = try reader.opaque()
        let level = Int(try reader.integer(as: UInt8.self))
        guard level < TreeMath.maximumDepth else { throw .treeTooLarge }
        let secrets = try EpochSecrets(from: &reader)
        self.context = context
        self.confirmationTag = tag
        self.treeLevel = level
        self.secrets = secrets
    }

    consuming func state(
        _ suite: any CipherSuite, tree: RatchetTree, keys: TreeKeys, secretTree: SecretTree
    ) throws(MLSError) -> EpochState {
        guard tree.hash(suite) == context.treeHash else { throw .treeHashMismatch }
        try keys.check(in: tree)
        return EpochState(
            shared: PublicState(suite, context: context, tree: tree, confirmationTag: confirmationTag), keys: keys,
            secrets: secrets, secretTree: secretTree)
    }
}

extension EpochState {
    func encodeCore(into writer: inout TLSWriter) {
        context.encode(into: &writer)
        writer.opaque(shared.confirmationTag)
        writer.integer(UInt8(tree.root.level))
        secrets.encode(into: &writer)
    }
}

extension PendingCommit {
    /// The commit and the epoch that it begins, whose tree is stored as its differences from the current one.
    func row(_ current: RatchetTree) -> GroupRow {
        let differences = state.tree.differences(from: current)
        var writer = RowWriter(capacity: 8_192 + differences.count * 600)
        state.encodeCore(into: &writer.bytes)
        state.keys.encode(into: &writer.bytes)
        state.secretTree.encode(into: &writer.bytes)
        writer.bytes.list(differences)
        writer.secret(signatureKey.secret)
        message.encode(into: &writer.bytes)
        change.encode(into: &writer.bytes)
        writer.bytes.list(proposals)
        writer.bytes.integer(UInt32(references.count))
        for reference in references { writer.bytes.opaque(reference) }
        return writer.row(.pending)
    }

    init(
        from reader: inout TLSReader, _ suite: any CipherSuite, current: RatchetTree, welcome: MLSMessage?
    ) throws(MLSError) {
        let core = try EpochCore(from: &reader)
        let keys = try TreeKeys(from: &reader, suite)
        let secretTree = try SecretTree(from: &reader, suite, leaves: 1 << core.treeLevel)
        let tree = try current.applying(reader.list(), level: core.treeLevel)
        let state = try core.state(suite, tree: tree, keys: keys, secretTree: secretTree)
        let signatureKey = try reader.signatureKey(suite)
        let message = try MLSMessage(from: &reader)
        let change = try EpochChange(from: &reader)
        let proposals: [Proposal] = try reader.list()
        var references: [ProposalReference] = []
        for _ in 0..<(try reader.integer(as: UInt32.self)) { references.append(try reader.opaque()) }
        self.init(
            state: state, signatureKey: signatureKey, message: message, welcome: welcome, change: change,
            proposals: proposals, references: references)
    }
}

extension ApplicationMessage: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) {
        self.init(
            data: try reader.opaque(), sender: try reader.integer(), senderNode: try LeafNode(from: &reader),
            epoch: try reader.integer(), generation: try reader.integer(), authenticatedData: try reader.opaque())
    }

    package func encode(into writer: inout TLSWriter) {
        writer.opaque(data)
        writer.integer(sender)
        senderNode.encode(into: &writer)
        writer.integer(epoch)
        writer.integer(generation)
        writer.opaque(authenticatedData)
    }
}

extension QueuedProposal: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) {
        self.init(
            reference: try reader.opaque(), proposal: try Proposal(from: &reader), sender: try Sender(from: &reader),
            authenticatedData: try reader.opaque())
    }

    package func encode(into writer: inout TLSWriter) {
        writer.opaque(reference)
        proposal.encode(into: &writer)
        sender.encode(into: &writer)
        writer.opaque(authenticatedData)
    }
}

extension SentProposal: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) {
        self.init(proposal: try Proposal(from: &reader), sender: try Sender(from: &reader))
    }

    package func encode(into writer: inout TLSWriter) {
        proposal.encode(into: &writer)
        sender.encode(into: &writer)
    }
}

extension EpochChange.Member: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) {
        self.init(leaf: try reader.integer(), node: try LeafNode(from: &reader))
    }

    package func encode(into writer: inout TLSWriter) {
        writer.integer(leaf)
        node.encode(into: &writer)
    }
}

extension EpochChange: TLSCodable {
    package init(from reader: inout TLSReader) throws(MLSError) {
        epoch = try reader.integer()
        committer = try reader.integer()
        isExternal = try reader.flag()
        hasPath = try reader.flag()
        added = try reader.list()
        removed = try reader.list()
        updated = try reader.list()
        psks = try reader.list()
        extensions = try reader.flag() ? try reader.list() : nil
        reInit = try reader.optional()
        custom = try reader.list()
        self.authenticatedData = try reader.opaque()
    }

    package func encode(into writer: inout TLSWriter) {
        writer.integer(epoch)
        writer.integer(committer)
        writer.flag(isExternal)
        writer.flag(hasPath)
        writer.list(added)
        writer.list(removed)
        writer.list(updated)
        writer.list(psks)
        writer.flag(extensions != nil)
        if let extensions { writer.list(extensions) }
        writer.optional(reInit)
        writer.list(custom)
        writer.opaque(authenticatedData)
    }
}
