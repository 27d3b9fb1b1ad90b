@testable import KithMLS

/// A commit that breaks one rule on purpose: everything else is made as it should be, so that nothing but the broken
/// rule speaks against it.
struct Forgery {
    /// The content of the commit, whatever the rules ask for.
    var proposals: [ProposalOrReference] = []
    /// True when it brings a path.
    var hasPath = true
    /// Changes the path's leaf before it is signed.
    var leaf: (inout LeafNode) -> Void = { _ in }
    /// Changes the path's leaf after it was signed.
    var signedLeaf: (inout LeafNode) -> Void = { _ in }
    /// Changes the path after it was encrypted, before the message is signed.
    var path: (inout UpdatePath) throws -> Void = { _ in }
    /// Changes the path's secrets before they are encrypted.
    var secret: (inout [UInt8]) -> Void = { _ in }
    /// Replaces public keys of the path's nodes before hashes are taken over them.
    var keys: (inout [HPKEPublicKey]) -> Void = { _ in }
    /// Changes the content before it is signed.
    var content: (inout FramedContent) -> Void = { _ in }
    /// Changes the confirmation tag.
    var tag: (inout [UInt8]) -> Void = { _ in }
    /// The signature key of a new leaf.
    var signatureKey: SignaturePrivateKey?
    /// The keys that are mixed in.
    var psks = PreSharedKeys()

    init(_ proposals: [Proposal] = []) { self.proposals = proposals.map { .proposal($0) } }
}

/// The forger: a member, or somebody who joins by its own commit.
struct Forger: ~Copyable {
    let shared: PublicState
    let sender: Sender
    let leaf: UInt32
    let initSecret: Secret
    let signatureKey: SignaturePrivateKey
    let profile: LeafProfile
    let queue: ProposalQueue

    /// Applies what can be applied, and checks nothing.
    private func apply(_ commit: [ProposalOrReference]) throws -> (
        tree: RatchetTree, added: [UInt32], extensions: [Extension], psks: [PreSharedKeyID]
    ) {
        var tree = shared.tree
        var extensions = shared.context.extensions
        var added: [UInt32] = []
        var psks: [PreSharedKeyID] = []
        let items = commit.compactMap { item -> (Proposal, Sender)? in
            switch item {
            case .proposal(let proposal): (proposal, sender)
            case .reference(let reference): queue[reference].map { ($0.proposal, $0.sender) }
            }
        }
        for case (.groupContextExtensions(let wanted), _) in items { extensions = wanted }
        for case (.update(let node), .member(let leaf)) in items { try tree.update(leaf, node) }
        for case (.remove(let leaf), _) in items where tree.leaf(leaf) != nil { try tree.remove(leaf) }
        for case (.add(let package), _) in items {
            // What the tree itself refuses is forged without being applied.
            if let leaf = try? tree.add(package.leafNode) { added.append(leaf) }
        }
        for case (.psk(let id), _) in items { psks.append(id) }
        return (tree, added, extensions, psks)
    }

    func commit(_ forgery: Forgery) throws -> AuthenticatedContent {
        let suite = shared.suite
        var (tree, added, extensions, psks) = try apply(forgery.proposals)
        var commitSecret = Secret.zero(suite.secretLength)
        var path: UpdatePath?
        var place = leaf
        if sender == .newMemberCommit { place = try tree.reserveLeaf() }
        if forgery.hasPath {
            let steps = tree.filteredDirectPath(place)
            var next = Secret.random(suite.secretLength)
            var keys: [HPKEPublicKey] = []
            var boxes: [SecretBox] = []
            for _ in steps {
                keys.append(try suite.nodeKey(pathSecret: next).publicKey)
                boxes.append(SecretBox(next.shared()))
                next = suite.derive(next, "path")
            }
            commitSecret = next.shared()
            forgery.keys(&keys)
            let (parents, parentHash) = RatchetTree.parents(suite, steps: steps, keys: keys)
            var node = LeafNode(
                encryptionKey: suite.generateHPKEKey().publicKey,
                signatureKey: (forgery.signatureKey ?? signatureKey).publicKey, credential: profile.credential,
                capabilities: profile.capabilities, source: .commit(parentHash: parentHash),
                extensions: profile.extensions, signature: [])
            forgery.leaf(&node)
            try node.sign(
                suite, with: forgery.signatureKey ?? signatureKey,
                at: LeafLocation(groupID: shared.context.groupID, leafIndex: place))
            forgery.signedLeaf(&node)
            var merged = tree
            // A key that stands in the tree twice cannot be merged: the receiver must refuse it before it comes to that.
            _ = try? merged.merge(place, node, parents)
            let context = try shared.provisionalContext(merged, extensions).encoded
            var nodes: [UpdatePathNode] = []
            for (index, step) in steps.enumerated() {
                var sealed: [HPKECiphertext] = []
                var failure: (any Error)?
                tree.visitResolution(step.copath, first: step.copathFirst) { node, key in
                    guard node % 2 == 1 || !added.containsSorted(node / 2) else { return }
                    do {
                        var plaintext = boxes[index].secret.reveal()
                        forgery.secret(&plaintext)
                        sealed.append(
                            try suite.encrypt(plaintext, to: key, label: "UpdatePathNode", context: context))
                    } catch { failure = error }
                }
                if let failure { throw failure }
                nodes.append(UpdatePathNode(encryptionKey: keys[index], encryptedPathSecret: HPKECiphertexts(sealed)))
            }
            var update = UpdatePath(leafNode: node, nodes: nodes)
            try forgery.path(&update)
            path = update
            tree = merged
        }
        var framed = FramedContent(
            groupID: shared.context.groupID, epoch: shared.context.epoch, sender: sender, authenticatedData: [],
            content: .commit(Commit(proposals: forgery.proposals, path: path)))
        forgery.content(&framed)
        var content = AuthenticatedContent(wireFormat: .publicMessage, content: framed)
        try content.sign(
            suite, with: sender == .newMemberCommit ? forgery.signatureKey ?? signatureKey : signatureKey,
            context: shared.contextBytes)
        var context = try shared.provisionalContext(tree, extensions)
        context.confirmedTranscriptHash = suite.confirmedTranscriptHash(
            interim: shared.interimTranscriptHash, commit: content)
        let bytes = context.encoded
        let schedule = KeySchedule(
            suite, initSecret: initSecret, commitSecret: commitSecret,
            pskSecret: (try? suite.pskSecret(psks, from: forgery.psks)) ?? .zero(suite.secretLength), context: bytes)
        let derived = DerivedEpoch(
            suite, epochSecret: schedule.epochSecret(context: bytes), context: context, tree: tree)
        var tag = derived.confirmationTag
        forgery.tag(&tag)
        content.confirmationTag = tag
        return content
    }
}

extension Group {
    /// A public message of this member with any content.
    func forged(
        _ content: FramedContent.Content, sender: Sender? = nil, key: SignaturePrivateKey? = nil,
        change: (inout FramedContent) -> Void = { _ in }, tag: [UInt8]? = nil
    ) throws(MLSError) -> MLSMessage {
        var framed = FramedContent(
            groupID: groupID, epoch: epoch, sender: sender ?? .member(leafIndex), authenticatedData: [],
            content: content)
        change(&framed)
        var authenticated = AuthenticatedContent(wireFormat: .publicMessage, content: framed)
        try authenticated.sign(state.suite, with: key ?? signatureKey, context: state.shared.contextBytes)
        authenticated.confirmationTag = tag
        var membershipTag: [UInt8]?
        if case .member = framed.sender {
            membershipTag = authenticated.membershipTag(
                state.suite, state.secrets.membershipKey, context: state.shared.contextBytes)
        }
        return .publicMessage(PublicMessage(authenticated, membershipTag: membershipTag))
    }

    /// A commit of this member with any content.
    func forged(_ forgery: Forgery) throws -> MLSMessage {
        guard let own = tree.leaf(leafIndex) else { throw MLSError.blankLeaf }
        let forger = Forger(
            shared: state.shared, sender: .member(leafIndex), leaf: leafIndex,
            initSecret: state.secrets.initSecret.shared(), signatureKey: signatureKey, profile: LeafProfile(own),
            queue: proposals)
        let content = try forger.commit(forgery)
        var membershipTag: [UInt8]?
        if case .member = content.content.sender {
            membershipTag = content.membershipTag(
                state.suite, state.secrets.membershipKey, context: state.shared.contextBytes)
        }
        return .publicMessage(PublicMessage(content, membershipTag: membershipTag))
    }

    /// A commit of somebody who joins, with any content; `proposals` get an ExternalInit in front.
    func forgedJoin(_ forgery: Forgery, by joiner: Member, externalInit: Bool = true) throws -> MLSMessage {
        let export = try state.suite.hpkeExport(
            to: state.secrets.externalKey(state.suite).publicKey, context: externalInitLabel,
            count: state.suite.secretLength)
        var forgery = forgery
        if externalInit { forgery.proposals.insert(.proposal(.externalInit(kemOutput: export.kemOutput)), at: 0) }
        let forger = Forger(
            shared: state.shared, sender: .newMemberCommit, leaf: 0,
            initSecret: externalInit ? export.secret.shared() : state.secrets.initSecret.shared(),
            signatureKey: joiner.signatureKey, profile: joiner.profile, queue: proposals)
        return .publicMessage(PublicMessage(try forger.commit(forgery), membershipTag: nil))
    }

    /// A private message with any plaintext, under any generation.
    mutating func forgedPrivate(
        _ type: ContentType, generation: UInt32? = nil, leaf: UInt32? = nil,
        plaintext change: (inout [UInt8]) -> Void = { _ in }
    ) throws -> PrivateMessage {
        let suite = state.suite
        let step = try state.secretTree.next(leaf: leafIndex, RatchetKind(type))
        let content: FramedContent.Content =
            type == .application ? .application([1, 2, 3]) : .proposal(.remove(2))
        let signed = try signed(content, [], .privateMessage)
        var writer = TLSWriter()
        content.encode(into: &writer)
        signed.encodeAuth(into: &writer)
        var plaintext = writer.bytes
        change(&plaintext)
        var message = try PrivateMessage(
            protecting: signed, suite, senderDataSecret: state.secrets.senderData, key: step.key,
            generation: step.generation, padding: 0)
        // The same once more by hand, with what was changed.
        let guardBytes: [UInt8] = [1, 2, 3, 4]
        var nonce = step.key.nonce
        for index in guardBytes.indices { nonce[index] ^= guardBytes[index] }
        var aad = TLSWriter()
        aad.opaque(groupID)
        aad.integer(epoch)
        type.encode(into: &aad)
        let senderAAD = aad.bytes
        aad.opaque([])
        message.ciphertext = suite.seal(plaintext, key: step.key.key, nonce: nonce, authenticating: aad.bytes)
        let senderData = SenderData(
            leafIndex: leaf ?? leafIndex, generation: generation ?? step.generation, reuseGuard: guardBytes)
        let outer = SenderDataKey(suite, state.secrets.senderData, ciphertext: message.ciphertext)
        message.encryptedSenderData = suite.seal(
            senderData.encoded, key: outer.key, nonce: outer.nonce, authenticating: senderAAD)
        return message
    }
}
