/// Everything a member knows in one epoch.
struct EpochState: ~Copyable, Sendable {
    let shared: PublicState
    /// The member's private keys of the tree.
    let keys: TreeKeys
    let secrets: EpochSecrets
    var secretTree: SecretTree

    var suite: any CipherSuite { shared.suite }
    var context: GroupContext { shared.context }
    var tree: RatchetTree { shared.tree }
    var leafIndex: UInt32 { keys.leafIndex }

    init(shared: PublicState, keys: TreeKeys, secrets: consuming EpochSecrets, secretTree: SecretTree) {
        self.shared = shared
        self.keys = keys
        self.secrets = secrets
        self.secretTree = secretTree
    }
}

/// The part of an epoch that is kept to read its late messages (RFC 9420 §15.3).
struct PastEpoch: Sendable {
    let shared: PublicState
    let leafIndex: UInt32
    let senderData: SecretBox
    var secretTree: SecretTree
    /// The end of the epoch, in seconds since 1970, where the client has a clock.
    let ended: UInt64?
    var messagesLeft: Int

    init(_ state: borrowing EpochState, ended: UInt64?, messages: Int) {
        shared = state.shared
        leafIndex = state.leafIndex
        senderData = SecretBox(state.secrets.senderData.shared())
        secretTree = state.secretTree
        self.ended = ended
        messagesLeft = messages
    }

    /// Puts a stored epoch together again.
    init(
        shared: PublicState, leafIndex: UInt32, senderData: SecretBox, secretTree: SecretTree, ended: UInt64?,
        messagesLeft: Int
    ) {
        self.shared = shared
        self.leafIndex = leafIndex
        self.senderData = senderData
        self.secretTree = secretTree
        self.ended = ended
        self.messagesLeft = messagesLeft
    }
}

/// A new epoch's secrets on the way from its commit or Welcome.
struct DerivedEpoch: ~Copyable {
    let secrets: EpochSecrets
    let secretTree: SecretTree
    let confirmationTag: [UInt8]

    init(_ suite: any CipherSuite, epochSecret: consuming Secret, context: GroupContext, tree: RatchetTree) {
        secrets = EpochSecrets(suite, epochSecret: epochSecret)
        secretTree = SecretTree(
            suite, encryptionSecret: suite.encryptionSecret(epochSecret: epochSecret), leaves: tree.leafCapacity)
        confirmationTag = secrets.confirmationTag(
            suite, confirmedTranscriptHash: context.confirmedTranscriptHash)
    }

    consuming func state(
        _ suite: any CipherSuite, context: GroupContext, tree: RatchetTree, keys: TreeKeys
    ) -> EpochState {
        EpochState(
            shared: PublicState(suite, context: context, tree: tree, confirmationTag: confirmationTag), keys: keys,
            secrets: secrets, secretTree: secretTree)
    }
}
